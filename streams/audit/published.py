"""What is on the decisions topic of one partition: its decisions by id, and its policy markers."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from schemas import json_text
from schemas.cloudevents import InvalidEventError, parse
from schemas.decisions import DECISION_TYPE, Decision, Origin
from schemas.policy_applied import POLICY_APPLIED_TYPE, PolicyApplied
from streams.audit.decision_index import DecisionIndex, Entry, Role, Unmatched, Unreproducible
from streams.audit.payloads import comparable, digest_of
from streams.audit.wire_form import Head, in_wire_form
from streams.detection.engine import ENGINE_VERSION
from streams.transport import BareRecord

#: Decisions dated behind the range that are remembered, to see whether their tool calls exist at all.
MAX_DATED_BEHIND = 10_000


class Published(NamedTuple):
    """A decision on the topic; `digest` is that of its wire form, or of its payload when it has another form.

    `uncompared` says why nothing can be said about it, `again` that it was asked for before: two orders of the input topics may
    bring the same abort.
    """

    offset: int
    digest: bytes
    uncompared: Unreproducible | None
    again: bool = False


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
        self._index = DecisionIndex()

    def close(self) -> None:
        """Give the index back."""
        self._index.close()

    def take(self, record: BareRecord) -> None:
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

    def _take_odd(self, record: BareRecord) -> None:
        try:
            Decision.from_record(record.value or b"", record.headers)
        except InvalidEventError as error:
            if error.code != "unknown_type":
                self.unreadable.append((self._origin(record.offset), str(error)))
        else:
            self.unreadable.append((self._origin(record.offset), "not written by a worker: binary mode"))

    def _take_marker(self, record: BareRecord) -> None:
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
        else:
            self._index.begins(run_id, since)
        if not self._index.add(key, Entry(offset, digest, run_id.encode(), _role(head), uncompared)):
            self.copies += 1
        elif uncompared is not None:
            self._set_aside(uncompared, self._origin(offset))

    def _set_aside(self, reason: Unreproducible, origin: Origin) -> None:
        number, first = self.uncompared.get(reason, (0, origin))
        self.uncompared[reason] = (number + 1, first)

    # -- questions -------------------------------------------------------------------------------------------------------------

    def has(self, decision_id: str) -> bool:
        """Whether a decision is on the topic."""
        return self._index.has(bytes.fromhex(decision_id))

    def match(self, decision_id: str) -> list[Published]:
        """Return the decision and those of its copies that have another digest, and count it as accounted for."""
        key = bytes.fromhex(decision_id)
        found = self._index.match(key)
        if found is None:
            return []
        first = Published(found.offset, found.digest, found.uncompared, found.matched)
        if found.matched or not self._index.has_variants:
            return [first]
        return [first, *(Published(at, digest, None) for at, digest in self._index.variants(key))]

    def began_in_range(self, run_id: str, since: int) -> bool:
        """Whether a decision tells that a run began at an offset of the range."""
        return self._index.began(run_id, since)

    def beginnings(self) -> Iterator[int]:
        """Yield the offsets at which runs began according to their decisions, ascending."""
        return self._index.beginnings()

    @property
    def has_variants(self) -> bool:
        """Whether there are copies that have another digest."""
        return self._index.has_variants

    def unmatched(self) -> Iterator[Unmatched]:
        """Yield what is not accounted for, in the order of the topic, copies that have another digest included."""
        return self._index.unmatched()


def payload_of_record(record: BareRecord) -> dict[str, Any]:
    """Return the payload of a record of the decisions topic as it is compared; without a decision id when it has none."""
    try:
        return payload_checked(json_text.loads(record.value or b""), record)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return {"(event)": f"not a decision: {error}"}


def payload_checked(body: dict[str, Any], record: BareRecord) -> dict[str, Any]:
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
