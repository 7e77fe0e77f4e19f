"""Compares the decisions that follow from the inputs of a partition with those on its decisions topic."""

from collections.abc import Callable, Generator, Iterator
from typing import Any

from schemas.made_decisions import MadeDecision
from streams.audit.abort_ledger import AbortLedger
from streams.audit.findings import Finding, Kind, Tally
from streams.audit.payloads import differences, digest_of, payload_of
from streams.audit.published import Published, PublishedDecisions
from streams.audit.replayer import Cause, Doubt, Recomputed
from streams.audit.wire_form import digest_of_bytes

#: Decisions kept to be looked for once more at the end; beyond it they are only counted as not yet published.
MAX_AWAITED = 100_000

#: Reads the payload of a published decision by its offset (`published.payload_of_record`).
ReadPayload = Callable[[int], dict[str, Any]]


class Comparison:
    """Takes recomputed decisions in order and yields differences.

    `settled` are the offsets of tool calls and compactions below which a worker has published everything; what is missing from
    events at or above them is `awaited`. Runs that began below `known_from` lived under a policy or an engine that is not known
    here, for the reason given with it. `place_of` writes an offset of the decisions topic as `topic[partition]@offset`.
    """

    def __init__(
        self,
        published: PublishedDecisions,
        *,
        settled: tuple[int, int],
        known_from: tuple[int, Doubt] | None = None,
        read_payload: ReadPayload,
        place_of: Callable[[int], str],
    ) -> None:
        self.tally = Tally()
        self.awaited: dict[str, Recomputed] = {}
        self._published = published
        self._settled = settled
        self._known_from = known_from
        self._read_payload = read_payload
        self._place_of = place_of
        self._aborts = AbortLedger()
        #: releases of runs that may have been published, at most one of each live run
        self._maybe_releases: set[str] = set()

    def take(self, recomputed: Recomputed) -> Iterator[Finding]:
        """Compare the next recomputed decision."""
        decision = recomputed.decision
        of_run = decision.target.scope == "run"
        if of_run and decision.action == "release" and recomputed.standing == "maybe":
            # An abort that was withdrawn and one that is released later may share it: it proves nothing.
            self._maybe_releases.add(decision.decision_id)
            yield from self._released(recomputed, found=False)
            return
        found = self._published.match(decision.decision_id)
        if of_run and decision.action == "abort":
            self._aborts.abort(recomputed, found)
        elif of_run:
            recomputed = yield from self._released(recomputed, found=bool(found))
        if not found:
            if not (of_run and decision.action == "abort"):
                yield from self._not_there(recomputed)
            return
        digest = digest_of_bytes(decision)
        for one in found:
            if one.uncompared is not None or one.again:
                continue  # counted already
            if one.digest == digest:
                self.tally.equal += one is found[0]
            else:
                yield from self._read_and_compare(recomputed, one, first=one is found[0])

    def _read_and_compare(self, recomputed: Recomputed, one: Published, *, first: bool) -> Iterator[Finding]:
        """Compare a decision that was not written as a worker would have written it now: it may say the same all the same."""
        ours, theirs = payload_of(recomputed.decision), self._read_payload(one.offset)
        if digest_of(theirs) == digest_of(ours):
            self.tally.equal += first
        elif recomputed.doubt is not None:
            self.tally.set_aside(recomputed.doubt, self._place_of(one.offset))
        else:
            yield self._counted("different", recomputed.decision, record=one.offset, fields=differences(theirs, ours))

    def _released(self, release: Recomputed, *, found: bool) -> Generator[Finding, None, Recomputed]:
        settled = self._aborts.release(release, found=found)
        self.tally.withdrawn += settled.pair
        for abort in settled.missing:
            yield from self._not_there(abort)
        for abort in settled.overtaken:
            yield from self._not_there(abort, overtaken=True)
        return settled.release

    def _not_there(self, recomputed: Recomputed, *, overtaken: bool = False) -> Iterator[Finding]:
        decision = recomputed.decision
        if recomputed.standing == "maybe":
            return
        doubt: str | None = recomputed.doubt
        if doubt == "beginning" and self._published.began_in_range(decision.run_id, decision.since.offset):
            doubt = None
        if doubt is None:
            doubt = self._doubt_of_run(decision.since.offset)
        if doubt is None and overtaken:
            doubt = "overtaken"
        if doubt is not None:
            self.tally.set_aside(doubt, str(_as_of(decision)))
        elif recomputed.standing == "soon" or not self._is_settled(recomputed.cause):
            if len(self.awaited) < MAX_AWAITED:
                self.awaited[decision.decision_id] = recomputed
            else:
                self.tally.not_yet += 1
        else:
            yield self._counted("missing", decision)

    def _doubt_of_run(self, since: int) -> Doubt | None:
        if self._known_from is not None and since < self._known_from[0]:
            return self._known_from[1]
        return "engine" if since <= self._published.foreign_until else None

    def _is_settled(self, cause: Cause | None) -> bool:
        return cause is None or cause.offset < self._settled[cause.compaction]

    def came_late(self, payload: dict[str, Any], offset: int) -> Iterator[Finding]:
        """Compare a decision that was published in the meantime, if it is one that is awaited."""
        recomputed = self.awaited.pop(str(payload.get("decision_id")), None)
        if recomputed is None:
            return
        ours = payload_of(recomputed.decision)
        if digest_of(payload) == digest_of(ours):
            self.tally.equal += 1
        else:
            yield self._counted("different", recomputed.decision, record=offset, fields=differences(payload, ours))

    def give_up(self) -> Iterator[Finding]:
        """Yield what is still awaited as not yet published."""
        for recomputed in self.awaited.values():
            again = recomputed.standing == "soon"
            reason = "the run is still to be judged again under the last policy" if again else None
            yield self._counted("not_yet", recomputed.decision, reason=reason)
        self.awaited.clear()

    def finish(self) -> Iterator[Finding]:
        """Yield what was published and follows from no input, and what was kept open until the end."""
        for abort in self._aborts.rest():
            yield from self._not_there(abort)
        published = self._published
        for reason, (number, first) in published.uncompared.items():
            self.tally.set_aside(reason, str(first), number)
        self.tally.copies = published.copies
        for origin, fault in published.unreadable:
            yield self._unreadable(str(origin), fault)
        told: set[bytes] = set()
        for one in published.unmatched():
            if one.decision_id in self._maybe_releases:
                self.tally.equal += 1
                continue
            if one.role == "withdrawal" and self._aborts.take_withdrawal(one.run, one.offset):
                self.tally.withdrawn += 1
                continue
            data = self._read_payload(one.offset)
            if published.has_variants and (said := digest_of(data)) in told:
                continue  # a copy of one that was named, in another form
            elif published.has_variants:
                told.add(said)
            since = data.get("since", {}).get("offset", 0)
            if (doubt := self._doubt_of_run(since)) is not None:
                self.tally.set_aside(doubt, self._place_of(one.offset))
            else:
                yield self._extra(one.offset, data)

    def finish_behind(self, end: int) -> Iterator[Finding]:
        """Yield decisions dated by tool calls that do not exist; `end` is where the topic ends by now."""
        for dated, offset in self._published.dated_behind:
            if dated >= end:
                yield self._extra(offset, self._read_payload(offset), reason="the tool call that it is dated by does not exist")

    def _unreadable(self, record: str, fault: str) -> Finding:
        finding = Finding(kind="unreadable", record=record, reason=fault)
        self.tally.count(finding)
        return finding

    def _extra(self, offset: int, data: dict[str, Any], *, reason: str | None = None) -> Finding:
        if "decision_id" not in data:
            return self._unreadable(self._place_of(offset), str(data.get("(event)")))
        at = data["as_of"]
        finding = Finding(
            kind="extra",
            decision_id=data["decision_id"],
            run_id=data["run_id"],
            record=self._place_of(offset),
            as_of=f"{at.get('topic')}[{at.get('partition')}]@{at.get('offset')}",
            decision=say(data),
            reason=reason,
        )
        self.tally.count(finding)
        return finding

    def _counted(
        self, kind: Kind, decision: MadeDecision, *, record: int | None = None, reason: str | None = None, fields: Any = ()
    ) -> Finding:
        finding = Finding(
            kind=kind,
            decision_id=decision.decision_id,
            run_id=decision.run_id,
            record=None if record is None else self._place_of(record),
            as_of=_as_of(decision),
            decision=say(decision.to_data()),
            reason=reason,
            fields=fields,
        )
        self.tally.count(finding)
        return finding


def say(data: dict[str, Any]) -> str:
    """Say in a few words what a decision decides: `block exec (generic_repeat, 20)`."""
    target = data.get("target") or {}
    about = target.get("tool") or "the run"
    return f"{data.get('action')} {about} ({data.get('detector')}, {data.get('count')})"


def _as_of(decision: MadeDecision) -> str:
    at = decision.as_of
    return f"{at.topic}[{at.partition}]@{at.offset}"
