"""Number formats as values: from numbers to codes, what codes mean, and how far off they are."""
