"""The outside world: files, devices, terminal."""
