"""Transforms of inputs and weights that leave their product alone and make both easier to quantize."""
