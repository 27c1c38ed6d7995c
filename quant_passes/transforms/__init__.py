"""Factors and rotations between inputs and weights, which leave the product alone."""
