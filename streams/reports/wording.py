"""Numbers, times and names as all reports write them."""

from schemas.cloudevents import format_time
from streams.reports.scan_report import LoopReport, ScanSummary, Spending


def counted(number: int, thing: str, things: str | None = None) -> str:
    """Return `1 call`, `1,204 calls`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def money(amount: float) -> str:
    """Return US dollars with as many digits as say something: `$0.0042`, `$3.10`."""
    return f"${amount:,.2f}" if amount >= 0.1 or amount == 0 else f"${amount:.4f}"


def spending(spent: Spending) -> str:
    """Return calls, and tokens and money where they are known: `12 calls, 84,210 tokens, $1.32`."""
    parts = [counted(spent.calls, "call")]
    if spent.tokens is not None:
        parts.append(counted(spent.tokens, "token"))
    if spent.cost is not None:
        parts.append(money(spent.cost))
    return ", ".join(parts)


def files_of(files: dict[str, int]) -> str:
    """Return how many files of each format there are: `3 codex files, 1 atif file`."""
    return ", ".join(counted(count, f"{name} file") for name, count in sorted(files.items()))


def span(first: str, last: str) -> str:
    """Return from where to where: `a.jsonl:3 to 17` within a file, both places in full otherwise."""
    file, mark, line = last.rpartition(":")
    if first == last:
        return first
    return f"{first} to {line}" if mark and first.rpartition(":")[0] == file else f"{first} to {last}"


def loops_found(summary: ScanSummary) -> str:
    """Return how many loops were found, and how many of them would only have been warned about."""
    if not summary.loops:
        return "no loops found"
    only = f" ({summary.warnings:,} of them only warned about)" if summary.warnings else ""
    return f"{counted(summary.loops, 'loop')} found{only}"


def moment(time: int | None) -> str:
    """Return a time in UTC to the second, or a dash."""
    return "-" if time is None else format_time(time)[:19].replace("T", " ")


def detectors(loop: LoopReport) -> str:
    """Return the detectors of a loop with the largest count of each: `ping_pong 12, generic_repeat 10`."""
    return ", ".join(f"{name} {count}" for name, count in loop.detectors.items())


def consequence(loop: LoopReport) -> str:
    """Return what would have become of the loop's calls: `warned`, `refused`, `run ended`, or that it was only reported."""
    done = {"warn": "warned", "block": "refused", "abort": "run ended"}[loop.action]
    return f"{done} (shadow: only reported)" if loop.shadow else done
