"""Gather the decisions of a run into loops: from where to where the same calls went round, and what that took."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Literal

from schemas.made_decisions import MadeDecision
from streams.detection.history import SignatureKey
from streams.reports.scan_report import Level, LoopReport, Spending

#: How many loops of one run are told apart; more of them are one story.
_MAX_LOOPS = 200

_RANK = {"warn": 0, "block": 1, "abort": 2}


@dataclass(slots=True)
class Loop:
    """A loop that is being followed: calls with one of its signatures, or to one of its tools.

    `whole_run`: the run would have been ended, so whatever comes after is too much.
    """

    first: str
    last: str
    verdict_at: str
    calls: int
    signatures: set[SignatureKey]
    tools: set[str] = field(default_factory=set)
    whole_run: bool = False
    action: Literal["warn", "block", "abort"] = "warn"
    level: Level = "warning"
    message: str = ""
    detectors: dict[str, int] = field(default_factory=dict)
    critical_at: str | None = None
    shadow: bool = True
    last_number: int = 0
    after: Spending = field(default_factory=Spending)
    #: spent since the loop's last call: it belongs to the loop only when another call follows
    pending: Spending = field(default_factory=Spending)

    def report(self) -> LoopReport:
        """Return what is told about the loop."""
        tools = dict.fromkeys(tool for tool, _ in sorted(self.signatures)) | dict.fromkeys(sorted(self.tools))
        return LoopReport(
            level=self.level,
            action=self.action,
            detectors=self.detectors,
            tools=tuple(tools),
            message=self.message,
            first=self.first,
            last=self.last,
            verdict_at=self.verdict_at,
            critical_at=self.critical_at,
            calls=self.calls,
            after=self.after,
            shadow=self.shadow,
        )


class RunLoops:
    """The loops of one run, in the order of their first verdict.

    A verdict that shares a signature or a tool with a loop that goes on belongs to it, whichever detector it comes from. A
    loop is over when none of its calls was among the last `patience` calls of the run.
    """

    def __init__(self, *, patience: int) -> None:
        self.all: list[Loop] = []
        self._open: list[Loop] = []
        self._patience = patience
        #: the last calls by the sequences of their events: signature and place
        self._calls: OrderedDict[int, tuple[SignatureKey, str]] = OrderedDict()

    def call(self, key: SignatureKey, place: str, *, sequence: int, number: int, starts: bool) -> None:
        """Take in an event of a call; `number` counts the run's calls."""
        self._calls[sequence] = (key, place)
        if len(self._calls) > 2 * self._patience + 10:  # the start and the end of each call of a history
            self._calls.popitem(last=False)
        if not starts or not self._open:
            return
        for loop in self._open:
            goes_round = key in loop.signatures or key[0] in loop.tools
            if goes_round:
                loop.calls += 1
                loop.last = place
            if goes_round or loop.whole_run:
                loop.last_number = number
                loop.pending.calls += 1
                loop.after.add(loop.pending)
                loop.pending = Spending()
        self._open = [loop for loop in self._open if number - loop.last_number < self._patience]

    def spent(self, tokens: int, cost: float | None) -> None:
        """Take in what a response of the model took."""
        for loop in self._open:
            loop.pending.spend(tokens, cost)

    def decision(self, decision: MadeDecision, place: str, *, number: int) -> None:
        """Take in a decision; releases say nothing new here."""
        if decision.action == "release":
            return
        sequences = sorted({call.sequence for call in decision.evidence if call.sequence is not None})
        found = [self._calls[sequence] for sequence in sequences if sequence in self._calls]
        signatures = {key for key, _ in found}
        target = decision.target
        if target.tool is not None and target.args_hash is not None:
            signatures.add((target.tool, bytes.fromhex(target.args_hash)))
        tools = {target.tool} if target.scope == "tool" and target.tool is not None else set()
        loop = self._joined(signatures, tools)
        if loop is None:
            first, last = (found[0][1], found[-1][1]) if found else (place, place)
            loop = Loop(first, last, place, len(found), signatures)
            loop.last_number = number
            if len(self.all) < _MAX_LOOPS:
                self.all.append(loop)
                self._open.append(loop)
        loop.signatures |= signatures
        loop.tools |= tools
        loop.whole_run = loop.whole_run or target.scope == "run"
        loop.shadow = loop.shadow and decision.mode == "shadow"
        loop.detectors[decision.detector] = max(decision.count, loop.detectors.get(decision.detector, 0))
        critical = decision.level == "critical"
        if critical and loop.critical_at is None:
            loop.critical_at = place
        if not loop.message or _RANK[decision.action] > _RANK[loop.action]:
            loop.action, loop.message = decision.action, decision.message
        loop.level = "critical" if critical else loop.level

    def _joined(self, signatures: set[SignatureKey], tools: set[str]) -> Loop | None:
        for loop in reversed(self._open):
            related = bool(loop.signatures & signatures) or bool(loop.tools & tools)
            if related or any(tool in loop.tools for tool, _ in signatures) or any(tool in tools for tool, _ in loop.signatures):
                return loop
        return None
