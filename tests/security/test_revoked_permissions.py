"""A permission that is taken away under a running worker ends it; its next start says which one."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.security.documented_permissions import documented_permissions

pytestmark = pytest.mark.broker

CALLS = "".join(
    f'{{"run": "r", "seq": {number}, "tool": "read", "args": {{"path": "a"}}, "result": "same"}}\n' for number in range(1, 25)
)


@pytest.mark.parametrize(("operation", "topic"), [("Write", "decisions"), ("Read", "tool-calls"), ("Write", "changelog")])
def test_a_worker_that_may_no_longer_do_its_work_ends(
    operation: str,
    topic: str,
    loopwarden: Callable[..., Any],
    environment: Callable[..., dict[str, str]],
    allow: Callable[..., None],
    deny: Callable[..., None],
    start_worker: Callable[..., Any],
) -> None:
    admin, variables = environment("PLAINTEXT"), environment("SASL_PLAINTEXT", user="worker")
    assert loopwarden(admin, "topics", "create").exit_code == 0
    names = {"prefix": admin["LOOPWARDEN_TOPIC_PREFIX"], "group": admin["LOOPWARDEN_GROUP"]}
    permissions = [each.under(**names) for each in documented_permissions("worker")]
    allow(permissions)
    worker = start_worker(variables)
    worker.wait_until_joined()
    on_topic = [each for each in permissions if each.operation == operation and topic in each.name]
    (lacking,) = [each for each in on_topic if not each.name.endswith(".dlq")]
    deny([lacking])
    assert loopwarden(admin, "publish", "--from", "calls", "-", text=CALLS).exit_code == 0
    assert worker.process.wait(90) == 1, worker.log.read_text()
    again = start_worker(variables)
    assert again.process.wait(60) == 2
    assert f"{lacking.name}: user worker may not {operation} this topic" in again.log.read_text()
