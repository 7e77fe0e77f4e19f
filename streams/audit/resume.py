"""A file that lets a long verification go on where it was interrupted: whole partitions are done or not.

It keeps the ranges as they were fixed at the first start, so that all partitions are verified as of the same moment, and the
result of each partition that is done. A partition that was under way is verified again from its beginning.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import orjson

from streams.audit.findings import Finding, Tally
from streams.audit.planning import Selection
from streams.audit.ranges import PartitionRange
from streams.audit.verify import PartitionResult, PartitionTask
from streams.detection.engine import ENGINE_VERSION

_VERSION = 1


class ResumeError(ValueError):
    """A resume file that cannot be used; the message names it and the remedy."""


class ResumeFile:
    """The file of one verification. `asked` is what must be the same when it goes on."""

    def __init__(self, path: Path, *, selection: Selection, topic_prefix: str, policy_version: str | None) -> None:
        self._path = path
        # Through JSON, so that what is read back compares equal.
        self._asked: dict[str, Any] = orjson.loads(
            orjson.dumps(
                {"selection": asdict(selection), "prefix": topic_prefix, "policy": policy_version, "engine": ENGINE_VERSION}
            )
        )
        self._ranges: list[dict[str, Any]] = []
        self._done: dict[str, dict[str, Any]] = {}

    def load(self, tasks: Sequence[PartitionTask]) -> tuple[list[PartitionTask], list[PartitionResult]]:
        """Return the tasks that are left, as they were first fixed, and the results that are there already.

        A file that is not there yet begins with these tasks. Raises `ResumeError` and `OSError`.
        """
        if self._path.exists():
            self._read()
        else:
            self._ranges = [asdict(task.range) for task in tasks]
            self._write()
        by_partition = {task.range.partition: task for task in tasks}
        left, results = [], []
        for kept in self._ranges:
            number = kept["partition"]
            if str(number) in self._done:
                done = self._done[str(number)]
                findings = [Finding.from_json(one) for one in done["findings"]]
                results.append(PartitionResult(number, Tally.from_json(done["tally"]), findings))
                continue
            if number not in by_partition:
                raise ResumeError(f"{self._path}: its partition {number} is empty by now; begin again with another file")
            task = by_partition[number]
            try:
                fixed = msgspec.convert(kept, PartitionRange)
            except msgspec.ValidationError as error:
                raise ResumeError(f"{self._path}: partition {number}: {error}; begin again with another file") from None
            # What has been published since then about these events counts, too.
            left.append(replace(task, range=replace(fixed, decisions=task.range.decisions)))
        return left, results

    def add(self, result: PartitionResult) -> None:
        """Keep the result of a partition."""
        self._done[str(result.partition)] = {
            "tally": result.tally.to_json(),
            "findings": [finding.to_json() for finding in result.findings],
        }
        self._write()

    def _read(self) -> None:
        try:
            kept = orjson.loads(self._path.read_bytes())
            version, asked = kept["version"], kept["asked"]
            self._ranges, self._done = kept["ranges"], kept["done"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise ResumeError(f"{self._path}: not a file of `audit verify --resume`; give another name") from None
        if version != _VERSION or asked != self._asked:
            raise ResumeError(
                f"{self._path}: belongs to a verification of something else (range, run, topics, policy or version);"
                " give the same options as then, or another file"
            )

    def _write(self) -> None:
        kept = {"version": _VERSION, "asked": self._asked, "ranges": self._ranges, "done": self._done}
        beside = self._path.with_name(self._path.name + ".new")
        beside.write_bytes(orjson.dumps(kept))
        beside.replace(self._path)
