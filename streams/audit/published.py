"""What is on the decisions topic of one partition: its decisions by id, and its policy markers.

The decisions are kept by id, digest and offset in a temporary database, which SQLite holds in memory as far as its cache goes and
on disk beyond it, so the memory does not grow with their number.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from schemas import json_text
from schemas.cloudevents import InvalidEventError, parse
from schemas.decisions import DECISION_TYPE, Decision, Origin
from schemas.policy_applied import POLICY_APPLIED_TYPE, PolicyApplied
from streams.audit.inputs import LogRecord
from streams.audit.payloads import comparable, digest_of
from streams.audit.wire_form import Head, in_wire_form
from streams.detection.engine import ENGINE_VERSION

#: KiB of the database that stay in memory.
_CACHE_KIB = 64 * 1024

#: Decisions dated behind the range that are remembered, to see whether their tool calls exist at all.
MAX_DATED_BEHIND = 10_000

#: Beginnings of runs that are remembered, so that each decision of a run need not be asked about.
_MAX_BEGUN = 10_000

#: Why a published decision is not compared.
Unreproducible = Literal["expired", "beginning", "policy", "engine"]

Role = Literal["abort", "withdrawal", "other"]


class Published(NamedTuple):
    """A decision on the topic; `digest` is that of its wire form, or of its payload when it has another form.

    `uncompared` says why nothing can be said about it, `again` that it was asked for before: two orders of the input topics may
    bring the same abort.
    """

    offset: int
    digest: bytes
    uncompared: Unreproducible | None
    again: bool = False


class Unmatched(NamedTuple):
    """A published decision that no input accounts for; `role` in the pair of an abort and its release."""

    decision_id: str
    offset: int
    run: bytes
    role: Role


class PublishedDecisions:
    """Decisions of a partition of `topic` about the tool calls from `start` up to `end`, in the order of the topic.

    `log_start` is the first tool-call offset that still exists, `open_end` says that the range goes as far as the topic did,
    `before` is the version of the policy that is known for what comes before the first marker.
    Feed records with `take`, then ask. What follows a marker beyond the range belongs to later events and is left out, as are
    decisions dated outside the range.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        start: int,
        end: int,
        log_start: int,
        open_end: bool = True,
        before: str | None = None,
    ) -> None:
        self._topic, self._partition = topic, partition
        self.copies = 0
        self.outside = 0
        self.unreadable: list[tuple[Origin, str]] = []
        self.markers: list[tuple[Origin, PolicyApplied]] = []
        #: decisions that are not compared, by reason, with the first of each
        self.uncompared: dict[Unreproducible, tuple[int, Origin]] = {}
        #: whether there are copies that are not the same bytes
        self.has_variants = False
        #: policies that are named before the first marker
        self.unmarked: set[str] = set()
        #: the first decisions that are dated behind the end of the range: the tool call and the record
        self.dated_behind: list[tuple[int, int]] = []
        #: the last tool call that another engine version decided about
        self.foreign_until = -1
        #: the last tool call that any decision is dated by
        self.decided_until = -1
        self._start, self._end, self._log_start = start, end, log_start
        self._last_marker = end if open_end else end - 1
        self._beyond = False
        self._before = before
        self._begun: set[tuple[str, int]] = set()
        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._db.executescript(
            f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-{_CACHE_KIB}; PRAGMA temp_store=FILE;"
            "CREATE TABLE decisions(id BLOB PRIMARY KEY, at INTEGER, digest BLOB, run BLOB, role TEXT, uncompared TEXT,"
            " matched INTEGER) WITHOUT ROWID;"
            "CREATE TABLE variants(id BLOB, at INTEGER, digest BLOB);"
            "CREATE TABLE origins(run BLOB, since INTEGER, PRIMARY KEY(run, since)) WITHOUT ROWID;"
            "BEGIN;"
        )

    def close(self) -> None:
        """Give the temporary database back."""
        self._db.close()

    def take(self, record: LogRecord) -> None:
        """Take in the next record of the decisions topic."""
        found = in_wire_form(record)
        if found is not None:
            try:
                self._take_decision(record.offset, found.head, found.digest)
            except ValueError:
                self._take_odd(record)
            return
        try:
            body = json_text.loads(record.value or b"")
            kind, data = body["type"], body["data"]
        except (ValueError, KeyError, TypeError):
            self._take_odd(record)
            return
        if kind == POLICY_APPLIED_TYPE:
            self._take_marker(record)
        elif kind == DECISION_TYPE:
            try:
                head = msgspec.convert(data, Head)
                self._take_decision(record.offset, head, digest_of(payload_checked(body, record)))
            except (KeyError, TypeError, ValueError, AttributeError, msgspec.ValidationError):
                self._take_odd(record)

    def _origin(self, offset: int) -> Origin:
        return Origin(topic=self._topic, partition=self._partition, offset=offset)

    def _take_odd(self, record: LogRecord) -> None:
        try:
            Decision.from_record(record.value or b"", record.headers)
        except InvalidEventError as error:
            if error.code != "unknown_type":
                self.unreadable.append((self._origin(record.offset), str(error)))
        else:
            self.unreadable.append((self._origin(record.offset), "not written by a worker: binary mode"))

    def _take_marker(self, record: LogRecord) -> None:
        origin = self._origin(record.offset)
        try:
            marker = PolicyApplied.from_record(record.value or b"", record.headers)
        except InvalidEventError as error:
            self.unreadable.append((origin, str(error)))
            return
        if marker.tool_calls_offset > self._last_marker:
            self._beyond = True
        else:
            self.markers.append((origin, marker))

    def _take_decision(self, offset: int, head: Head, digest: bytes) -> None:
        since, dated, run_id, version = head.since.offset, head.as_of.offset, head.run_id, head.policy_version
        key = bytes.fromhex(head.decision_id)
        if len(key) != 16:
            raise ValueError("not the id of a decision")
        if not self.markers:
            self.unmarked.add(version)
        if dated >= self._end and len(self.dated_behind) < MAX_DATED_BEHIND:
            self.dated_behind.append((dated, offset))
        elif dated < self._end:
            self.decided_until = max(self.decided_until, dated)
        if self._beyond or not self._start <= dated < self._end:
            self.outside += 1
            return
        uncompared: Unreproducible | None = None
        if since < self._start:
            uncompared = "expired" if since < self._log_start else "beginning"
        elif not self.markers and version != self._before:
            uncompared = "policy"
        elif head.engine_version != ENGINE_VERSION:
            uncompared = "engine"
            self.foreign_until = max(self.foreign_until, dated)
        elif (run_id, since) not in self._begun:
            self._begins(run_id, since)
        added = self._db.execute(
            "INSERT OR IGNORE INTO decisions VALUES (?, ?, ?, ?, ?, ?, 0)",
            (key, offset, digest, run_id.encode(), _role(head), uncompared),
        ).rowcount
        if added:
            if uncompared is not None:
                self._set_aside(uncompared, self._origin(offset))
            return
        self.copies += 1
        first = self._db.execute("SELECT digest FROM decisions WHERE id = ?", (key,)).fetchone()[0]
        if first != digest:
            self.has_variants = True
            self._db.execute("INSERT INTO variants VALUES (?, ?, ?)", (key, offset, digest))

    def _begins(self, run_id: str, since: int) -> None:
        if len(self._begun) >= _MAX_BEGUN:
            self._begun.clear()
        self._begun.add((run_id, since))
        self._db.execute("INSERT OR IGNORE INTO origins VALUES (?, ?)", (run_id.encode(), since))

    def _set_aside(self, reason: Unreproducible, origin: Origin) -> None:
        number, first = self.uncompared.get(reason, (0, origin))
        self.uncompared[reason] = (number + 1, first)

    # -- questions -------------------------------------------------------------------------------------------------------------

    def has(self, decision_id: str) -> bool:
        """Whether a decision is on the topic."""
        return self._db.execute("SELECT 1 FROM decisions WHERE id = ?", (bytes.fromhex(decision_id),)).fetchone() is not None

    def match(self, decision_id: str) -> list[Published]:
        """Return the decision and those of its copies that say something else, and count it as accounted for."""
        key = bytes.fromhex(decision_id)
        row = self._db.execute("SELECT at, digest, uncompared, matched FROM decisions WHERE id = ?", (key,)).fetchone()
        if row is None:
            return []
        at, digest, uncompared, matched = row
        if matched:
            return [Published(at, digest, uncompared, again=True)]
        self._db.execute("UPDATE decisions SET matched = 1 WHERE id = ?", (key,))
        return [Published(at, digest, uncompared), *self._variants(key)]

    def _variants(self, key: bytes) -> Iterator[Published]:
        if not self.has_variants:
            return
        for at, digest in self._db.execute("SELECT at, digest FROM variants WHERE id = ? ORDER BY at", (key,)).fetchall():
            yield Published(at, digest, None)

    def began_in_range(self, run_id: str, since: int) -> bool:
        """Whether a decision tells that a run began at an offset of the range."""
        found = self._db.execute("SELECT 1 FROM origins WHERE run = ? AND since = ?", (run_id.encode(), since))
        return found.fetchone() is not None

    def beginnings(self) -> Iterator[int]:
        """Yield the offsets at which runs began according to their decisions, ascending."""
        for (since,) in self._db.execute("SELECT DISTINCT since FROM origins ORDER BY since"):
            yield since

    def unmatched(self) -> Iterator[Unmatched]:
        """Yield what is not accounted for, in the order of the topic, copies that say something else included."""
        rows = self._db.execute(
            "SELECT d.id, d.at, d.run, d.role FROM decisions d WHERE d.matched = 0 AND d.uncompared IS NULL"
            " UNION ALL SELECT v.id, v.at, d.run, d.role FROM variants v JOIN decisions d USING (id)"
            " WHERE d.matched = 0 AND d.uncompared IS NULL ORDER BY 2"
        )
        for key, at, run, role in rows:
            yield Unmatched(key.hex(), at, run, role)


def payload_of_record(record: LogRecord) -> dict[str, Any]:
    """Return the payload of a record of the decisions topic as it is compared; without a decision id when it has none."""
    try:
        return payload_checked(json_text.loads(record.value or b""), record)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return {"(event)": f"not a decision: {error}"}


def payload_checked(body: dict[str, Any], record: LogRecord) -> dict[str, Any]:
    """Return the payload of a decision's event.

    An event id or a record key that does not fit shows as a field of its own, and so does what makes the event unreadable.
    """
    data, event_id = body["data"], body.get("id")
    payload = comparable(data)
    if event_id != data["decision_id"]:
        payload["(event id)"] = event_id
    if record.key != data["run_id"].encode():
        payload["(record key)"] = None if record.key is None else record.key.decode(errors="replace")
    try:
        parse(record.value or b"", record.headers)
    except InvalidEventError as error:
        payload["(event)"] = str(error)
    return payload


def _role(head: Head) -> Role:
    if head.target.scope != "run":
        return "other"
    return "abort" if head.action == "abort" else "withdrawal" if head.action == "release" else "other"
