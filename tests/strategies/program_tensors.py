"""Random tensors for every input and checkpoint key of a program."""

from ascendfx.passes.proof.random_tensors import checkpoint_types, random_tensors

__all__ = ["checkpoint_types", "random_tensors"]
