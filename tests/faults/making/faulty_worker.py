"""The worker command, with something going wrong in it: `python -m tests.faults.making.faulty_worker worker`.

The plan comes in an environment variable (`plan.FaultPlan`). Everything else is the product's: command, settings
and code.
"""

import asyncio
import faulthandler
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import Any

from aiokafka.conn import AIOKafkaConnection

from streams.cli.main import main
from streams.processor import run_processor
from streams.processor.partition_policy import POLICY_KEY
from streams.transport import batch, fetch_thread, producer, stores, table
from tests.faults.making.plan import FaultPlan

#: Seconds that a write has had when a worker is stopped in the middle of it: it is on its way, its answer is not here.
_ON_ITS_WAY = 0.001

_in_put_many: ContextVar[bool] = ContextVar("in_put_many", default=False)


class PlannedError(RuntimeError):
    """The exception of a plan."""


class Trigger:
    """Counts how often the point was passed, and acts when it is time."""

    def __init__(self, plan: FaultPlan) -> None:
        self._plan = plan
        self._passed = 0

    def loses(self, kind: str, records: Sequence[Any]) -> bool:
        """Whether this write is to be lost: the records are of runs, not of policies."""
        if self._plan.action != "lose" or self._plan.point != f"before-{kind}" or _of_policy(records[0].key):
            return False
        self._passed += 1
        return self._passed == self._plan.passing

    def __call__(self, point: str, *, key: bytes | None = b"") -> None:
        """Count a passing, and act when it is time; `key` is that of the first record that is written."""
        if point != self._plan.point or self._plan.action == "lose" or (self._plan.runs_only and _of_policy(key)):
            return
        self._passed += 1
        if self._passed != self._plan.passing:
            return
        print(f"fault: {self._plan.action} at {point}", file=sys.stderr, flush=True)
        match self._plan.action:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "pause":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "raise":
                raise PlannedError(f"made by tests/faults at {point}")


def _of_policy(key: bytes | None) -> bool:
    return key is None or key == POLICY_KEY


def install(plan: FaultPlan) -> None:
    """Put the plan's trigger around every awaited write."""
    trigger = Trigger(plan)
    _around_sends(trigger)
    _around_store(trigger)
    _around_offsets(trigger)
    _before_checks(trigger)
    if plan.connect_to:
        _redirect(plan.connect_to)


def _around_sends(trigger: Trigger) -> None:
    send = producer.send_batches

    async def send_batches(app: Any, topic: str, partition: int, records: Iterable[Any]) -> Any:
        given = list(records)
        kind = _kind_of(topic)
        if not given:
            return await send(app, topic, partition, given)
        if trigger.loses(kind, given):
            return producer.Written(0, len(given) - 1, len(given))
        key = given[0].key if kind != "dead-letters" else b""
        trigger(f"before-{kind}", key=key)
        sending = asyncio.ensure_future(send(app, topic, partition, given))
        await asyncio.wait([sending], timeout=_ON_ITS_WAY)
        trigger(f"during-{kind}", key=key)
        written = await sending
        trigger(f"after-{kind}", key=key)
        return written

    # Wherever it was imported to.
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("streams.") and getattr(module, "send_batches", None) is send:
            module.send_batches = send_batches  # type: ignore[attr-defined]  # it is there, see the condition


def _kind_of(topic: str) -> str:
    endings = {".dlq": "dead-letters", "-changelog": "states", "agent.decisions.v1": "decisions"}
    return next((kind for ending, kind in endings.items() if topic.endswith(ending)), "misrouted")


def _around_store(trigger: Trigger) -> None:
    put_many = table.BatchTable.put_many

    async def put_many_watched(self: Any, partition: int, changes: Any) -> None:
        token = _in_put_many.set(True)
        try:
            await put_many(self, partition, changes)
        finally:
            _in_put_many.reset(token)
        if changes:
            trigger("after-store", key=next(iter(changes)))

    table.BatchTable.put_many = put_many_watched  # type: ignore[method-assign]  # that is the point
    for store in (stores.MemoryStore, stores.RocksDBStore):
        _before_writes(store, trigger)


def _before_writes(store: Any, trigger: Trigger) -> None:
    write = store.write

    def write_watched(self: Any, partition: int, changes: Any, applied: int | None) -> None:
        if _in_put_many.get():  # a recovery writes too
            trigger("before-store", key=next(iter(changes), b""))
        write(self, partition, changes, applied)

    store.write = write_watched


def _around_offsets(trigger: Trigger) -> None:
    commit = fetch_thread.FetchThread._commit

    async def commit_watched(self: Any, offsets: Any) -> bool:
        trigger("before-offsets")
        done = await commit(self, offsets)
        trigger("after-offsets")
        return done

    fetch_thread.FetchThread._commit = commit_watched  # type: ignore[method-assign]  # that is the point


def _before_checks(trigger: Trigger) -> None:
    ensure_owned = batch.Batch.ensure_owned

    def ensure_owned_watched(self: Any) -> None:
        trigger("before-check")
        ensure_owned(self)

    batch.Batch.ensure_owned = ensure_owned_watched  # type: ignore[method-assign]  # that is the point


def _redirect(ports: dict[int, int]) -> None:
    connect = AIOKafkaConnection.connect

    async def connect_elsewhere(self: Any) -> Any:
        self._port = ports.get(self._port, self._port)
        return await connect(self)

    AIOKafkaConnection.connect = connect_elsewhere


def _tell_on_request() -> None:
    """On SIGUSR1, write what every thread and every task is at to the log."""

    def tell(number: int, frame: Any) -> None:
        faulthandler.dump_traceback(all_threads=True)
        for task in list(asyncio.tasks._all_tasks):  # type: ignore[attr-defined]  # of all loops
            if not task.done():
                task.print_stack(limit=3, file=sys.stderr)

    signal.signal(signal.SIGUSR1, tell)


if __name__ == "__main__":
    assert run_processor  # imported before the patches, so that they reach it
    install(FaultPlan.from_environment())
    _tell_on_request()
    main()
