"""What a verification found, as lines for people."""

from collections.abc import Iterator
from typing import Any

import orjson

from streams.audit.findings import REASONS, Finding, Tally

_MOST_FIELDS = 6


def finding_line(finding: Finding) -> str:
    """Return one line: what kind, where, which run, what was decided, and how it differs."""
    places = [place for place in (finding.record, finding.as_of and f"as of {finding.as_of}") if place]
    parts = [finding.kind.replace("_", " "), finding.decision_id, *places, finding.run_id and f"run {finding.run_id}"]
    parts += [finding.decision, finding.reason]
    if finding.fields:
        shown = [
            f"{one.path}: {_text(one.published)}, recomputed {_text(one.recomputed)}" for one in finding.fields[:_MOST_FIELDS]
        ]
        more = len(finding.fields) - len(shown)
        parts.append("; ".join(shown) + (f"; and {more} more fields" if more else ""))
    return "  ".join(part for part in parts if part)


def _text(value: Any) -> str:
    return "nothing" if value is None else orjson.dumps(value).decode()


def tally_lines(tally: Tally) -> Iterator[str]:
    """Yield the summary."""
    came_to_nothing = [
        f"{number:,} {what}" for number, what in ((tally.dead_letters, "dead letters"), (tally.misrouted, "misrouted")) if number
    ]
    yield f"{tally.events:,} events" + (f" (and {', '.join(came_to_nothing)})" if came_to_nothing else "")
    numbers = {
        "equal": tally.equal,
        "missing": tally.missing,
        "extra": tally.extra,
        "different": tally.different,
        "unreadable": tally.unreadable,
    }
    shown = [f"{number:,} {what}" for what, number in numbers.items() if number or what != "unreadable"]
    yield f"decisions: {', '.join(shown)}"
    if tally.copies:
        yield f"repeated after a crash: {tally.copies:,}"
    if tally.withdrawn:
        yield f"aborts that one order of the two input topics brings and withdraws: {tally.withdrawn:,} pairs, not compared"
    if tally.not_yet:
        yield f"not published yet: {tally.not_yet:,}"
    for reason, number in sorted(tally.not_reproducible.items()):
        yield f"not reproducible: {number:,}, because {REASONS[reason]}; the first is {tally.examples[reason]}"
    yield "No differences." if not tally.differences else f"{tally.differences:,} differences."
