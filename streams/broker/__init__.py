"""The embedded development broker: Kafka's protocol without Docker, Java or files."""

from streams.broker.embedded import BrokerError, EmbeddedBroker

__all__ = ["BrokerError", "EmbeddedBroker"]
