"""Health of real workers, and stops that come to an end."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from schemas.settings import Settings
from streams.broker import EmbeddedBroker
from streams.connection import Connection
from streams.topics_admin import create_topics
from tests.streams.operations.conftest import ask, free_port

#: Seconds within which a worker has to be gone after SIGTERM.
STOPS_WITHIN = 10.0


async def answers(port: int, path: str, wanted: Callable[[int, str], bool]) -> str:
    """Ask a worker until it answers as wanted; return the text."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                status, text, _ = await asyncio.to_thread(ask, f"http://127.0.0.1:{port}{path}")
                if wanted(status, text):
                    return text
            await asyncio.sleep(0.1)


def events_of(log: Path, event: str) -> list[dict[str, Any]]:
    """Return the lines of a log with this event."""
    whole, _, _ = log.read_text().rpartition("\n")  # what is behind it is written this moment
    lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


@pytest.mark.broker
async def test_a_worker_becomes_ready_and_says_so(lab: Any) -> None:
    await lab.create()
    port = free_port()
    lab.worker(http_port=port)
    text = await answers(port, "/readyz?verbose", lambda status, _: status == 200)
    assert text.splitlines()[-1] == "readyz check passed"
    assert "[+]recovered ok: partitions 0, 1" in text
    assert await answers(port, "/livez", lambda status, _: status == 200) == "ok\n"
    assert events_of(lab.folder / "worker.log", "worker is ready")[0]["partitions"] == [0, 1]


@pytest.mark.broker
async def test_a_worker_with_a_backlog_that_is_too_old_is_not_ready_until_it_is_through(lab: Any) -> None:
    await lab.create()
    await lab.publish(lab.run().loop(5))
    port = free_port()
    # Nothing is younger than that, so any backlog is too old, and none is not.
    worker = lab.worker(http_port=port, ready_max_lag=1e-9)
    await lab.committed(worker)
    await answers(port, "/readyz", lambda status, _: status == 200)


@pytest.mark.broker
async def test_a_worker_beyond_the_number_of_partitions_is_ready(lab: Any) -> None:
    await lab.create()
    ports = [free_port() for _ in range(3)]
    for port in ports:
        lab.worker(http_port=port)
    texts = [await answers(port, "/readyz?verbose", lambda status, _: status == 200) for port in ports]
    async with asyncio.timeout(60):
        while sum("more workers than partitions" in text for text in texts) != 1:
            texts = [await answers(port, "/readyz?verbose", lambda status, _: status == 200) for port in ports]


@pytest.mark.broker
async def test_a_worker_stops_within_ten_seconds_under_load_and_commits_what_is_done(lab: Any) -> None:
    await lab.create()
    port = free_port()
    worker = lab.worker(http_port=port, commit_interval=600.0)  # so that the stop is what commits
    await answers(port, "/readyz", lambda status, _: status == 200)
    runs = [lab.run(f"run-{number}") for number in range(50)]
    events = [event for run in runs for event in run.loop(60)]
    publishing = asyncio.create_task(lab.publish(events))
    await lab.decision(lambda decision: decision.action == "block")
    began = time.monotonic()
    await asyncio.to_thread(worker.stop, timeout=60.0)
    took = time.monotonic() - began
    log = lab.folder / "worker.log"
    assert events_of(log, "worker stopped"), "it was not killed, nor did it give up"
    assert took < STOPS_WITHIN
    await publishing
    again = lab.worker(http_port=port)
    await lab.committed(again)
    _, metrics, _ = await asyncio.to_thread(ask, f"http://127.0.0.1:{port}/metrics")
    redelivered = [line for line in metrics.splitlines() if 'result="redelivered"' in line and not line.endswith(" 0.0")]
    assert not [line for line in redelivered if line.startswith("loopwarden_events_total")], "all that was done was committed"
    decisions = [decision.decision_id for decision in await lab.decisions()]
    assert len(decisions) == len(set(decisions)), "nothing was decided twice"
    assert set(decisions) == {decision.decision_id for decision in lab.engine_alone(events)}


@pytest.mark.broker
async def test_a_port_that_is_taken_ends_the_start_when_it_was_asked_for(lab: Any) -> None:
    await lab.create()
    port = free_port()
    lab.worker(http_port=port)
    await answers(port, "/livez", lambda status, _: status == 200)
    environment = {**os.environ, **lab.settings.environment(), "LOOPWARDEN_HTTP_PORT": str(port)}
    second = await asyncio.to_thread(run_worker, environment)
    assert second.returncode == 2
    assert second.stderr.splitlines()[-1] == (
        f"loopwarden: cannot serve metrics and health on 127.0.0.1:{port}: address already in use; "
        "give another LOOPWARDEN_HTTP_PORT, or 0 for none"
    )


@pytest.mark.broker
async def test_workers_on_one_machine_do_not_need_ports_of_their_own(lab: Any) -> None:
    await lab.create()
    workers = [lab.worker() for _ in range(2)]
    await lab.publish(lab.run().loop(3))
    for worker in workers:
        await lab.committed(worker)
        worker.ensure_running()


def run_worker(environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streams.cli", "worker"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


# -- a broker that does not answer: one of its own, since it is stopped in its tracks ------------------------------------------


@pytest.fixture
def frail(tmp_path: Path, unique_name: Callable[[str], str]) -> Iterator[tuple[EmbeddedBroker, Settings]]:
    """A broker of this test alone, and settings for a worker."""
    with EmbeddedBroker() as broker:
        settings = Settings(
            bootstrap_servers=broker.bootstrap_servers,
            group=unique_name("frail"),
            session_timeout=2.0,
            heartbeat_interval=0.5,
            idempotent_producer=False,
            http_port=free_port(),
            log_format="json",
        )
        yield broker, settings
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGCONT)


async def test_a_worker_lives_without_kafka_is_not_ready_and_stops_all_the_same(
    frail: tuple[EmbeddedBroker, Settings], tmp_path: Path
) -> None:
    broker, settings = frail
    port = settings.http_port
    assert port is not None
    assert broker.pid is not None
    await create_topics(Connection.from_settings(settings), settings.topics, partitions=2)
    log = tmp_path / "worker.log"
    with log.open("wb") as stderr:
        environment = {**os.environ, **settings.environment()}
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "streams.cli", "worker", env=environment, stderr=stderr
        )
    try:
        await answers(port, "/readyz", lambda status, _: status == 200)
        os.kill(broker.pid, signal.SIGSTOP)
        text = await answers(port, "/readyz", lambda status, _: status == 503)
        assert "[-]member failed" in text
        assert await answers(port, "/livez", lambda status, _: status == 200) == "ok\n"
        began = time.monotonic()
        worker.terminate()
        await asyncio.wait_for(worker.wait(), 60)
        assert time.monotonic() - began < STOPS_WITHIN
    finally:
        with contextlib.suppress(ProcessLookupError):
            worker.kill()
        await worker.wait()
    assert events_of(log, "worker stops")
