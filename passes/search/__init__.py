"""The cheapest of all forms that the rules reach: equality saturation and extraction."""
