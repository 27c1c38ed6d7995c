"""What a file that says nonsense made the reader raise, as words."""


def shown_error(error: Exception) -> str:
    """Return the text of an error; of a missing key more than the key."""
    if isinstance(error, KeyError):
        return f"it does not say `{error.args[0]}`"
    return str(error) or type(error).__name__
