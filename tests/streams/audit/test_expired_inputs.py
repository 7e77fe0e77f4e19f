"""Audits of topics whose oldest records have expired."""

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.errors import KafkaError

from schemas.topics import partition_of
from streams.audit.explaining import Explainer
from streams.audit.log_reader import LogReader
from streams.audit.planning import Selection, plan
from streams.audit.ranges import RangeError
from streams.connection import Connection
from tests.streams.audit.conftest import Auditor, as_text
from tests.streams.processor.conftest import PARTITIONS, Lab

pytestmark = pytest.mark.broker


@pytest.fixture
def expire(lab: Lab) -> Callable[[int, int], None]:
    """Delete the tool calls of a partition below an offset, as retention does."""

    async def delete(partition: int, offset: int) -> None:
        admin = AIOKafkaAdminClient(**Connection.from_settings(lab.settings).client_options())
        await admin.start()
        try:
            place = TopicPartition(lab.settings.topics.tool_calls, partition)
            await admin.delete_records({place: RecordsToDelete(before_offset=offset)})
        except KafkaError as error:
            pytest.skip(f"this broker deletes no records: {error}")
        finally:
            await admin.close()

    def work(partition: int, offset: int) -> None:
        asyncio.run(asyncio.wait_for(delete(partition, offset), 30))

    return work


async def test_runs_whose_beginning_has_expired_are_not_reproducible_and_others_are(
    lab: Lab, auditor: Auditor, expire: Callable[[int, int], None]
) -> None:
    await lab.create()
    old = lab.run("old")
    home = partition_of("old", PARTITIONS)
    new = next(lab.run(f"new-{n}") for n in range(99) if partition_of(f"new-{n}", PARTITIONS) == home)
    await lab.publish([*old.loop(15), *new.loop(25), *old.loop(10)])
    worker = lab.worker()
    await lab.committed(worker)
    worker.stop()
    await asyncio.to_thread(expire, home, 20)
    with LogReader(auditor.connection) as reader:
        first, end = await asyncio.to_thread(reader.bounds, lab.settings.topics.tool_calls, home)
    if (first, end) != (20, 100):
        pytest.skip(f"this broker says it deletes records, but the partition is {first} to {end}")

    decisions = await lab.decisions()
    tally, findings = await auditor.verify()
    assert findings == [], as_text(findings)
    assert tally.not_reproducible["expired"] == sum(one.run_id == "old" and one.as_of.offset >= 20 for one in decisions) > 0
    assert tally.equal == sum(one.run_id == new.run_id for one in decisions)

    for bound, says in ((f"{home}:5", "offsets below 20 have expired"), ("2020-01-01T00:00:00Z", "older events have expired")):
        with pytest.raises(RangeError, match=says):
            await asyncio.to_thread(plan, lab.settings, Selection(start=(bound,)))

    def explain() -> str:
        with LogReader(auditor.connection) as reader:
            return Explainer(reader, lab.settings).explain(run_id="old").recomputed

    assert "the run's first events have expired" in await asyncio.to_thread(explain)
