"""Scales: which values share one, how it follows from them, and tensors of codes and scales."""
