"""Reading checkpoints and writing packages, lazily and safely."""
