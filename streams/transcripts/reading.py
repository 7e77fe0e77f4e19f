"""Read sources into one stream of items, each file by the reader of its format."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import PurePath

from streams.transcripts.format import FileContext, Format, Reader
from streams.transcripts.items import Item, NotUnderstood
from streams.transcripts.records import BadRecord, Meter, Record, records_of_document, records_of_lines, shape_of
from streams.transcripts.registry import FORMATS, format_of
from streams.transcripts.run_names import RunNames
from streams.transcripts.seen import SeenKeys
from streams.transcripts.sources import Source, SourceError, opened

#: Records looked at to recognise a format: notes without marks may stand before the first message.
_LOOK_AT = 1000


@dataclass(slots=True)
class Readings:
    """What became of the sources: how many files of each format were read, which were left out, and what was wrong with any."""

    files: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    #: files of folders that are no logs of a known format
    left_out: int = 0
    #: wrong files, each a line that names the file and what to do
    problems: list[str] = field(default_factory=list)


def read_sources(
    sources: Iterable[Source | SourceError],
    *,
    readings: Readings,
    format_name: str | None = None,
    meter: Meter = lambda count: None,
    on_file: Callable[[str, str], None] = lambda file, format_name: None,
) -> Iterator[Item]:
    """Yield the items of all files, one file after the other; what is wrong with a file is kept in `readings`.

    `format_name` is the format of every file; without it each file's is found by its content. `on_file` is told each file and its
    format before its items.
    """
    reading = _Reading(readings, format_name, meter, on_file)
    for source in sources:
        if isinstance(source, SourceError):
            readings.problems.append(str(source))
            continue
        try:
            yield from reading.read(source)
        except SourceError as error:
            readings.problems.append(str(error))
        except OSError as error:
            readings.problems.append(f"{source.name}: {(error.strerror or str(error)).lower()}")


class _Reading:
    def __init__(self, readings: Readings, format_name: str | None, meter: Meter, on_file: Callable[[str, str], None]) -> None:
        self._readings = readings
        self._format_name = format_name
        self._given_meter = meter
        self._on_file = on_file
        self._seen = SeenKeys()
        self._names = RunNames()
        self._stems: Counter[str] = Counter()

    def read(self, source: Source) -> Iterator[Item]:
        with opened(source) as (file, head):
            shape = shape_of(head)
            if shape is None:
                self._refuse(source, "the file is empty" if not head.strip() else "no JSON is in it")
                return
            split = records_of_lines if shape == "lines" else records_of_document
            records = split(file, meter=self._meter)
            first, found = self._recognised(records)
            if found is None:
                self._refuse(source, "its format is not known")
                return
            self._readings.files[found.name] += 1
            self._on_file(source.name, found.name)
            context = FileContext(source.name, self._run_id(source.name), self._seen, self._names)
            yield from _items(chain(first, records), found, context, forced=self._format_name is not None)

    def _recognised(self, records: Iterator[Record | BadRecord]) -> tuple[list[Record | BadRecord], Format | None]:
        if self._format_name is not None:
            return [], FORMATS[self._format_name]
        looked_at: list[Record | BadRecord] = []
        for record in records:
            looked_at.append(record)
            if isinstance(record, Record) and (found := format_of(record.value)) is not None:
                return looked_at, found
            if len(looked_at) >= _LOOK_AT:
                break
        return looked_at, None

    def _refuse(self, source: Source, reason: str) -> None:
        if not source.named:
            self._readings.left_out += 1
            return
        known = ", ".join(FORMATS)
        remedy = "" if reason == "the file is empty" else f"; formats are {known} (give one with --format)"
        self._readings.problems.append(f"{source.name}: {reason}{remedy}")

    def _run_id(self, name: str) -> str:
        """Return the name of a file without folder and endings, made different from that of any file before."""
        stem = PurePath(name).name.split(".", 1)[0] or "run"
        self._stems[stem] += 1
        return stem if self._stems[stem] == 1 else f"{stem}@{self._stems[stem]}"

    def _meter(self, count: int) -> None:
        self._readings.bytes += count
        self._given_meter(count)


def _read(reader: Reader, record: Record, context: FileContext) -> Iterator[Item]:
    try:
        yield from reader.read(record)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        # Readers are tested with wrong values in every place. Should one be met all the same, it costs a line, not the report.
        yield NotUnderstood(context.place(record.line), "an unexpected shape")


def _items(records: Iterable[Record | BadRecord], found: Format, context: FileContext, *, forced: bool) -> Iterator[Item]:
    reader = found.reader(context)
    for record in records:
        if isinstance(record, BadRecord):
            yield NotUnderstood(context.place(record.line), record.reason)
            continue
        for item in _read(reader, record, context):
            if isinstance(item, NotUnderstood) and not forced:
                other = format_of(record.value)
                if other is not None and other is not found:
                    raise SourceError(
                        f"{item.place}: this is of the format {other.name}, but the file began as {found.name};"
                        " split the file, or give one --format for all of it"
                    )
            yield item
    yield from reader.finish()
