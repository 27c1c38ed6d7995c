"""From graphs to programs for a chip."""
