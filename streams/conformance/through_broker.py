"""Conformance of the whole product: events go through a broker and a worker, decisions are read back and folded.

Every vector is a run (or several) of its own agent, and the policy names each agent, so that all are played side by side. What a
gate would have known before a step are the decisions as of earlier sequences. A step that changes the policy is played by
publishing the new one and waiting until it is in force.
"""

import itertools
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from schemas.decisions import Decision
from schemas.events import COMPACTION_EVENTS
from schemas.policy import PolicyDocument
from schemas.policy_records import DEFAULT_KEY
from schemas.settings import Settings
from schemas.topics import Topics, partition_of
from streams.conformance.agent_policies import policy_of_agents
from streams.conformance.vectors import Difference, Json, Vector, answer_difference, answer_of, event_of, nudge, run_of
from streams.connection import Connection
from streams.gateway.decision_reader import read_decisions
from streams.gateway.verdict_map import VerdictMap
from streams.intake.outgoing import OutgoingEvent
from streams.intake.publishing import publish_events
from streams.policies_topic import MarkerWatch, publish_policy
from streams.processor.worker_process import WorkerProcess
from streams.topics_admin import create_topics

PARTITIONS = 4


@dataclass(slots=True)
class _Played:
    """One vector in one form; `name` is its agent id and begins its run ids."""

    vector: Vector
    hashed: bool
    name: str
    position: int = 0
    policy: Json = field(default_factory=dict)

    def events_until_policy(self) -> Iterable[tuple[str, str, bytes, int]]:
        """Yield run, type, wire form and sequence of the steps up to the next change of policy."""
        steps, expect = self.vector.steps, self.vector.expect
        while self.position < len(steps) and steps[self.position]["kind"] != "policy":
            step, number = steps[self.position], self.position + 1
            run_id = run_of(step, prefix=f"{self.name}-")
            blocked = expect[self.position]["action"] == "block"
            kind, wire = event_of(step, number, blocked=blocked, hashed=self.hashed, run_id=run_id, agent_id=self.name)
            self.position += 1
            yield run_id, kind, wire, number

    def change_policy(self) -> Iterable[tuple[str, str, bytes, int]]:
        """Take the next policy, and yield an event that changes nothing for each run: under it they are judged again."""
        if self.position >= len(self.vector.steps):
            return
        self.policy = self.vector.steps[self.position]["policy"]
        self.position += 1
        for run_id in sorted({run_of(step, prefix=f"{self.name}-") for step in self.vector.steps[: self.position - 1]}):
            kind, wire = nudge(self.position, run_id=run_id, agent_id=self.name)
            yield run_id, kind, wire, self.position


async def play_through_broker(
    vectors: Iterable[Vector], *, bootstrap_servers: str, settings: Settings, on_phase: Callable[[str], None] = lambda _: None
) -> list[Difference]:
    """Play vectors, raw and hash-only, through a broker and a worker of their own topics and group; return the differences."""
    plays = [
        _Played(vector, hashed, f"v{number}{'h' if hashed else 'r'}", policy=vector.policy)
        for number, vector in enumerate(vectors)
        for hashed in (False, True)
    ]
    tag = f"conformance-{uuid.uuid4().hex[:8]}"
    settings = settings.model_copy(
        update={"bootstrap_servers": bootstrap_servers, "topic_prefix": f"{tag}.", "group": tag, "commit_interval": 0.1}
    )
    connection, topics = Connection.from_settings(settings), settings.topics
    await create_topics(connection, topics, partitions=PARTITIONS)
    ends: Counter[tuple[str, int]] = Counter()
    with tempfile.TemporaryDirectory(prefix="loopwarden-") as folder:
        working = settings.model_copy(update={"policy_file": None, "data_dir": Path(folder) / "data"})
        with WorkerProcess(working, log_path=Path(folder) / "worker.log") as worker:
            nudges: list[tuple[str, str, bytes, int]] = []
            for phase in itertools.count(1):
                events = [*nudges, *(event for play in plays for event in play.events_until_policy())]
                on_phase(f"policy {phase}: {len(events)} events")
                await _put_into_force(connection, topics, plays)
                for compactions in (True, False):  # a compaction that is known early waits for its place
                    chosen = [event for event in events if (event[1] in COMPACTION_EVENTS) is compactions]
                    await _publish(settings, chosen, ends)
                    reached = [(topic, partition, end) for (topic, partition), end in ends.items()]
                    await worker.wait_until_committed(reached, patience=300)
                nudges = [event for play in plays for event in play.change_policy()]
                if not nudges:
                    break
    on_phase("comparing")
    decisions: dict[str, list[Decision]] = {}
    async for published in read_decisions(Connection.from_settings(settings), settings.topics):
        decisions.setdefault(published.decision.run_id, []).append(published.decision)
    return [difference for play in plays for difference in _differences(play, decisions)]


async def _put_into_force(connection: Connection, topics: Topics, plays: Iterable[_Played]) -> None:
    policy = PolicyDocument.from_mapping(policy_of_agents((play.name, play.policy, play.vector.agent_id) for play in plays))
    async with MarkerWatch(connection, topics) as watch:
        await publish_policy(connection, topics, policy, key=DEFAULT_KEY)
        await watch.until_in_force(policy.version)


async def _publish(settings: Settings, events: list[tuple[str, str, bytes, int]], ends: Counter[tuple[str, int]]) -> None:
    topics = settings.topics
    outgoing = []
    for run_id, kind, wire, sequence in events:
        topic = topics.compactions if kind in COMPACTION_EVENTS else topics.tool_calls
        ends[topic, partition_of(run_id, PARTITIONS)] += 1
        outgoing.append(OutgoingEvent(topic=topic, key=run_id.encode(), value=wire, run_id=run_id, sequence=sequence))
    if outgoing:
        await publish_events(Connection.from_settings(settings), outgoing, topics=topics)


def _differences(play: _Played, decisions: dict[str, list[Decision]]) -> Iterable[Difference]:
    gate = VerdictMap()
    runs = {run_of(step, prefix=f"{play.name}-") for step in play.vector.steps if step["kind"] != "policy"}
    waiting = {run_id: _distinct(decisions.get(run_id, [])) for run_id in runs}
    aborts = {run_id: {d.as_of.sequence: d for d in waiting[run_id] if d.action == "abort"} for run_id in runs}
    label = f"{play.vector.id} ({'hash-only' if play.hashed else 'raw'})"
    for number, (step, expected) in enumerate(zip(play.vector.steps, play.vector.expect, strict=True), 1):
        if step["kind"] == "policy":
            continue
        run_id = run_of(step, prefix=f"{play.name}-")
        known = waiting[run_id]
        while known and (known[0].as_of.sequence or 0) < number:
            gate.fold(known.pop(0))
        if step["kind"] == "call":
            what = answer_difference(answer_of(gate, step, run_id), expected)
            if what is not None:
                yield Difference(label, number, what)
        if step["kind"] == "outcome":
            abort = aborts[run_id].get(number)
            got = (abort.detector, abort.count) if abort else None
            wanted = (expected["detector"], expected["count"]) if expected["action"] == "abort" else None
            if got != wanted:
                yield Difference(label, number, f"abort: expected {wanted}, got {got}")


def _distinct(decisions: list[Decision]) -> list[Decision]:
    return list({decision.decision_id: decision for decision in decisions}.values())
