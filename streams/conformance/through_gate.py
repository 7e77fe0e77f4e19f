"""Conformance of what an agent sees: it reports by a publisher and asks a gate before each call, with all between them real.

Every scenario, raw and hash-only, is an agent of its own. They step together: each asks the gate about its next call and reports
it and what follows up to the call after it; then all wait until the worker has judged everything and the gate has read what it
decided. Policies are published, and in force before the next step.
"""

import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.fingerprints import MISSING
from schemas.policy import PolicyDocument
from schemas.policy_records import DEFAULT_KEY
from schemas.settings import Settings
from streams.conformance.agent_policies import policy_of_agents
from streams.conformance.committed_offsets import CommittedOffsets
from streams.conformance.vectors import SOURCE, Difference, Json, Vector, answer_difference, run_of
from streams.connection import Connection
from streams.gateway.gate import VerdictGate
from streams.gateway.publisher import EventPublisher
from streams.policies_topic import MarkerWatch, publish_policy
from streams.processor.worker_process import WorkerProcess
from streams.topics_admin import create_topics

PARTITIONS = 4

#: Seconds: a scenario waits for the worker and for the gate before each call, the longest some 2,900 times.
_COMMIT_INTERVAL = 0.01
_FETCH_WAIT = 0.005

#: Seconds that everything may take to get from the publisher to the gate.
_PATIENCE = 120.0

#: More than the steps of all scenarios that ship: nothing may be dropped.
_BUFFER_EVENTS = 1_000_000


@dataclass(slots=True)
class _Played:
    """One vector in one form; `name` is its agent id and begins its run ids."""

    vector: Vector
    name: str
    label: str
    publisher: EventPublisher
    policy: Json
    position: int = 0
    #: the outcomes reported since the last call, by run: the number of the step and what is expected of it
    outcomes: dict[str, tuple[int, Json]] = field(default_factory=dict)

    @property
    def at_policy(self) -> bool:
        """Whether the next step changes the policy."""
        return self.position < len(self.vector.steps) and self.vector.steps[self.position]["kind"] == "policy"

    @property
    def over(self) -> bool:
        """Whether all steps have been played."""
        return self.position >= len(self.vector.steps)

    def run_of(self, step: Json) -> str:
        """Return the id of the run that a step belongs to."""
        return run_of(step, prefix=f"{self.name}-")

    def advance(self, gate: VerdictGate) -> Iterator[Difference]:
        """Play up to the next call or change of policy, a call that comes first included; yield what is not as expected."""
        first = self.position
        while not self.over and not self.at_policy:
            step, expected, number = self.vector.steps[self.position], self.vector.expect[self.position], self.position + 1
            if step["kind"] == "call":
                if self.position > first:
                    return  # all decisions of what was just reported have to be known first
                verdict = gate.check(self.run_of(step), step["tool"], step["params"])
                if (what := answer_difference(verdict, expected)) is not None:
                    yield Difference(self.label, number, what)
            self._report(step, expected, number)
            self.position += 1

    def _report(self, step: Json, expected: Json, number: int) -> None:
        run_id, publisher = self.run_of(step), self.publisher
        if step["kind"] == "compaction":
            publisher.compaction(run_id, will_retry=True, agent_id=self.name)
            return
        call = {"tool": step["tool"], "params": step["params"], "call_id": step.get("call_id"), "agent_id": self.name}
        if step["kind"] == "outcome":
            self.outcomes[run_id] = (number, expected)
            publisher.call_finished(run_id, **call, result=step.get("result", MISSING), error=step.get("error"))
        elif expected["action"] == "block":
            publisher.call_blocked(run_id, **call, reason="loop")
        else:
            publisher.call_started(run_id, **call)

    def aborts(self, gate: VerdictGate) -> Iterator[Difference]:
        """Compare which runs are to be ended after the outcomes reported last."""
        for run_id, (number, expected) in self.outcomes.items():
            verdict = gate.aborted(run_id)
            got = None if verdict is None else (verdict.detector, verdict.count)
            wanted = (expected["detector"], expected["count"]) if expected["action"] == "abort" else None
            if got != wanted:
                yield Difference(self.label, number, f"abort: expected {wanted}, got {got}")
        self.outcomes.clear()

    def change_policy(self) -> None:
        """Take the next policy, when that is the next step."""
        if self.at_policy:
            self.policy = self.vector.steps[self.position]["policy"]
            self.position += 1

    def follow_policy(self) -> None:
        """Report for each run, right after a change of policy, what changes nothing: before it, the run is judged under it."""
        played = self.vector.steps[: self.position]
        if played and played[-1]["kind"] == "policy":
            for run_id in sorted({self.run_of(step) for step in played if step["kind"] != "policy"}):
                self.publisher.call_blocked(run_id, "none", {}, reason="other", agent_id=self.name)


async def play_through_gate(
    vectors: Iterable[Vector], *, bootstrap_servers: str, settings: Settings, on_phase: Callable[[str], None] = lambda _: None
) -> list[Difference]:
    """Play vectors through publisher, broker, worker and gate, raw and hash-only; return the differences."""
    tag = f"conformance-{uuid.uuid4().hex[:8]}"
    settings = settings.model_copy(
        update={
            "bootstrap_servers": bootstrap_servers,
            "topic_prefix": f"{tag}.",
            "group": tag,
            "commit_interval": _COMMIT_INTERVAL,
        }
    )
    await create_topics(Connection.from_settings(settings), settings.topics, partitions=PARTITIONS)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="loopwarden-")))
        options: dict[str, Any] = {"source": SOURCE, "buffer_events": _BUFFER_EVENTS, "buffer_bytes": 1 << 30, "linger": 0.0}
        raw = await stack.enter_async_context(EventPublisher(settings, content="full", **options))
        hashed = await stack.enter_async_context(EventPublisher(settings, content="hash", **options))
        plays = [
            _Played(vector, f"v{number}{form[0]}", f"{vector.id} ({form})", publisher, vector.policy)
            for number, vector in enumerate(vectors)
            for form, publisher in (("raw", raw), ("hash-only", hashed))
        ]
        gate = await stack.enter_async_context(VerdictGate(settings, fetch_wait=_FETCH_WAIT, max_runs=10 * len(plays)))
        session = _Session(settings, [raw, hashed], gate, folder, on_phase)
        return await session.play(plays)


class _Session:
    def __init__(
        self,
        settings: Settings,
        publishers: list[EventPublisher],
        gate: VerdictGate,
        folder: Path,
        on_phase: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._publishers = publishers
        self._gate = gate
        self._folder = folder
        self._on_phase = on_phase
        self._differences: list[Difference] = []

    async def play(self, plays: list[_Played]) -> list[Difference]:
        async with CommittedOffsets(self._settings) as committed:
            settings = self._settings.model_copy(update={"data_dir": self._folder / "data"})
            with WorkerProcess(settings, log_path=self._folder / "worker.log") as worker:
                while not all(play.over for play in plays):
                    await self._put_into_force(plays)
                    for play in plays:
                        play.follow_policy()
                    await self._arrived(worker, committed)
                    await self._step_together(plays, worker, committed)
                    for play in plays:
                        play.change_policy()
        return self._differences

    async def _put_into_force(self, plays: list[_Played]) -> None:
        policy = PolicyDocument.from_mapping(policy_of_agents((play.name, play.policy, play.vector.agent_id) for play in plays))
        connection, topics = Connection.from_settings(self._settings), self._settings.topics
        self._on_phase(f"publishing policy {policy.version}")
        async with MarkerWatch(connection, topics) as watch:
            await publish_policy(connection, topics, policy, key=DEFAULT_KEY, source=SOURCE)
            await watch.until_in_force(policy.version, patience=_PATIENCE)

    async def _step_together(self, plays: list[_Played], worker: WorkerProcess, committed: CommittedOffsets) -> None:
        going = [play for play in plays if not play.over and not play.at_policy]
        while going:
            self._on_phase(f"{len(going)} of {len(plays)} scenarios under way, {self._gate.runs} runs with verdicts")
            for play in going:
                self._differences += play.advance(self._gate)
            await self._arrived(worker, committed)
            for play in going:
                self._differences += play.aborts(self._gate)
            going = [play for play in going if not play.over and not play.at_policy]

    async def _arrived(self, worker: WorkerProcess, committed: CommittedOffsets) -> None:
        """Wait until all that was reported has been judged, and the gate has read what was decided."""
        for publisher in self._publishers:
            if not await publisher.flush(_PATIENCE) or publisher.dropped:
                raise TimeoutError(f"{publisher.pending} events did not get to the broker, {publisher.dropped} were dropped")
        ends = dict(self._publishers[0].ends)
        for publisher in self._publishers[1:]:
            for place, offset in publisher.ends.items():
                ends[place] = max(ends.get(place, 0), offset)
        await committed.wait_for(ends, patience=_PATIENCE, ensure_running=worker.ensure_running)
        if not await self._gate.wait_until_caught_up(_PATIENCE):
            raise TimeoutError("the gate does not get to the end of the decisions")
