"""What shows that a rule is right: for all values, in every format, wherever it fires."""
