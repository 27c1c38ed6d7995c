"""The only part of the core that imports torch: from `torch.export` to the graph."""
