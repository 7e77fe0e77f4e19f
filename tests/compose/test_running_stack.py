"""What the compose file starts, started by hand: everything gets ready, and every panel has data."""

import asyncio
import contextlib
import json
import re
import shutil
import subprocess
import time
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
import yaml
from aiokafka import AIOKafkaProducer

from schemas.settings import Settings
from streams.gateway.gate import VerdictGate
from streams.gateway.publisher import EventPublisher
from tests.compose.stack import COMPOSE, Stack, get

#: Counters that have no series before something goes wrong.
ONLY_IN_TROUBLE = ("loopwarden_enforcement_dead_letters_total", "loopwarden_gateway_events_dropped_total")
PATIENCE = 90.0


def wait_for(holds: Callable[[], object], stack: Stack, what: str) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        stack.ensure_running()
        assert time.monotonic() < end, f"{what}: not within {PATIENCE:.0f} s"
        time.sleep(0.2)


@pytest.fixture
def stack(broker_traits: Any, unique_name: Callable[[str], str], tmp_path: Path) -> Iterator[Stack]:
    """Topics, workers, webhook and receiver, all ready."""
    name = unique_name("stack")
    overrides = {
        "LOOPWARDEN_BOOTSTRAP_SERVERS": broker_traits.bootstrap_servers,
        "LOOPWARDEN_TOPIC_PREFIX": f"{name}.",
        "LOOPWARDEN_GROUP": name,
        "LOOPWARDEN_ENFORCE_GROUP": f"{name}-webhook",
        "LOOPWARDEN_SESSION_TIMEOUT": str(broker_traits.session_timeout),
        "LOOPWARDEN_HEARTBEAT_INTERVAL": str(broker_traits.heartbeat_interval),
        "LOOPWARDEN_IDEMPOTENT_PRODUCER": str(broker_traits.idempotent_producer),
    }
    with Stack(tmp_path, overrides) as running:
        assert ": created" in running.run("topics")
        for service in ("receiver", "worker-1", "worker-2", "webhook"):
            running.start(service)
        yield running


def settings_of(stack: Stack) -> Settings:
    return Settings(
        bootstrap_servers=stack.overrides["LOOPWARDEN_BOOTSTRAP_SERVERS"],
        topic_prefix=stack.overrides["LOOPWARDEN_TOPIC_PREFIX"],
        idempotent_producer=stack.overrides["LOOPWARDEN_IDEMPOTENT_PRODUCER"],
    )


@pytest.mark.broker
def test_a_looping_run_reaches_the_receiver_and_every_panel_has_data(
    stack: Stack, queries: dict[str, str], compose_folder: Path
) -> None:
    for worker in ("worker-1", "worker-2"):
        wait_for(lambda worker=worker: get(f"http://{stack.address(worker)}/readyz")[0] == 200, stack, f"{worker} ready")
        assert get(f"http://{stack.address(worker)}/livez")[0] == 200
    prometheus = shutil.which("prometheus")
    if prometheus is not None:
        stack.start("prometheus", [prometheus, *prometheus_options(stack, compose_folder)])
    with metrics_of_this_process(stack):
        asyncio.run(agents_at_a_gateway(stack, queries if prometheus is not None else {}))
        exported = {service: get(f"http://{stack.address(service)}/metrics")[1] for service in ("worker-1", "webhook", "gateway")}
    if (promtool := shutil.which("promtool")) is not None:
        for service, text in exported.items():
            lint = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
            complaints = [line for line in (lint.stdout + lint.stderr).splitlines() if "loopwarden" in line]
            assert complaints == [], service
    received = [json.loads(line) for line in stack.log("receiver").splitlines() if line.startswith("{")]
    assert {"block", "warn"} <= {decision["action"] for decision in received}
    if prometheus is None:
        pytest.skip("prometheus is not installed (Debian: apt-get install prometheus): panels were not tried")


async def agents_at_a_gateway(stack: Stack, queries: dict[str, str]) -> None:
    """Let looping agents run at a gateway in this process until the receiver has heard of them and every query has data."""
    settings = settings_of(stack)
    async with sender(settings) as send, EventPublisher(settings) as publisher, VerdictGate(settings) as gate:
        await send(b"no event")
        end = time.monotonic() + PATIENCE
        empty = dict(queries)
        round_number = 0
        while True:
            round_number += 1
            run = f"round-{round_number}"
            gate.check(f"round-{round_number - 1}", "read", {"path": "a.txt"})  # blocked by now
            for number in range(25):
                publisher.call_started(run, "read", {"path": "a.txt"}, call_id=str(number))
                publisher.call_finished(run, "read", {"path": "a.txt"}, result="same", call_id=str(number))
            await publisher.flush(10)
            empty = {place: query for place, query in empty.items() if not await asyncio.to_thread(has_data, stack, query)}
            if not empty and '"block"' in stack.log("receiver"):
                return
            stack.ensure_running()
            assert time.monotonic() < end, f"without data, or without a delivery: {empty}"
            await asyncio.sleep(0.5)


@contextlib.asynccontextmanager
async def sender(settings: Settings) -> AsyncIterator[Callable[[bytes], Any]]:
    """Give a function that sends a record to the tool-calls topic."""
    producer = AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers)
    await producer.start()
    try:
        yield lambda value: producer.send_and_wait(settings.topics.tool_calls, value, key=b"run", partition=0)
    finally:
        await producer.stop()


@contextlib.contextmanager
def metrics_of_this_process(stack: Stack) -> Iterator[None]:
    """Serve what the gateway's client counts."""
    server, thread = prometheus_client.start_http_server(stack.ports["gateway"], addr="127.0.0.1")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def prometheus_options(stack: Stack, compose_folder: Path) -> list[str]:
    """Write the shipped configuration with the addresses of this machine, a scrape a second, and a gateway."""
    config = yaml.safe_load((compose_folder / "prometheus/prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(compose_folder / "prometheus/rules/*.yml")]
    for job in config["scrape_configs"]:
        for static in job["static_configs"]:
            hosts = [target.split(":")[0] for target in static["targets"]]
            static["targets"] = [stack.address("prometheus" if host == "localhost" else host) for host in hosts]
    config["scrape_configs"].append({"job_name": "gateways", "static_configs": [{"targets": [stack.address("gateway")]}]})
    (stack.folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    command = [str(word) for word in COMPOSE["services"]["prometheus"]["command"]]
    places = {"--config.file": str(stack.folder / "prometheus.yml"), "--storage.tsdb.path": str(stack.folder / "prometheus-data")}
    options = [f"{name}={places.get(name, value)}" for name, _, value in (word.partition("=") for word in command)]
    return [*options, f"--web.listen-address={stack.address('prometheus')}"]


def has_data(stack: Stack, expression: str) -> bool:
    """Whether Prometheus answers a query with at least one number; an alert's expression must only be answered."""
    bare = re.sub(r"\$__\w+", "10s", expression)
    # An alert is silent when all is well; with `bool` a comparison says 0 then.
    bare = re.sub(r"(>|==)\s*([0-9.]+)", r"\1 bool \2", bare)
    url = f"http://{stack.address('prometheus')}/api/v1/query?{urllib.parse.urlencode({'query': bare})}"
    status, text = get(url)
    if status in {0, 503}:  # not up yet
        return False
    answer = json.loads(text)
    assert answer["status"] == "success", (bare, answer)
    if any(name in expression for name in ONLY_IN_TROUBLE):
        return True
    return any(sample["value"][1] != "NaN" for sample in answer["data"]["result"])
