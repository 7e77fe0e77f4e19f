"""A selection of the faults that fits into CI; `python -m tests.faults` makes them all, more often."""

from collections.abc import Iterator

import pytest

from tests.faults.catalogue import FAULTS
from tests.faults.making.brokers import Broker, Kind, running
from tests.faults.run import run_fault

pytestmark = pytest.mark.broker


def selected(kind: Kind) -> list[str]:
    return [name for name, made in FAULTS.items() if kind in made.in_pytest]


@pytest.fixture(scope="module")
def embedded() -> Iterator[Broker]:
    """An embedded broker, shared by the faults on it."""
    with running("embedded") as broker:
        yield broker


@pytest.fixture(scope="module")
def kafka(kafka_installed: None) -> Iterator[Broker]:
    """An Apache Kafka, shared by the faults on it."""
    with running("kafka") as broker:
        yield broker


def make(name: str, broker: Broker) -> None:
    """Make a fault, and fail when anything is missing, too much or wrong afterwards."""
    row = run_fault(FAULTS[name], broker, quick=True)
    assert row.error is None, row.error
    assert row.tally.differences.none, "\n".join(row.tally.differences.examples)
    assert row.tally.times > 0


@pytest.mark.parametrize("name", selected("embedded"))
def test_on_the_embedded_broker_nothing_is_lost_and_nothing_decided_twice(embedded: Broker, name: str) -> None:
    make(name, embedded)


@pytest.mark.parametrize("name", selected("kafka"))
def test_on_apache_kafka_nothing_is_lost_and_nothing_decided_twice(kafka: Broker, name: str) -> None:
    make(name, kafka)
