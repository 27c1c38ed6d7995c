"""Rewrites that keep the numbers up to rounding."""
