"""What a worker measures: names by the rules, few series whatever comes in, and numbers that are right."""

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from aiokafka import AIOKafkaProducer
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import streams.enforcement.metrics
import streams.gateway.metrics
from schemas.decisions import Action
from schemas.events import CompactionCompleted, ToolCallStarted
from schemas.policy.model import DETECTOR_NAMES, Mode
from schemas.topics import Topics, partition_of
from streams.processor import metrics
from tests.streams.operations.conftest import ask, free_port
from tests.streams.operations.exposition_lint import exposed_name, families, faults

DOCS = Path(__file__).parents[3] / "docs" / "metrics.md"
ALL = (metrics, streams.enforcement.metrics, streams.gateway.metrics)

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def ours() -> list[Any]:
    metrics.begin(Topics())
    return families(REGISTRY, prefix="loopwarden_")


def test_names_follow_the_rules_of_prometheus() -> None:
    assert len(ALL) == 3
    assert len(ours()) >= 26
    assert faults(ours()) == []


def test_promtool_finds_nothing_either() -> None:
    promtool = os.environ.get("LOOPWARDEN_PROMTOOL") or shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool here; LOOPWARDEN_PROMTOOL may name one")
    ours()
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=generate_latest(), capture_output=True, check=False, timeout=60
    )
    told = [line for line in (checked.stdout + checked.stderr).decode().splitlines() if line.startswith("loopwarden_")]
    assert told == []
    assert checked.returncode == 0 or not told


def test_the_docs_list_every_metric_and_no_other() -> None:
    listed = re.findall(r"^\| `(loopwarden_\w+)` \|", DOCS.read_text(), flags=re.MULTILINE)
    assert sorted(listed) == sorted(exposed_name(metric) for metric in ours())


def test_what_is_counted_with_labels_is_there_before_it_happens() -> None:
    names = {metric.name: {frozenset(sample.labels.items()) for sample in metric.samples} for metric in ours()}
    assert frozenset({("action", "block"), ("detector", "ping_pong"), ("mode", "enforce")}) in names["loopwarden_decisions"]
    topic = Topics().tool_calls
    for result in ("applied", "duplicate", "dead_letter", "misrouted", "redelivered", "ignored", "late_compaction"):
        assert frozenset({("topic", topic), ("result", result)}) in names["loopwarden_events"]


# -- real workers --------------------------------------------------------------------------------------------------------------


def scrape(port: int) -> Series:
    """Return our series of a worker, and their values."""
    _, text, _ = ask(f"http://127.0.0.1:{port}/metrics")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("loopwarden_") and not sample.name.endswith("_created")
    }


def value(series: Series, name: str, **labels: str) -> float:
    """Return the sum of the series with these labels, -1 when there are none."""
    found = [number for (called, have), number in series.items() if called == name and labels.items() <= dict(have).items()]
    return sum(found) if found else -1.0


async def until(port: int, wanted: Callable[[Series], bool]) -> Series:
    """Scrape again and again until the series are as wanted."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(urllib.error.URLError):  # it does not listen yet
                series = await asyncio.to_thread(scrape, port)
                if wanted(series):
                    return series
            await asyncio.sleep(0.1)


async def send(lab: Any, topic: str, partition: int, values: list[tuple[bytes | None, bytes | None]]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=lab.settings.bootstrap_servers, max_request_size=8 << 20)
    await producer.start()
    try:
        for key, text in values:
            await producer.send_and_wait(topic, text, key=key, partition=partition)
    finally:
        await producer.stop()
    lab.ends[topic, partition] += len(values)


def partitions_of(series: Series, name: str) -> set[str]:
    """Return the partitions that a metric has series of."""
    return {dict(labels)["partition"] for called, labels in series if called == name}


@pytest.mark.broker
async def test_a_workers_numbers_are_those_of_what_it_was_sent(lab: Any) -> None:
    await lab.create()
    topics = lab.settings.topics
    port = free_port()
    worker = lab.worker(http_port=port)
    await lab.publish([event for number in range(5) for event in lab.run(f"run-{number}").loop(21)])
    await lab.committed(worker)
    bad = lab.run("bad")
    home = partition_of("bad", 2)
    await send(lab, topics.tool_calls, home, [(b"bad", b"no JSON")] * 3 + [(b"bad", None)])
    misrouted = bad.call("read", {})
    await send(lab, topics.tool_calls, 1 - home, [(event.key, event.value) for event in misrouted])
    series = await until(port, lambda found: value(found, "loopwarden_events_total", result="applied") >= 5 * 42 + 1)
    calls = topics.tool_calls
    assert value(series, "loopwarden_events_total", topic=calls, result="applied") == 5 * 42 + 1
    assert value(series, "loopwarden_events_total", topic=calls, result="dead_letter") == 4
    assert value(series, "loopwarden_events_total", topic=calls, result="misrouted") == 1
    assert value(series, "loopwarden_dead_letters_total", topic=calls, code="not_json") == 3
    assert value(series, "loopwarden_dead_letters_total", topic=calls, code="empty") == 1
    assert value(series, "loopwarden_misrouted_events_total", topic=calls) == 1
    assert value(series, "loopwarden_batch_records_sum") == 5 * 42 + 4 + 2
    decisions = await lab.decisions()
    assert value(series, "loopwarden_decisions_total") == len(decisions)
    blocks = [decision for decision in decisions if decision.action == "block"]
    assert value(series, "loopwarden_decisions_total", action="block", mode="enforce") == len(blocks) > 0
    assert value(series, "loopwarden_decision_latency_seconds_count") == len(decisions)
    assert value(series, "loopwarden_batch_duration_seconds_count") == value(series, "loopwarden_batch_records_count") > 0
    series = await until(
        port, lambda found: value(found, "loopwarden_live_runs") == 6 and value(found, "loopwarden_consumer_lag_records") == 0
    )
    assert value(series, "loopwarden_state_bytes") > 6 * 100
    assert value(series, "loopwarden_recovery_remaining_records") == 0
    assert partitions_of(series, "loopwarden_policy_info") == {"0", "1"}
    assert value(series, "loopwarden_consumer_lag_seconds") == 0


@pytest.mark.broker
async def test_hostile_input_makes_no_new_series(lab: Any) -> None:
    await lab.create()
    topics = lab.settings.topics
    port = free_port()
    worker = lab.worker(http_port=port)
    odd = [
        *(f'{{"specversion":"1.0","type":"{n}","id":"{n}","source":"{n}"}}'.encode() for n in range(300)),
        *(f'{{"{n}": {{'.encode() * n for n in range(50)),
        *(bytes([n]) * 20 for n in range(256)),
    ]
    for topic in topics.inputs:
        await send(lab, topic, 0, [(b"%d" % number, text) for number, text in enumerate(odd)])
    events = []
    for number in range(300):
        run = lab.run(f"run-{number}\n\x1b[31m")
        events += run.call(f"tool-{number}", {"n": number}, agent_id=f"agent-{number}", session_id=f"session-{number}")
    await lab.publish(events)
    await lab.committed(worker)
    allowed = {
        "topic": set(topics.inputs),
        "partition": {"0", "1"},
        "action": set(get_args(Action)),
        "detector": set(DETECTOR_NAMES),
        "mode": set(get_args(Mode)),
        "result": {"applied", "ignored", "duplicate", "redelivered", "late_compaction", "dead_letter", "misrouted"},
        "code": {
            *("empty", "too_large", "not_json", "not_cloudevent", "unknown_type"),
            *("wrong_topic", "invalid_data", "key_mismatch", "misrouted"),
        },
    }
    series = await until(port, lambda found: value(found, "loopwarden_events_total", result="applied") >= 300)
    assert value(series, "loopwarden_events_total", result="dead_letter") == 2 * len(odd)
    for _, labels in series:
        for label, text in labels:
            if label not in ("le", "version"):
                assert text in allowed[label]
    await asyncio.to_thread(worker.stop)
    log = worker_log(lab)
    assert 0 < log.count('"record dead-lettered"') <= 100, "a flood is a few lines"
    assert '"more records dead-lettered"' in log
    assert "\x1b[31m" not in log


def worker_log(lab: Any) -> str:
    return str((lab.folder / "worker.log").read_text())


@pytest.mark.broker
async def test_a_partition_that_moves_away_takes_its_gauges_along(lab: Any) -> None:
    await lab.create()
    first, second = free_port(), free_port()
    lab.worker(http_port=first)
    names = ("loopwarden_consumer_lag_records", "loopwarden_consumer_lag_seconds", "loopwarden_policy_info")
    await until(first, lambda found: all(partitions_of(found, name) == {"0", "1"} for name in names))
    other = lab.worker(http_port=second)
    series = await until(first, lambda found: all(len(partitions_of(found, name)) == 1 for name in names))
    (kept,) = partitions_of(series, "loopwarden_policy_info")
    there = await until(second, lambda found: all(len(partitions_of(found, name)) == 1 for name in names))
    assert partitions_of(there, "loopwarden_policy_info") == {"0", "1"} - {kept}
    await asyncio.to_thread(other.stop)
    await until(first, lambda found: all(partitions_of(found, name) == {"0", "1"} for name in names))


@pytest.mark.broker
async def test_the_version_of_the_policy_before_is_gone(lab: Any) -> None:
    await lab.create()
    port = free_port()
    worker = lab.worker({}, http_port=port)
    before = await until(port, lambda found: partitions_of(found, "loopwarden_policy_info") == {"0", "1"})
    await asyncio.to_thread(worker.stop)
    lab.worker(http_port=port)
    versions = [{dict(labels).get("version") for _, labels in before} - {None}]
    after = await until(
        port,
        lambda found: (
            partitions_of(found, "loopwarden_policy_info") == {"0", "1"}
            and {dict(labels).get("version") for _, labels in found} - {None} != versions[0]
        ),
    )
    assert sum(called == "loopwarden_policy_info" for called, _ in after) == 2


@pytest.mark.broker
async def test_late_compactions_are_counted_and_armed_guards_told(lab: Any) -> None:
    await lab.create()
    port = free_port()
    worker = lab.worker(http_port=port)
    run = lab.run()
    compaction = run.event(CompactionCompleted, will_retry=True)
    await lab.publish(run.call("read", {}, "same"))
    await lab.committed(worker)
    await lab.publish([compaction])
    await lab.committed(worker)
    series = await until(port, lambda found: value(found, "loopwarden_late_compactions_total") == 1)
    assert value(series, "loopwarden_events_total", topic=lab.settings.topics.compactions, result="late_compaction") == 1
    early = lab.run("early")
    await lab.publish([early.event(ToolCallStarted, tool="read", params={}), early.event(CompactionCompleted, will_retry=True)])
    await lab.committed(worker)
    log = worker_log(lab)
    assert "post-compaction guard armed for 3 attempts" in log, "the one that is read in time"
    assert "post-compaction guard armed for 2 attempts" in log, "the late one: an outcome was seen since"
