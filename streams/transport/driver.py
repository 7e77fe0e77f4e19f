"""Faust's transport for broker URLs `batch://host:port`."""

from typing import Any, ClassVar

from faust.transport.drivers import aiokafka as driver

from streams.transport.consumer import Consumer
from streams.transport.log_limit import limit_repetitions
from streams.transport.producer import Producer


class Transport(driver.Transport):
    """Faust's aiokafka transport that delivers batches; registered as the entry point `batch` of `faust.transports`."""

    Consumer: ClassVar[type[Consumer]] = Consumer
    Producer: ClassVar[type[Producer]] = Producer

    def __init__(self, *args: Any, **options: Any) -> None:
        limit_repetitions()
        super().__init__(*args, **options)
