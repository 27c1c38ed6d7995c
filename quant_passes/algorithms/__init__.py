"""From weights to codes: one algorithm per file, all behind one protocol."""
