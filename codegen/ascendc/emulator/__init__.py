"""The Ascend C header set that g++ compiles emitted kernels against (C++ files; no Python)."""
