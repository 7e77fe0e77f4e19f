"""A fresh broker for a benchmark: the embedded one, or an Apache Kafka."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from streams.broker import EmbeddedBroker
from tests.brokers.apache_kafka import ApacheKafka

Kind = Literal["embedded", "kafka"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Broker:
    """Where it is, and in which respects the kinds differ; times in seconds."""

    kind: Kind
    bootstrap: str
    session_timeout: float
    idempotent: bool


@contextmanager
def fresh_broker(kind: Kind) -> Iterator[Broker]:
    """Run a broker that has nothing on it yet."""
    # Topics that were just made have no leader for a moment, and a new broker no coordinator; the client tries again.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    if kind == "kafka":
        with ApacheKafka() as kafka:
            yield Broker(kind=kind, bootstrap=kafka.bootstrap_servers, session_timeout=6.0, idempotent=True)
    else:
        with EmbeddedBroker() as embedded:
            # It answers the first join after half the session time-out.
            yield Broker(kind=kind, bootstrap=embedded.bootstrap_servers, session_timeout=2.0, idempotent=False)
