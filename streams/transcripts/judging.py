"""Judge the runs of a log with the engine, as a worker would have while they went on."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from schemas.policy import PolicyDocument
from schemas.settings import Settings
from streams.detection import state_codec
from streams.detection.engine import apply
from streams.detection.facts import Facts
from streams.detection.history import SignatureKey
from streams.detection.run_state import RunState
from streams.reports.scan_report import RunReport, Spending, Verdict
from streams.reports.timeline import CallMark, CompactionMark, GapMark, Mark, PromptMark, VerdictMark
from streams.transcripts.item_facts import item_facts
from streams.transcripts.items import (
    MISSING,
    CallBlocked,
    CallFinished,
    CallStarted,
    Compacted,
    PromptGiven,
    RunFinished,
    RunItem,
    RunRef,
    Spent,
)
from streams.transcripts.loops import RunLoops
from streams.transcripts.preview import preview
from streams.transcripts.run_shelf import RunShelf

#: A run that is taken up again after this time starts afresh, as in a worker with the settings as they are shipped.
_RUN_TTL_MS = round(Settings.model_fields["run_ttl"].default * 1000)

#: Marks kept of a run for its timeline: those of its beginning and those of its end.
_HEAD_MARKS = 10_000
_TAIL_MARKS = 10_000


class NotJudgedError(ValueError):
    """An item that the engine cannot take in; the text holds nothing of its content."""


class _Run:
    """A run that is being judged."""

    def __init__(self, ref: RunRef, format_name: str, first: str, *, patience: int) -> None:
        self.ref = ref
        self.format = format_name
        self.state = RunState(ref.run_id)
        self.first = self.last = first
        self.started: int | None = None
        self.ended: int | None = None
        self.time = 0
        #: the event before had a time of its own
        self.dated = False
        self.sequence = 0
        self.spent = Spending()
        self.after = Spending()
        self.outcomes = 0
        self.errors = 0
        self.compactions = 0
        self.prompts = 0
        self.refused = 0
        self.stopped = False
        self.loops = RunLoops(patience=patience)
        self.head: list[Mark] = []
        self.tail: deque[Mark] = deque()
        self.hidden = 0

    def __getstate__(self) -> dict[str, Any]:
        """Write the state as workers do: a compiled one cannot be pickled."""
        return {**self.__dict__, "state": state_codec.encode(self.state)}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept, state=state_codec.decode(kept["ref"].run_id, kept["state"]))

    def report(self) -> RunReport:
        verdict: Verdict = "stopped" if self.stopped else "warned" if self.loops.all else "healthy"
        gap = (GapMark(self.hidden),) if self.hidden else ()
        return RunReport(
            run_id=self.ref.run_id,
            session_id=self.ref.session_id,
            agent_id=self.ref.agent_id,
            parent_run_id=self.ref.parent_run_id,
            format=self.format,
            first=self.first,
            last=self.last,
            started=self.started,
            ended=self.ended,
            spent=self.spent,
            errors=self.errors,
            unanswered=max(0, self.spent.calls - self.outcomes),
            compactions=self.compactions,
            prompts=self.prompts,
            refused=self.refused,
            verdict=verdict,
            after=self.after,
            loops=tuple(loop.report() for loop in self.loops.all),
            timeline=(*self.head, *gap, *self.tail),
        )


class Judge:
    """Takes in the items of any number of runs in any interleaving, and reports each run in the end.

    Runs that have not moved for long wait on disk. `timelines`: keep what is needed to draw each run.
    """

    def __init__(self, policy: PolicyDocument, *, timelines: bool = False) -> None:
        self.copies = 0
        self._policy = policy
        self._timelines = timelines
        self._runs: RunShelf[_Run] = RunShelf()
        self._offset = 0

    def take(self, item: RunItem, *, format_name: str) -> None:
        """Judge one item; raises `NotJudgedError` for one that cannot be hashed, which then counts for nothing."""
        run = self._runs.get(item.run.run_id)
        if run is None:
            patience = self._policy.for_agent(item.run.agent_id).history_size
            run = _Run(item.run, format_name, str(item.place), patience=patience)
            self._runs.put(item.run.run_id, run)
        run.last = str(item.place)
        if item.time is not None:
            run.started = item.time if run.started is None else min(run.started, item.time)
            run.ended = item.time if run.ended is None else max(run.ended, item.time)
            run.time = item.time
        if isinstance(item, Spent):
            run.spent.spend(item.tokens, item.cost)
            run.loops.spent(item.tokens, item.cost)
            if run.loops.all:
                run.after.spend(item.tokens, item.cost)
        elif isinstance(item, PromptGiven):
            run.prompts += 1
            self._mark(run, PromptMark(run.last, item.time))
        else:
            self._apply(run, item)

    def reports(self) -> Iterator[RunReport]:
        """Yield the report of each run, in the order in which they began; the runs are gone after it."""
        for run in self._runs.drain():
            yield run.report()

    # -- one item --------------------------------------------------------------------------------------------------------------

    def _apply(self, run: _Run, item: CallStarted | CallFinished | CallBlocked | Compacted | RunFinished) -> None:
        sequence = item.sequence if item.sequence is not None else run.sequence + 1
        self._offset += 1
        try:
            facts = item_facts(item, sequence=sequence, offset=self._offset, time=run.time)
        except (TypeError, ValueError) as error:
            raise NotJudgedError(f"content that cannot be hashed: {error}") from None
        run.sequence = max(run.sequence, sequence)
        # A time that is only guessed must not make a run look idle.
        dated = item.time is not None and run.dated
        run.dated = item.time is not None
        applied = apply(run.state, facts, self._policy, run_ttl_ms=_RUN_TTL_MS if dated else None)
        if applied.effect == "duplicate":
            self.copies += 1
            return
        self._count(run, item, facts, sequence)
        for decision in applied.decisions:
            if decision.action != "release":
                run.stopped = run.stopped or decision.level == "critical"
                run.loops.decision(decision, run.last, number=run.spent.calls)
                self._mark(
                    run,
                    VerdictMark(
                        run.last,
                        decision.action,
                        decision.detector,
                        decision.count,
                        decision.message,
                        decision.mode == "shadow",
                    ),
                )

    def _count(self, run: _Run, item: RunItem, facts: Facts, sequence: int) -> None:
        if isinstance(item, CallStarted) and facts.key is not None:
            run.spent.calls += 1
            if run.loops.all:
                run.after.calls += 1
            run.loops.call(facts.key, run.last, sequence=sequence, number=run.spent.calls, starts=True)
        elif isinstance(item, CallFinished) and facts.key is not None:
            run.outcomes += item.result is not MISSING or item.error is not None or item.outcome_hash is not None
            run.errors += item.error is not None or item.is_error is True
            run.loops.call(facts.key, run.last, sequence=sequence, number=run.spent.calls, starts=False)
        elif isinstance(item, Compacted):
            run.compactions += 1
        elif isinstance(item, CallBlocked):
            run.refused += 1
        if self._timelines:
            self._draw(run, item, facts)

    # -- timelines -------------------------------------------------------------------------------------------------------------

    def _draw(self, run: _Run, item: RunItem, facts: Facts) -> None:
        if isinstance(item, Compacted):
            self._mark(run, CompactionMark(run.last, item.time, item.will_retry is True, item.tokens_before, item.tokens_after))
        elif isinstance(item, CallStarted | CallBlocked) and facts.key is not None:
            mark = CallMark(
                run.spent.calls,
                run.last,
                item.time,
                facts.key[0],
                _signature_text(facts.key),
                preview(item.params) or preview(getattr(item, "preview", None)),
                "blocked" if isinstance(item, CallBlocked) else "unknown",
            )
            self._mark(run, mark)
        elif isinstance(item, CallFinished) and facts.key is not None:
            self._settle(run, item, facts)

    def _settle(self, run: _Run, item: CallFinished, facts: Facts) -> None:
        """Write an outcome into the mark of the earliest call of its kind, among the last ones, that has none."""
        if facts.outcome is None or facts.key is None:
            return
        signature = _signature_text(facts.key)
        marks = run.tail or run.head
        for index in range(max(0, len(marks) - 100), len(marks)):
            mark = marks[index]
            if isinstance(mark, CallMark) and mark.signature == signature and mark.outcome == "unknown":
                failed = item.error is not None or item.is_error is True
                marks[index] = CallMark(
                    mark.number,
                    mark.place,
                    mark.time,
                    mark.tool,
                    mark.signature,
                    mark.arguments,
                    "error" if failed else "result",
                    facts.outcome.hex(),
                )
                return

    def _mark(self, run: _Run, mark: Mark) -> None:
        if not self._timelines:
            return
        if len(run.head) < _HEAD_MARKS:
            run.head.append(mark)
            return
        run.tail.append(mark)
        if len(run.tail) > _TAIL_MARKS:
            run.hidden += isinstance(run.tail.popleft(), CallMark)


def _signature_text(key: SignatureKey) -> str:
    tool, args_hash = key
    return f"{tool} {args_hash.hex()}"
