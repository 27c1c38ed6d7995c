"""What a compilation leaves behind for people and for later processes."""
