"""The estimate of acceptance behind a step, one place at a time."""


def rate_behind(rate: int, accepted: int, tried: int) -> int:
    """Move 1/16 of the way to 1 for each draft that was accepted, to 0 for one that was not."""
    return rate + (accepted * (65_536 - rate) - (tried - accepted) * rate) // 16
