"""Numbers of things, as people write them."""


def counted(number: int, thing: str) -> str:
    """Return ``1 text``, ``2 texts`` or ``3 passes``."""
    ending = "es" if thing.endswith(("s", "ch")) else "s"
    return f"{number} {thing}" if number == 1 else f"{number} {thing}{ending}"
