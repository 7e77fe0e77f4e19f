"""What is on the decisions topic of one partition: its decisions by id, and its policy markers.

The decisions are kept by id, digest and offset in a temporary database, which SQLite holds in memory as far as its cache goes and
on disk beyond it, so the memory does not grow with their number.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import orjson

from schemas.cloudevents import InvalidEventError
from schemas.decisions import DECISION_TYPE, Decision, Origin
from schemas.policy_applied import POLICY_APPLIED_TYPE, PolicyApplied
from streams.audit.inputs import InputRecord
from streams.audit.payloads import comparable, digest_of
from streams.detection.engine import ENGINE_VERSION

#: KiB of the database that stay in memory.
_CACHE_KIB = 64 * 1024

#: Decisions dated behind the range that are remembered, to see whether their tool calls exist at all.
MAX_DATED_BEHIND = 10_000

#: Why a published decision is not compared.
Unreproducible = Literal["expired", "beginning", "policy", "engine"]

Role = Literal["abort", "withdrawal", "other"]


class Published(NamedTuple):
    """A decision on the topic.

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
    """Decisions about the tool calls from `start` up to `end`, in the order of the topic.

    `log_start` is the first tool-call offset that still exists, `open_end` says that the range goes as far as the topic did,
    `before` is the version of the policy that is known for what comes before the first marker.
    Feed records with `take`, then ask. What follows a marker beyond the range belongs to later events and is left out, as are
    decisions dated outside the range.
    """

    def __init__(self, *, start: int, end: int, log_start: int, open_end: bool = True, before: str | None = None) -> None:
        self.copies = 0
        self.outside = 0
        self.unreadable: list[tuple[Origin, str]] = []
        self.markers: list[tuple[Origin, PolicyApplied]] = []
        #: decisions that are not compared, by reason, with the first of each
        self.uncompared: dict[Unreproducible, tuple[int, Origin]] = {}
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

    def take(self, record: InputRecord) -> None:
        """Take in the next record of the decisions topic."""
        origin = Origin(topic=record.topic, partition=record.partition, offset=record.offset)
        try:
            body = orjson.loads(record.value or b"")
            kind, data = body["type"], body["data"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            self._take_odd(origin, record)
            return
        if kind == POLICY_APPLIED_TYPE:
            self._take_marker(origin, record)
        elif kind == DECISION_TYPE:
            try:
                self._take_decision(origin, record, body.get("id"), data)
            except (KeyError, TypeError, ValueError, AttributeError):
                self._take_odd(origin, record)

    def _take_odd(self, origin: Origin, record: InputRecord) -> None:
        try:
            Decision.from_record(record.value or b"", record.headers)
        except InvalidEventError as error:
            if error.code != "unknown_type":
                self.unreadable.append((origin, str(error)))
        else:
            self.unreadable.append((origin, "not written by a worker: binary mode"))

    def _take_marker(self, origin: Origin, record: InputRecord) -> None:
        try:
            marker = PolicyApplied.from_record(record.value or b"", record.headers)
        except InvalidEventError as error:
            self.unreadable.append((origin, str(error)))
            return
        if marker.tool_calls_offset > self._last_marker:
            self._beyond = True
        else:
            self.markers.append((origin, marker))

    def _take_decision(self, origin: Origin, record: InputRecord, event_id: object, data: dict[str, Any]) -> None:
        since, dated = data["since"]["offset"], data["as_of"]["offset"]
        key = bytes.fromhex(data["decision_id"])
        run_id: str = data["run_id"]
        if not (type(since) is int and type(dated) is int and len(key) == 16):
            raise TypeError("not a decision")
        payload = envelope_checked(data, event_id=event_id, key=record.key)
        if not self.markers:
            self.unmarked.add(data["policy_version"])
        if dated >= self._end and len(self.dated_behind) < MAX_DATED_BEHIND:
            self.dated_behind.append((dated, record.offset))
        elif dated < self._end:
            self.decided_until = max(self.decided_until, dated)
        if self._beyond or not self._start <= dated < self._end:
            self.outside += 1
            return
        uncompared: Unreproducible | None = None
        if since < self._start:
            uncompared = "expired" if since < self._log_start else "beginning"
        elif not self.markers and data["policy_version"] != self._before:
            uncompared = "policy"
        elif data["engine_version"] != ENGINE_VERSION:
            uncompared = "engine"
            self.foreign_until = max(self.foreign_until, dated)
        else:
            self._db.execute("INSERT OR IGNORE INTO origins VALUES (?, ?)", (run_id.encode(), since))
        digest = digest_of(payload)
        added = self._db.execute(
            "INSERT OR IGNORE INTO decisions VALUES (?, ?, ?, ?, ?, ?, 0)",
            (key, record.offset, digest, run_id.encode(), _role(data), uncompared),
        ).rowcount
        if added:
            if uncompared is not None:
                self._set_aside(uncompared, origin)
            return
        self.copies += 1
        first = self._db.execute("SELECT digest FROM decisions WHERE id = ?", (key,)).fetchone()[0]
        if first != digest:
            self._db.execute("INSERT INTO variants VALUES (?, ?, ?)", (key, record.offset, digest))

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


def envelope_checked(data: dict[str, Any], *, event_id: object, key: bytes | None) -> dict[str, Any]:
    """Return the payload to compare; an event id or a record key that does not fit shows as a field of its own."""
    payload = comparable(data)
    if event_id != data["decision_id"]:
        payload["(event id)"] = event_id
    if key != data["run_id"].encode():
        payload["(record key)"] = None if key is None else key.decode(errors="replace")
    return payload


def _role(data: dict[str, Any]) -> Role:
    if data["target"].get("scope") != "run":
        return "other"
    return {"abort": "abort", "release": "withdrawal"}.get(data["action"], "other")  # type: ignore[return-value]  # the two are roles
