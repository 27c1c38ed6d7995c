"""Delta debugging: the smallest program on which a pass still makes its mistake."""
