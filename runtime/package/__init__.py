"""A compiled model on disk: kernels, plans, weights, tokenizer."""
