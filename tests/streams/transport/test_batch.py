"""A batch lets go of its records, and refuses to be written for when it is not ours."""

from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from streams.transport.batch import TAKEN_BACK, Batch, BatchMessage, StaleBatch
from streams.transport.progress import Delivery
from streams.transport.records import RecordSlice


class Owner:
    def __init__(self) -> None:
        self.reason: str | None = None
        self.calls: list[str] = []

    def reason_to_stop(self, delivery: Delivery) -> str | None:
        return self.reason

    def on_processed(self, delivery: Delivery) -> None:
        self.calls.append("processed")

    def on_done(self, delivery: Delivery) -> None:
        self.calls.append("done")


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def delivery() -> Delivery:
    return Delivery(end=8, generation=3)


@pytest.fixture
def batch(owner: Owner, delivery: Delivery) -> Batch:
    records: Any = [SimpleNamespace(offset=5), SimpleNamespace(offset=7)]
    return Batch(TP("calls", 2), RecordSlice(5, 8, [records]), delivery, owner)


def test_names_its_place(batch: Batch) -> None:
    assert str(batch) == "calls[2]@5..7"


def test_processed_lets_go_of_the_records_but_not_of_the_place(batch: Batch, owner: Owner) -> None:
    batch.processed()
    assert batch.records == ()
    assert str(batch) == "calls[2]@5..7"
    assert owner.calls == ["processed"]


def test_done_implies_processed(batch: Batch, owner: Owner) -> None:
    batch.done()
    assert batch.records == ()
    assert owner.calls == ["processed", "done"]


def test_ensure_owned_says_where_and_why(batch: Batch, owner: Owner) -> None:
    batch.ensure_owned()
    assert batch.owned
    owner.reason = "the lease is over"
    assert not batch.owned
    with pytest.raises(StaleBatch, match=r"^calls\[2\]@5\.\.7: the lease is over$"):
        batch.ensure_owned()


def test_faust_sees_the_generation_change_when_it_is_taken_back(batch: Batch, delivery: Delivery) -> None:
    """Streams skip messages of other generations, so a queued batch that was taken back never reaches the agent."""
    message = BatchMessage.of((batch,))
    assert (message.offset, message.generation_id) == (7, 3)
    delivery.valid = False
    assert message.generation_id == TAKEN_BACK
