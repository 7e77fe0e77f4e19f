"""What another policy would change, as lines and tables for people."""

from collections import Counter
from collections.abc import Iterator

from rich.table import Table

from streams.audit.what_if import Change, Difference

_KINDS = ("gained", "lost", "earlier", "later")

#: Rows of each table; the rest is added up in one.
_MOST_ROWS = 15


def change_line(change: Change) -> str:
    """Return one line about a decision that changes."""
    at = {
        "gained": f"at {change.after}",
        "lost": f"was at {change.before}",
        "earlier": f"at {change.after}, was at {change.before}",
        "later": f"at {change.after}, was at {change.before}",
    }[change.kind]
    agent = f"  agent {change.agent_id}" if change.agent_id else ""
    return f"{change.kind:<7}  {change.action} {change.tool or 'the run'} ({change.detector})  {at}  run {change.run_id}{agent}"


def summary(difference: Difference) -> Iterator[str]:
    """Yield the numbers."""
    changes, stopped = difference.changes, difference.calls_stopped
    yield f"{difference.events:,} events of {difference.runs:,} runs"
    yield f"decisions: {', '.join(f'{changes[kind]:,} {kind}' for kind in _KINDS)}, {difference.unchanged:,} unchanged"
    saved = difference.calls_saved
    yield (
        f"calls that were made and would have been refused: {stopped['after']:,}; under the policy in force {stopped['before']:,}"
        f" ({'saves ' + format(saved, ',') if saved >= 0 else 'lets through ' + format(-saved, ',') + ' more'})"
    )
    runs = difference.runs_stopped
    yield f"runs with calls refused: {runs['after']:,}; under the policy in force {runs['before']:,}"
    well = difference.ended_well_stopped
    yield f"of them ended well all the same: {well['after']:,}; under the policy in force {well['before']:,}"


def tables(difference: Difference) -> Iterator[Table]:
    """Yield a table per detector, agent and tool, those that have something in them."""
    for title, counts, saved in (
        ("detector", difference.by_detector, None),
        ("agent", difference.by_agent, difference.calls_saved_by_agent),
        ("tool", difference.by_tool, difference.calls_saved_by_tool),
    ):
        table = _table(title, counts, saved)
        if table.row_count:
            yield table


def _table(title: str, counts: Counter[str], saved: Counter[str] | None) -> Table:
    rows: dict[str, Counter[str]] = {}
    for key, number in counts.items():
        kind, _, name = key.partition(":")
        rows.setdefault(name, Counter())[kind] += number
    for name, number in (saved or Counter()).items():
        if number:
            rows.setdefault(name, Counter())["saved"] += number
    columns = (*_KINDS, *(() if saved is None else ("saved",)))
    headings = [heading if heading != "saved" else "calls saved" for heading in columns]
    table = Table(title, *headings)
    ordered = sorted(rows.items(), key=lambda row: (-sum(abs(number) for number in row[1].values()), row[0]))
    rest: Counter[str] = Counter()
    for name, row in ordered[:_MOST_ROWS]:
        table.add_row(name or "-", *(f"{row[column]:,}" for column in columns))
    for _, row in ordered[_MOST_ROWS:]:
        for column in columns:
            rest[column] += row[column]
    if len(ordered) > _MOST_ROWS:
        table.add_row(f"{len(ordered) - _MOST_ROWS} more", *(f"{rest[column]:,}" for column in columns))
    return table
