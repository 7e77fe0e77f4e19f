"""What the worker's log says about runs and their events: who, where, why, and nothing of the content.

Each kind of line is bounded, and what was left out is counted in a line of its own. Run, session and agent ids, tool names and
call ids are the gateway's; texts of events never get here.
"""

from collections.abc import Callable, Iterable

import structlog

from schemas.cloudevents import InvalidEventError
from schemas.made_decisions import MadeDecision
from streams.detection.run_state import RunState
from streams.operations.line_limit import LineLimit
from streams.transport import Record

#: Lines per kind in ten seconds. A decision is about a run that somebody has to look at, so there may be many; of refused records
#: the first ones tell what is wrong with all.
DECISION_LINES = 100
RECORD_LINES = 5

_SAYS = {"block": "call blocked", "abort": "run aborted", "warn": "loop warning"}

log = structlog.get_logger()


class RunLog:
    """The lines of one worker about its runs."""

    def __init__(self) -> None:
        self._decisions: LineLimit[tuple[str, str]] = LineLimit(lines=DECISION_LINES)
        self._guards: LineLimit[str] = LineLimit(lines=DECISION_LINES)
        self._letters: LineLimit[tuple[str, str]] = LineLimit(lines=RECORD_LINES)
        self._misrouted: LineLimit[str] = LineLimit(lines=RECORD_LINES)

    def decided(self, decisions: Iterable[MadeDecision]) -> None:
        """Say what was decided: calls blocked, runs aborted, warnings. That something no longer holds is no line."""
        for decision in decisions:
            text = _SAYS.get(decision.action)
            if text is None or not self._decisions.allows((decision.action, decision.detector)):
                continue
            enforced = decision.mode == "enforce" and decision.action != "warn"
            say: Callable[..., None] = log.warning if enforced else log.info
            say(
                text,
                run_id=decision.run_id,
                **_given(session_id=decision.session_id, agent_id=decision.agent_id),
                action=decision.action,
                detector=decision.detector,
                **_given(tool=decision.target.tool, paired_tool=decision.paired_tool),
                count=decision.count,
                late=decision.late,
                mode=decision.mode,
                decision_id=decision.decision_id,
                at=str(decision.as_of),
                **_given(message=decision.message if decision.action == "abort" else None),  # its target names no tool
            )

    def guard_armed(self, state: RunState, *, attempts: int, record: Record) -> None:
        """Say that a run is watched after a compaction."""
        if self._guards.allows("armed"):
            log.info(
                f"post-compaction guard armed for {attempts} attempts",
                run_id=state.run_id,
                **_given(session_id=state.session_id, agent_id=state.agent_id),
                attempts=attempts,
                at=_place(record),
            )

    def dead_lettered(self, record: Record, error: InvalidEventError) -> None:
        """Say that a record is no event."""
        if self._letters.allows((record.topic, error.code)):
            log.warning("record dead-lettered", at=_place(record), code=error.code, reason=str(error))

    def misrouted(self, record: Record, partition: int) -> None:
        """Say that an event came to a wrong partition."""
        if self._misrouted.allows(record.topic):
            log.warning(
                "event in a wrong partition was sent on: its producer does not partition by murmur2 of the run id",
                at=_place(record),
                partition=partition,
            )

    def tell_left_out(self, *, at_once: bool = False) -> None:
        """Say how many lines were left out, of kinds whose interval is over; of all kinds with `at_once`."""
        for (action, detector), number in self._decisions.left_out(at_once=at_once).items():
            log.warning("decisions that are not in this log", action=action, detector=detector, number=number)
        for number in self._guards.left_out(at_once=at_once).values():
            log.info("armed guards that are not in this log", number=number)
        for (topic, code), number in self._letters.left_out(at_once=at_once).items():
            log.warning("more records dead-lettered", topic=topic, code=code, number=number)
        for topic, number in self._misrouted.left_out(at_once=at_once).items():
            log.warning("more events in wrong partitions were sent on", topic=topic, number=number)


def _place(record: Record) -> str:
    return f"{record.topic}[{record.partition}]@{record.offset}"


def _given(**fields: str | None) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value is not None}
