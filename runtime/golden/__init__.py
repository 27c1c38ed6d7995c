"""Golden output of a user's model: recorded once, compared with what later versions make of it."""
