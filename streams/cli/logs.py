"""Structured logs: readable on a terminal, JSON lines elsewhere."""

import logging
import sys
from typing import Literal

import structlog


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
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processor=renderer, foreign_pre_chain=shared))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("streams.processor", "loopwarden"):  # the services of the transport speak of themselves
        logging.getLogger(name).setLevel(logging.INFO)
