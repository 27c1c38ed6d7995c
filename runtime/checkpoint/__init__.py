"""Modules and Hugging Face directories as programs and lazily read weights."""
