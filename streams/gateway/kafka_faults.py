"""What goes wrong between a gateway and Kafka, in one line of the log."""

from aiokafka.errors import KafkaError

from streams.connection import ConnectionSettingsError
from streams.topics_admin import TopicsError

#: Errors that outages and settings bring: their text says enough. Others are mistakes, and logged with their place.
EXPECTED = (KafkaError, TopicsError, ConnectionSettingsError, OSError)


def first_line(error: BaseException) -> str:
    """Return what an error says, on one line."""
    return (str(error) or type(error).__name__).splitlines()[0]
