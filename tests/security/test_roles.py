"""Operator, enforcement worker and auditor do their work with what docs/security.md gives them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from schemas.topics import Topics
from streams.connection import Connection
from streams.permissions import describe_topics, may_join
from streams.topics_admin import admin_client
from tests.security.conftest import PASSWORDS, ROOT
from tests.security.test_revoked_permissions import CALLS

pytestmark = pytest.mark.broker

Run = Callable[..., Any]
Environment = Callable[..., dict[str, str]]


def test_an_enforcement_worker_hands_decisions_over_and_commits(
    loopwarden: Run, environment: Environment, grant: Callable[[str], None], start_worker: Callable[..., Any], tmp_path: Path
) -> None:
    grant("enforcer")
    admin = environment("PLAINTEXT")
    assert loopwarden(admin, "topics", "create").exit_code == 0
    assert loopwarden(admin, "publish", "--from", "calls", "-", text=CALLS).exit_code == 0
    start_worker(admin)
    handed_over, log = tmp_path / "decisions", tmp_path / "enforcer.log"
    command = [sys.executable, "-m", "streams.cli", "enforce", "command", "--", "sh", "-c", f"cat >> {handed_over}"]
    variables = {**os.environ, **environment("SASL_SSL", user="enforcer")}
    with (
        log.open("wb") as output,
        subprocess.Popen(command, cwd=ROOT, env=variables, stdout=output, stderr=output) as enforcer,
    ):
        deadline = time.monotonic() + 60
        while not handed_over.exists() or '"block"' not in handed_over.read_text():
            assert enforcer.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        enforcer.send_signal(signal.SIGTERM)
        assert enforcer.wait(30) == 0, log.read_text()
    assert "uthorization" not in log.read_text()
    assert PASSWORDS["enforcer"] not in log.read_text()


def test_an_operator_publishes_and_reads_policies(
    loopwarden: Run, environment: Environment, grant: Callable[[str], None], tmp_path: Path
) -> None:
    grant("operator")
    variables = environment("SASL_SSL", user="operator")
    assert loopwarden(variables, "topics", "create").exit_code == 0
    policy = tmp_path / "policy.json"
    policy.write_text('{"tools": {"loopDetection": {"enabled": true}}}')
    published = loopwarden(variables, "policy", "publish", str(policy))
    assert published.exit_code == 0, published.stderr
    shown = loopwarden(variables, "policy", "show")
    assert shown.exit_code == 0, shown.stderr


async def test_an_auditor_reads_all_that_an_audit_reads_and_may_not_join_or_write(
    loopwarden: Run, environment: Environment, grant: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    grant("auditor")
    admin = environment("PLAINTEXT")
    assert loopwarden(admin, "topics", "create").exit_code == 0
    assert loopwarden(admin, "publish", "--from", "calls", "-", text=CALLS).exit_code == 0
    given = environment("SASL_PLAINTEXT", user="auditor")
    connection = Connection(
        bootstrap_servers=given["LOOPWARDEN_BOOTSTRAP_SERVERS"],
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username="auditor",
        sasl_password=PASSWORDS["auditor"],
    )
    topics, group = Topics(prefix=given["LOOPWARDEN_TOPIC_PREFIX"]), given["LOOPWARDEN_GROUP"]
    async with admin_client(connection) as client:
        described = await describe_topics(client, [*topics.inputs, topics.decisions, topics.policies])
        assert all(topic.partitions for topic in described.values())
        assert not await may_join(client, group)
    # As the audit does it: by assignment, and a group only to ask for its offsets.
    consumer = AIOKafkaConsumer(
        **connection.client_options(), group_id=group, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    async with consumer:
        places = [TopicPartition(topics.tool_calls, number) for number in range(4)]
        assert [await consumer.committed(place) for place in places] == [None] * 4
        consumer.assign(places)
        found = 0
        while found < 48:
            found += sum(len(records) for records in (await consumer.getmany(timeout_ms=1000)).values())
