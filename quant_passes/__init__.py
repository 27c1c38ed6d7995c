"""Rewrites that change numbers within a stated budget."""
