"""The native plan runner: emitted text, the header it includes, and launchers for this computer."""
