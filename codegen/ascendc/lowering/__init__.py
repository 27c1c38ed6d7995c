"""Passes that know the chip: from the serving graph to a static launch plan."""
