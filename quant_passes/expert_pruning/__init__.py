"""Fewer routed experts: which matter, which are kept, the weights of the smaller model."""
