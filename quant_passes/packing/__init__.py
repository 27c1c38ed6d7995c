"""Layouts in which codes of few bits are stored; one per file, each with its inverse."""
