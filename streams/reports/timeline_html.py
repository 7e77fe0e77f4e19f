"""A timeline as HTML: a strip with a cell for each call, and a table of the calls that come again.

Calls that are the same call have the same letter and colour. The foot of a cell says how the call ended: the same outcome as the
call before it with its letter, an error, or nothing known.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from streams.reports.markup import Markup, element, joined
from streams.reports.report_style import SIGNATURE_COLOURS
from streams.reports.timeline import CallMark, CompactionMark, GapMark, Mark, PromptMark, VerdictMark
from streams.reports.wording import counted, moment, span

_PROMPT = "\u203a"
_LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZ"

#: Timelines with more marks are shortened: stretches of calls that come only once are shown up to this many.
_LONG = 500
_STRETCH = 20

_VERDICT_SIGNS = {"warn": ("!", "warn"), "block": ("■", "stop"), "abort": ("✕", "stop")}


@dataclass(slots=True)
class _Signature:
    tool: str
    arguments: str
    first: str
    letter: str = ""
    colour: str = ""
    calls: int = 0
    errors: int = 0
    outcomes: set[str] = field(default_factory=set)
    newest: str | None = None
    last: str = ""


def timeline(marks: Sequence[Mark]) -> Markup:
    """Return the strip and the table of a run."""
    signatures = _signatures(marks)
    calls = sum(1 for mark in marks if isinstance(mark, CallMark))
    label = f"Timeline of {counted(calls, 'call')}; the table below has the calls that come again"
    strip = element("div", *_cells(_shortened(marks, signatures), signatures), class_="strip", role="img", aria_label=label)
    return joined(strip, _table([found for found in signatures.values() if found.letter]))


def legend() -> Markup:
    """Return what the signs of a timeline mean."""
    keys = (
        ("key s0", "A", "a call that comes again; same letter: same tool and arguments"),
        ("key same", "", "ended as the same call before it did"),
        ("key error", "", "ended with an error"),
        ("key unknown", "", "outcome not known"),
        ("key told", "", "made although it had been refused or warned about"),
        ("key mark warn", "!", "from here on the next such call would be warned about"),
        ("key mark stop", "■", "from here on such calls would be refused"),
        ("key mark stop", "✕", "the run would be ended here"),
        ("key mark plain", "⇊", "compaction of the context"),
        ("key mark plain", _PROMPT, "prompt"),
    )
    items = (
        element("li", element("span", sign, class_=style, aria_hidden="true"), f" {meaning}") for style, sign, meaning in keys
    )
    return element("ul", *items, class_="legend")


def _signatures(marks: Iterable[Mark]) -> dict[str, _Signature]:
    found: dict[str, _Signature] = {}
    for mark in marks:
        if isinstance(mark, CallMark):
            signature = found.setdefault(mark.signature, _Signature(mark.tool, mark.arguments, mark.place))
            signature.calls += 1
            signature.last = mark.place
            signature.errors += mark.outcome == "error"
            if mark.outcome_hash is not None:
                signature.outcomes.add(mark.outcome_hash)
    counts = Counter({key: signature.calls for key, signature in found.items() if signature.calls > 1})
    for number, (key, _) in enumerate(counts.most_common(len(_LETTERS))):
        found[key].letter = _LETTERS[number]
        found[key].colour = f"s{number}" if number < len(SIGNATURE_COLOURS) else ""
    return found


def _cells(marks: Sequence[Mark], signatures: dict[str, _Signature]) -> Iterable[Markup]:
    told: set[tuple[str, str, str]] = set()
    for index, mark in enumerate(marks):
        match mark:
            case CallMark():
                yield _call(mark, signatures[mark.signature], late=_is_late(marks, index))
            case CompactionMark():
                yield element("b", "⇊", class_="compaction", title=_compaction_title(mark))
            case PromptMark():
                yield element("b", _PROMPT, class_="prompt", title=f"prompt, {mark.place}, {moment(mark.time)}")
            case VerdictMark():
                key = (mark.action, mark.detector, mark.message.split(" ", 1)[0])
                if mark.action != "release" and key not in told:
                    told.add(key)
                    sign, style = _VERDICT_SIGNS[mark.action]
                    shadow = " (shadow: only reported)" if mark.shadow else ""
                    title = f"{mark.action}{shadow}: {mark.detector} {mark.count}. {mark.message} {mark.place}"
                    yield element("b", sign, class_=style, title=title)
            case GapMark():
                yield element("b", _gap_title(mark), class_="gap")


def _shortened(marks: Sequence[Mark], signatures: dict[str, _Signature]) -> list[Mark]:
    """Return the marks of a long run without the middle of each stretch of calls that come once only."""
    if len(marks) <= _LONG:
        return list(marks)
    kept: list[Mark] = []
    for single, stretch in groupby(marks, key=lambda mark: isinstance(mark, CallMark) and not signatures[mark.signature].letter):
        part = list(stretch)
        if single and len(part) > _STRETCH:
            middle = part[_STRETCH // 2 : -_STRETCH // 2]
            errors = sum(1 for mark in middle if isinstance(mark, CallMark) and mark.outcome == "error")
            kept += [*part[: _STRETCH // 2], GapMark(len(middle), errors, once=True), *part[-_STRETCH // 2 :]]
        else:
            kept += part
    return kept


def _gap_title(mark: GapMark) -> str:
    errors = f", {counted(mark.errors, 'error')}" if mark.errors else ""
    return f"… {counted(mark.calls, 'call')} {'made once' if mark.once else 'not shown'}{errors} …"


def _is_late(marks: Sequence[Mark], index: int) -> bool:
    """Whether a call was answered with a refusal at once: it was made although it had been refused."""
    following = marks[index + 1] if index + 1 < len(marks) else None
    return isinstance(following, VerdictMark) and following.action == "block"


def _call(mark: CallMark, signature: _Signature, *, late: bool) -> Markup:
    classes = [signature.colour] if signature.colour else []
    outcome = {"result": "result", "error": "error", "unknown": "outcome not known", "blocked": "refused by the gateway"}[
        mark.outcome
    ]
    if mark.outcome in ("error", "unknown", "blocked"):
        classes.append(mark.outcome)
    if mark.outcome_hash is not None:
        if mark.outcome_hash == signature.newest:
            outcome += ", the same as before"
            if mark.outcome == "result":
                classes.append("same")
        signature.newest = mark.outcome_hash
    if late:
        classes.append("told")
    arguments = f" {mark.arguments}" if mark.arguments else ""
    title = f"{mark.number}. {mark.tool}{arguments}\n{outcome}\n{mark.place}, {moment(mark.time)}"
    return element("i", signature.letter or "·", class_=" ".join(classes) or None, title=title)


def _compaction_title(mark: CompactionMark) -> str:
    tokens = f", {mark.tokens_before:,} tokens before" if mark.tokens_before is not None else ""
    if mark.tokens_after is not None:
        tokens += f", {mark.tokens_after:,} after"
    retried = "the turn went on by itself" if mark.retried else "the turn was over"
    return f"compaction: {retried}{tokens}, {mark.place}, {moment(mark.time)}"


def _table(signatures: list[_Signature]) -> Markup:
    if not signatures:
        return Markup("")
    rows = [
        element(
            "tr",
            element("td", element("span", found.letter, class_=f"key {found.colour}".strip())),
            element("td", element("code", found.tool), " ", element("span", found.arguments, class_="soft")),
            element("td", f"{found.calls:,}", class_="number"),
            element("td", f"{len(found.outcomes):,}", class_="number"),
            element("td", f"{found.errors:,}", class_="number"),
            element("td", span(found.first, found.last)),
        )
        for found in sorted(signatures, key=lambda found: -found.calls)
    ]
    head = element(
        "tr",
        element("th", "", scope="col"),
        element("th", "call", scope="col"),
        *(element("th", name, class_="number", scope="col") for name in ("times", "outcomes", "errors")),
        element("th", "where", scope="col"),
    )
    return element("table", element("thead", head), element("tbody", *rows))
