"""What a format is to the rest: a name, a way to recognise its records, and a reader."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from streams.transcripts.items import Item, Place
from streams.transcripts.records import Record
from streams.transcripts.run_names import RunNames
from streams.transcripts.seen import SeenKeys


@dataclass(frozen=True, slots=True)
class FileContext:
    """What a reader knows besides the records.

    `run_id` is for logs that do not name their run; no other file has it. `seen` are the entries that were read from
    any file, `names` the runs with sequences of their own.
    """

    file: str
    run_id: str
    seen: SeenKeys = field(default_factory=SeenKeys)
    names: RunNames = field(default_factory=RunNames)

    def place(self, line: int) -> Place:
        """Return the place of a line."""
        return Place(self.file, line)

    def run_id_at(self, document: int, element: int = 0) -> str:
        """Return the run id of a document, or of an element of one, that does not name its run.

        Several of them in one file are several runs: `log`, `log:17`, `log[3]`, `log:17[3]`.
        """
        run_id = self.run_id if document == 1 else f"{self.run_id}:{document}"
        return f"{run_id}[{element}]" if element else run_id


class Reader(Protocol):
    """Reads one file. Never raises for what a record says: what it cannot use becomes a `NotUnderstood` item."""

    def read(self, record: Record) -> Iterator[Item]:
        """Yield the items of one record."""
        ...

    def finish(self) -> Iterator[Item]:
        """Yield what was held back; called after the last record."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format of logs.

    `recognises` says whether a record (any JSON value) bears marks that no other format has.
    """

    name: str
    title: str
    recognises: Callable[[Any], bool]
    reader: Callable[[FileContext], Reader]
