"""Number formats as values: how numbers become codes, what the codes mean, and how far off they are."""
