"""`torch.compile(module, backend="ascendfx")`."""
