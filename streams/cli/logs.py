"""Structured logs: readable on a terminal, JSON lines elsewhere."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Literal

import structlog

#: Loggers that speak to operators: ours. Of libraries only warnings are shown.
_OURS = ("loopwarden", "streams.processor", "streams.operations")

#: Libraries' warnings about what is none: a timer of ours that took longer than its interval on a busy worker is just later.
_CHATTER = ("mode.timers",)


def configure_logs(log_format: Literal["auto", "console", "json"]) -> None:
    """Send our logs and the warnings of libraries to stderr in one format."""
    console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: structlog.typing.Processor = structlog.dev.ConsoleRenderer() if console else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _ordered, renderer],
            # Of libraries the reader wants to know which one speaks.
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in _OURS:  # the services of the transport speak of themselves
        logging.getLogger(name).setLevel(logging.INFO)
    for name in _CHATTER:
        logging.getLogger(name).setLevel(logging.ERROR)


def let_kafka_client_speak() -> None:
    """Show the warnings of the Kafka client, which commands that end with its error keep silent.

    For processes that live through an outage of the broker; `streams.transport.log_limit` bounds their number.
    """
    logging.getLogger("aiokafka").setLevel(logging.NOTSET)


def _ordered(_: object, __: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put first what the eye looks for first."""
    first = {name: fields.pop(name) for name in ("timestamp", "level", "event") if name in fields}
    return {**first, **fields}
