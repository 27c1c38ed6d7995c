"""Projections of a program become products of codes."""
