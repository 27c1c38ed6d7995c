"""Ways to run a launch plan or a serving program: emulator and reference."""
