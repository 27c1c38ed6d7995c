"""Kernel families: one planner and one emitter per file."""
