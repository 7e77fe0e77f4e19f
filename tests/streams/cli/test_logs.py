"""The form of the logs, each time in a process of its own: logging belongs to the whole process."""

import json
import subprocess
import sys
from typing import Any

import pytest

SETUP = """
import logging, structlog
from streams.cli.logs import configure_logs
configure_logs({format!r})
log = structlog.get_logger("streams.processor.test")
"""


def logged(code: str, log_format: str = "json") -> list[str]:
    """Return the lines that code logs."""
    done = subprocess.run(
        [sys.executable, "-c", SETUP.format(format=log_format) + code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == ""
    return done.stderr.splitlines()


def logged_json(code: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in logged(code)]


def test_a_line_begins_with_time_level_and_event() -> None:
    (line,) = logged('log.warning("call blocked", run_id="run", count=20)')
    fields = json.loads(line)
    assert list(fields) == ["timestamp", "level", "event", "run_id", "count"]
    assert (fields["level"], fields["event"], fields["count"]) == ("warning", "call blocked", 20)
    assert fields["timestamp"].endswith("Z")


@pytest.mark.parametrize("log_format", ["json", "console", "auto"])
def test_an_event_is_one_line_whatever_a_gateway_puts_into_its_ids(log_format: str) -> None:
    hostile = "run\\n2026-01-01 [info] forged\\r\\x1b[2J\\x00"
    lines = logged(f'log.warning("call blocked", run_id="{hostile}")', log_format)
    assert len(lines) == 1
    assert "\x00" not in lines[0]
    assert "\x1b[2J" not in lines[0]


@pytest.mark.parametrize("name", ["loopwarden", "streams.processor.run_log", "streams.operations.graceful_worker"])
def test_what_we_say_to_operators_is_shown(name: str) -> None:
    assert [line["event"] for line in logged_json(f'structlog.get_logger("{name}").info("said")')] == ["said"]


def test_of_libraries_only_warnings_are_shown_and_by_whom() -> None:
    code = """
for name in ("faust.app.base", "mode.services", "aiokafka.consumer.group_coordinator"):
    logging.getLogger(name).info("chatter")
logging.getLogger("aiokafka.conn").warning("Unable to connect to %s", "kafka:9092")
"""
    (line,) = logged_json(code)
    assert (line["event"], line["logger"], line["level"]) == ("Unable to connect to kafka:9092", "aiokafka.conn", "warning")


def test_a_timer_that_is_late_on_a_busy_worker_is_no_warning() -> None:
    assert logged('logging.getLogger("mode.timers").warning("Timer %s is overlapping", "x")') == []


def test_repetitions_while_a_broker_is_away_are_left_out() -> None:
    code = """
from streams.transport.log_limit import limit_repetitions
limit_repetitions()
for attempt in range(50):
    logging.getLogger("aiokafka.conn").error("Unable to connect, attempt %s", attempt)
"""
    assert len(logged(code)) == 1


def test_an_exception_is_told_in_the_same_line() -> None:
    code = """
try:
    raise ValueError("broken")
except ValueError:
    log.exception("worker stops")
"""
    (line,) = logged_json(code)
    assert "ValueError: broken" in line["exception"]


def test_a_process_that_outlives_an_outage_shows_the_kafka_clients_warnings() -> None:
    code = """
from streams.cli.logs import let_kafka_client_speak
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # as the command line does
logging.getLogger("aiokafka.conn").error("before")
let_kafka_client_speak()
logging.getLogger("aiokafka.conn").error("after")
logging.getLogger("aiokafka.conn").info("chatter")
"""
    assert [line["event"] for line in logged_json(code)] == ["after"]
