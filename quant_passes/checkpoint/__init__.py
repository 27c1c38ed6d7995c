"""Forms of checkpoints: which tensors hold a weight, and how they are read and written."""
