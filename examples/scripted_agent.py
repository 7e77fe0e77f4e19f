"""A plain agent loop that gets stuck, without Loopwarden and with it: `python examples/scripted_agent.py`.

No model and no Kafka are needed: the "model" is a script, and the embedded broker and a worker are started here. The first run
makes all of its 60 calls. In the second the tool is guarded: the model is warned, then refused, and told why; then it gives up.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.settings import Settings
from streams.broker import EmbeddedBroker
from streams.connection import Connection
from streams.gateway import RunAborted, SyncEventPublisher, SyncVerdictGate, ToolCallRefused, Verdict, guard, run_scope
from streams.processor.worker_process import WorkerProcess
from streams.topics_admin import create_topics

CALLS = 60

#: Seconds that a call of the tool takes; verdicts come a fraction of a second after the call that they rest on.
CALL_TIME = 0.15


# -- an agent ------------------------------------------------------------------------------------------------------------------


def job_status(job: str) -> str:
    """Look a job up: the tool of the agent."""
    time.sleep(CALL_TIME)
    return f"{job}: still running"


class ScriptedModel:
    """Stands for a model that waits for a job by asking again and again, until it is told that this leads nowhere."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def next_call(self, last_result: str) -> dict[str, str] | None:
        """Return the parameters of the next call, or None to stop."""
        if "Warning:" in last_result or last_result.startswith("Refused:"):
            self.told.append(last_result)
        if last_result.startswith("Refused:"):
            return None
        return {"job": "build-7"}


def run_agent(tool: Callable[[str], str]) -> tuple[int, ScriptedModel]:
    """Let the model call the tool until it stops or has used up its calls; return the calls that were made, and the model."""
    model, result, made = ScriptedModel(), "", 0
    while made < CALLS and (params := model.next_call(result)) is not None:
        try:
            result = tool(params["job"])
        except RunAborted as end:
            model.told.append(str(end))
            break
        except ToolCallRefused as refused:
            result = f"Refused: {refused}"  # what a tool answers is what the model reads
        else:
            made += 1
    return made, model


# -- the same agent, watched ---------------------------------------------------------------------------------------------------


def run_guarded_agent(settings: Settings) -> tuple[int, ScriptedModel]:
    """Run the agent with its tool guarded: these lines are what is added to it."""

    def with_warning(verdict: Verdict, result: str) -> str:
        return f"{result}\nWarning: {verdict.reason}"

    with SyncEventPublisher(settings) as publisher, SyncVerdictGate(settings) as gate:
        gate.wait_until_caught_up(timeout=10)
        watched: Callable[[str], str] = guard(gate, publisher, on_warning=with_warning)(job_status)
        with run_scope("run-1", agent_id="builder", publisher=publisher, gate=gate):
            return run_agent(watched)


# -- what stands for your Kafka and your workers -------------------------------------------------------------------------------


@contextmanager
def development_cluster() -> Iterator[Settings]:
    """Run the embedded broker and one worker; the detectors have their default thresholds."""
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as folder:
        policy = Path(folder) / "policy.json"
        policy.write_text(json.dumps({"tools": {"loopDetection": {"enabled": True}}}))
        settings = Settings(
            bootstrap_servers=broker.bootstrap_servers,
            policy_file=policy,
            idempotent_producer=False,
            session_timeout=2.0,
            heartbeat_interval=0.5,
        )
        asyncio.run(create_topics(Connection.from_settings(settings), settings.topics))
        with WorkerProcess(settings, log_path=Path(folder) / "worker.log") as worker:
            wait_until_judging(worker, settings)
            yield settings


def wait_until_judging(worker: WorkerProcess, settings: Settings) -> None:
    """Wait until the worker is up: it has judged a first event."""
    with SyncEventPublisher(settings) as publisher:
        publisher.run_ended("warm-up")
        publisher.flush(timeout=10)
        ends = [(topic, partition, offset) for (topic, partition), offset in publisher.ends.items()]
    asyncio.run(worker.wait_until_committed(ends))


def main() -> None:
    """Run the agent both ways and print how it went."""
    made, _ = run_agent(job_status)
    print(f"unguarded: the agent made {made} calls of job_status, all with the same answer")
    with development_cluster() as settings:
        made, model = run_guarded_agent(settings)
    print(f"guarded: the agent made {made} calls; it was told:")
    for text in model.told:
        print(*text.splitlines(), sep="\n    ")


if __name__ == "__main__":
    main()
