"""What the demo plays: recorded runs that ship with the package, or files of the user."""

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from schemas import json_text
from schemas.cloudevents import parse
from schemas.events import ToolCallStarted
from schemas.settings import Settings
from streams.intake.call_lines import events_of_calls
from streams.intake.event_lines import events_of_lines
from streams.intake.outgoing import InvalidLineError, OutgoingEvent


def recorded_events(settings: Settings) -> list[OutgoingEvent]:
    """Return the events of all recorded runs, interleaved so that the runs advance side by side and end together.

    A call and its outcome stay next to each other.
    """
    placed: list[tuple[float, str, list[OutgoingEvent]]] = []
    for resource in files("streams.demo").joinpath("runs").iterdir():
        lines = resource.read_bytes().splitlines()
        events = events_of_lines(lines, name=resource.name, topics=settings.topics, max_event_bytes=settings.max_event_bytes)
        steps: list[list[OutgoingEvent]] = []
        for event in events:
            if not steps or parse(event.value).type == ToolCallStarted.event_type():
                steps.append([])
            steps[-1].append(event)
        placed += [((number + 0.5) / len(steps), resource.name, step) for number, step in enumerate(steps)]
    placed.sort(key=lambda item: item[:2])
    return [event for _, _, step in placed for event in step]


def events_of_files(paths: list[Path], settings: Settings) -> Iterator[OutgoingEvent]:
    """Yield the events of files of event lines or call lists, each in its order.

    The first line tells which: an object with `specversion` is an event. Raises `InvalidLineError` at the first line that
    cannot be used, and `OSError`.
    """
    for path in paths:
        with path.open("rb") as lines:
            read = events_of_lines if _has_events(path) else events_of_calls
            yield from read(lines, name=str(path), topics=settings.topics, max_event_bytes=settings.max_event_bytes)


def check_files(paths: list[Path]) -> None:
    """Raise what `events_of_files` would raise for files that cannot be opened or whose first line is no JSON object."""
    for path in paths:
        _has_events(path)


def _has_events(path: Path) -> bool:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    first = json_text.loads(line)
                except ValueError as error:
                    raise InvalidLineError(str(path), number, str(error)) from None
                if not isinstance(first, dict):
                    raise InvalidLineError(str(path), number, "expected a JSON object: an event or a tool call")
                return "specversion" in first
    raise InvalidLineError(str(path), 1, "no events or calls in this file")


def short_arguments(params: object, *, width: int = 60) -> str:
    """Return the parameters of a call on one line, cut to `width` characters."""
    if isinstance(params, dict):
        text = " ".join(f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in params.items())
    else:
        text = "" if params is None else json.dumps(params)
    return text if len(text) <= width else text[: width - 1] + "…"
