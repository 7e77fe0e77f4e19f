"""The brokers that faults are made against."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from streams.broker import EmbeddedBroker
from tests.brokers.apache_kafka import ApacheKafka

Kind = Literal["embedded", "kafka"]

#: The cleaner looks more often than every 15 s, so that a compaction can be waited for.
_PROMPT_CLEANER = {"log.cleaner.backoff.ms": "500", "log.retention.check.interval.ms": "1000"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Broker:
    """A running broker and how its workers are set up; times in seconds.

    `kafka` is there for those that can be stopped and started again on the same data.
    """

    kind: Kind
    bootstrap_servers: str
    session_timeout: float
    heartbeat_interval: float
    idempotent_producer: bool
    kafka: ApacheKafka | None = None

    @property
    def port(self) -> int:
        """The port that it advertises."""
        return int(self.bootstrap_servers.rpartition(":")[2])


@contextmanager
def running(kind: Kind, properties: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """Run a broker of a kind; sessions are short, so that losing one does not take long."""
    if kind == "embedded":
        with EmbeddedBroker() as embedded:
            # Tansu answers the first join after half the session time-out, in steps of a second.
            yield Broker(
                kind=kind,
                bootstrap_servers=embedded.bootstrap_servers,
                session_timeout=2.0,
                heartbeat_interval=0.5,
                idempotent_producer=False,
            )
        return
    with ApacheKafka(properties={**_PROMPT_CLEANER, **(properties or {})}) as kafka:
        yield Broker(
            kind=kind,
            bootstrap_servers=kafka.bootstrap_servers,
            session_timeout=3.0,
            heartbeat_interval=0.5,
            idempotent_producer=True,
            kafka=kafka,
        )
