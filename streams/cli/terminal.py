"""Text from events on a terminal."""


def printable(text: str) -> str:
    """Return the text on one line and without terminal codes: what cannot be printed is written as an escape."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
