"""Is a program still equal to the captured one: layer by layer, against float64 truth."""
