"""Recipes: which weights become what, by which algorithm, and what their inputs become."""
