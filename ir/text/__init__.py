"""The text form of programs: printer and parser are exact inverses."""
