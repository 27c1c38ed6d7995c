"""Build emitted kernels with the host compiler and run them on the CPU."""
