"""What is to be published: a record of an input topic, before it has a partition."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class OutgoingEvent:
    """An event as it goes to its topic; `value` is a structured CloudEvent, `key` the run id in UTF-8."""

    topic: str
    key: bytes
    value: bytes
    run_id: str
    sequence: int | None


class InvalidLineError(ValueError):
    """A line of an input file that cannot be published; the text is `file:line: what is wrong`."""

    def __init__(self, name: str, line: int, message: str) -> None:
        super().__init__(f"{name}:{line}: {message}")
        self.name = name
        self.line = line
