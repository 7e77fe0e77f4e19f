"""The story of a decision in words, and its calls as a table."""

from collections.abc import Iterator

from rich.table import Table

from schemas.cloudevents import format_time
from streams.audit.explanation import Aftermath, Explanation, Told

#: Calls of the table and decisions of the list that are shown in full; of more, the first and the last ones.
MOST_SHOWN = 40

_DONE = {
    "block": "the next such call is to be refused",
    "warn": "the next such call gets a warning",
    "abort": "the run is to be ended",
    "release": "what was said before no longer holds",
}


def story(explained: Explanation) -> Iterator[str]:
    """Yield the lines before the table of calls."""
    decision = explained.decision
    about = decision.target.tool or "the whole run"
    whose = "".join(
        f", {name} {value}" for name, value in (("session", decision.session_id), ("agent", decision.agent_id)) if value
    )
    yield f"Decision {decision.decision_id}: {decision.action} {about} ({_DONE[decision.action]})"
    yield f"  run {decision.run_id}{whose}"
    yield f"  {decision.message}"
    yield (
        f"Detector {decision.detector} ({decision.level}): {_counted(explained)}"
        + (f", taking turns with {decision.paired_tool}" if decision.paired_tool else "")
    )
    yield from _policy(explained)
    at = decision.as_of
    sequence = "" if at.sequence is None else f", sequence {at.sequence}"
    yield f"The run was first seen at {decision.since}."
    yield f"The decision is as of {at.topic}[{at.partition}]@{at.offset}{sequence}, {format_time(at.time)}."
    if decision.late:
        yield "It repeats an earlier one: a call that was to be refused was started all the same."
    yield f"Recomputed from the events: {explained.recomputed}."
    for one in explained.fields:
        yield f"  {one.path}: published {one.published!r}, recomputed {one.recomputed!r}"
    if explained.recomputed == "not found" and decision.target.scope == "run":
        yield "  An abort can depend on whether its compaction was read before the tool calls; that order is not recorded."


def _counted(explained: Explanation) -> str:
    decision = explained.decision
    outcomes = {call.outcome for call in explained.calls}
    if not explained.calls:
        return f"count {decision.count}"
    same = "with the same outcome" if len(outcomes) == 1 and None not in outcomes else f"with {len(outcomes)} different outcomes"
    return f"count {decision.count}, resting on {len(explained.calls)} calls {same}"


def _policy(explained: Explanation) -> Iterator[str]:
    policy = explained.policy
    if not policy.known:
        yield f"Policy {policy.version}: its policy.applied marker is not on the topic any more, so its thresholds are not known."
        return
    settings = policy.settings
    shown = ("warningThreshold", "criticalThreshold", "globalCircuitBreakerThreshold", "unknownToolThreshold", "historySize")
    thresholds = ", ".join(f"{name} {settings[name]}" for name in shown)
    window = settings["postCompactionGuard"]["windowSize"]
    since = "" if policy.since is None else f" since {format_time(policy.since)}"
    marker = "" if policy.marker is None else f" (marker {policy.marker})"
    yield f"Policy {policy.version}, in force{since}{marker}, mode {policy.mode}:"
    yield f"  {thresholds}, postCompactionGuard.windowSize {window}"


def calls_table(explained: Explanation) -> Table | None:
    """Return the calls that the decision rests on, oldest first; None when it names none."""
    if not explained.calls:
        return None
    table = Table("#", "sequence", "tool", "arguments", "started", "at", "finished", "at", "outcome")
    calls = list(enumerate(explained.calls, start=1))
    left_out = len(calls) - MOST_SHOWN
    if left_out > 0:
        calls = calls[: MOST_SHOWN // 2] + calls[-MOST_SHOWN // 2 :]
    for number, call in calls:
        table.add_row(
            str(number),
            "-" if call.sequence is None else str(call.sequence),
            call.tool,
            call.args_hash[:8],
            call.started or "-",
            "-" if call.started_at is None else format_time(call.started_at),
            call.finished or "-",
            "-" if call.finished_at is None else format_time(call.finished_at),
            "-" if call.outcome is None else call.outcome[:8],
        )
        if left_out > 0 and number == MOST_SHOWN // 2:
            table.add_row(f"... {left_out} more", *[""] * 8)
    return table


def ending(explained: Explanation) -> Iterator[str]:
    """Yield the lines after the table: what a gateway was told, and what it did."""
    told = list(explained.told)
    yield f"What gateways were told about this run ({len(told)} decisions):"
    left_out = len(told) - MOST_SHOWN
    if left_out > 0:
        told = told[: MOST_SHOWN // 2] + told[-MOST_SHOWN // 2 :]
    for number, one in enumerate(told, start=1):
        yield _told(one, this=one.decision_id == explained.decision.decision_id)
        if left_out > 0 and number == MOST_SHOWN // 2:
            yield f"    ... {left_out} more"
    yield _aftermath(explained.aftermath)


def _told(one: Told, *, this: bool) -> str:
    notes = [note for note in ("late" if one.late else None, one.reason) if note]
    decided = "" if one.decided_at is None else f" (decided {format_time(one.decided_at)})"
    said = f"{one.action} {one.about}, {one.detector} {one.count}" + (f" ({', '.join(notes)})" if notes else "")
    return f"{'>' if this else ' '}   {format_time(one.published_at)}{decided}  {one.record}  {said}"


def _aftermath(found: Aftermath) -> str:
    after = ""
    if found.after_ms is not None:
        when = "after" if found.after_ms >= 0 else "before"
        after = f" at {found.event}, {_duration(abs(found.after_ms))} {when} the decision was published"
    return {
        "enforced": f"Enforced: the gateway did as it was told{after}.",
        "late": f"Late: a call had been started already{after}.",
        "not_enforced": f"Not enforced: the call was started all the same{after}.",
        "given": f"The call that the warning is about was made{after}.",
        "shadow": "Only reported: the detector is in shadow mode, and gateways do not act on it.",
        "nothing_followed": "No such call followed" + (f" until the run ended{after}." if found.event else " so far."),
        "withdrawn": "It takes back what was said before; there is nothing to enforce.",
        "unknown": "What the gateway did cannot be told.",
    }[found.outcome]


def _duration(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 10_000 else f"{milliseconds / 1000:,.0f} s"
