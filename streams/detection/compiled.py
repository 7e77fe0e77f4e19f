"""Whether the engine runs compiled, for logs and reports: verdicts and states are the same either way."""

from streams.detection import engine


def engine_form() -> str:
    """Return `compiled`, or `Python` where no C compiler was when the package was built."""
    return "Python" if engine.__file__.endswith(".py") else "compiled"
