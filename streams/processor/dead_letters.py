"""Records that are no events of ours: kept as they came, with the reason, where operators find them."""

import time
from collections.abc import Sequence
from typing import Any

import structlog

from schemas.cloudevents import InvalidEventError, format_time
from streams.transport import ProducerRecord, Record, RecordTooLargeError, send_batches

#: Headers that say why a record is there.
PREFIX = "loopwarden.error."

#: Bytes of a key that are kept when the whole letter does not fit.
_KEPT_OF_KEY = 1024

log = structlog.get_logger()


def dead_letter(record: Record, error: InvalidEventError, *, group: str) -> ProducerRecord:
    """Return the record for the dead-letter topic: key, value and headers as they came, and why it is there."""
    reasons = {
        "code": error.code,
        "message": str(error),
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "group": group,
        "time": format_time(int(time.time() * 1000)),
    }
    headers = [*record.headers, *((f"{PREFIX}{name}", text.encode()) for name, text in reasons.items())]
    return ProducerRecord(record.key, record.value, headers, max(record.timestamp or 0, 0))


async def send_dead_letters(app: Any, topic: str, partition: int, letters: Sequence[ProducerRecord]) -> None:
    """Write letters to a dead-letter topic and return when all are acknowledged.

    A record that was compressed on its way here may be larger than what may be written: its letter then says only what it was and
    where it is still to be found, for as long as its topic keeps it. Raises `SendError`.
    """
    try:
        await send_batches(app, topic, partition, letters)
    except RecordTooLargeError:
        # What of it was written is written again: a copy of a letter does no harm.
        for letter in letters:
            try:
                await send_batches(app, topic, partition, [letter])
            except RecordTooLargeError as error:
                log.warning("dead letter without its value", topic=topic, partition=partition, reason=str(error))
                await send_batches(app, topic, partition, [shortened(letter)])


def shortened(letter: ProducerRecord) -> ProducerRecord:
    """Return a letter without value and without headers but ours; the key is cut."""
    reasons = [(name, value) for name, value in letter.headers if name.startswith(PREFIX)]
    key, value = letter.key or b"", letter.value or b""
    others = len(letter.headers) - len(reasons)
    omitted = f"value of {len(value)} bytes, {others} headers, key of {len(key)} bytes cut to {_KEPT_OF_KEY}"
    return ProducerRecord(key[:_KEPT_OF_KEY], None, [*reasons, (f"{PREFIX}omitted", omitted.encode())], letter.timestamp_ms)
