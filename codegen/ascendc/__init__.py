"""Ascend C: targets, kernels, lowering, and the emulator's header set."""
