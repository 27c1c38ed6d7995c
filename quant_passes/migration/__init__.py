"""Outliers of activations move into weights, by proved rewrites of the program."""
