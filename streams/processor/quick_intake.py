"""The quick way from a record to facts, for the tool-call events that gateways send all day.

The models of `schemas` are the contract. Building them costs more than all of the detection, so structured events whose fields
have just the types that our publishers write are read into plain structs here. Whatever is not clearly valid is left to the
models, which accept or refuse it: this way never refuses anything. A property test holds the two against each other.
"""

from functools import lru_cache
from typing import Any, Final

import msgspec

from schemas import json_text
from schemas.cloudevents import MAX_SEQUENCE, time_ms
from schemas.events import ToolCallFinished, ToolCallStarted
from schemas.fingerprints import MISSING, args_hash, is_poll, normalize_tool, outcome_fingerprint
from streams.detection.facts import OUTCOME_DIGEST_BYTES, Facts, Kind, RunPartition, record_time
from streams.detection.history import SignatureKey
from streams.processor.quick_event import NOT_SENT, QuickData, decode
from streams.transport import Record

_KINDS: dict[str, Kind] = {ToolCallStarted.event_type(): "started", ToolCallFinished.event_type(): "finished"}

_decode: Final = decode

#: The models let values nest 256 deep. A shorter text cannot nest deeper, and neither can one with fewer brackets.
_SHORT = 512
_FEW_BRACKETS = 200


def quick_facts(record: Record, *, partition: RunPartition, max_bytes: int) -> tuple[str, Facts] | None:
    """Return the run id and the facts of a record of the tool-calls topic, None when it is a case for the models."""
    value = record.value
    if not value or len(value) > max_bytes or not _is_plain(value) or (record.headers and not _is_structured(record)):
        return None
    try:
        event = _decode(value)
        data = event.data
        kind = _KINDS[event.type]
        sequence = None if event.sequence is None else _sequence(event.sequence)
        time = record_time(record.timestamp) if event.time is None else _time_ms(event.time)
        outcome, unknown_tool = (None, None) if kind == "started" else _outcome(data)
        key, poll = _signature(data)
    except (msgspec.MsgspecError, KeyError, ValueError):
        return None
    if data.lost_events is not None and data.lost_events < 0:
        return None
    if event.data_base64 is not NOT_SENT or record.key != data.run_id.encode():
        return None
    facts = Facts(
        kind,
        partition,
        record.offset,
        time,
        sequence,
        data.session_id,
        data.agent_id,
        data.call_id,
        key,
        poll,
        outcome,
        unknown_tool,
    )
    return data.run_id, facts


def _is_plain(value: bytes) -> bool:
    # msgspec does not look into the texts of fields that it leaves out.
    if not value.isascii():
        try:
            value.decode()
        except UnicodeDecodeError:
            return False
    return len(value) < _SHORT or value.count(b"[") + value.count(b"{") < _FEW_BRACKETS


def _is_structured(record: Record) -> bool:
    for name, _ in record.headers:
        lower = name.lower()
        if lower == "content-type" or lower.startswith("ce_"):
            return False
    return True


def _sequence(text: str) -> int:
    if not (len(text) <= 64 and text.isascii() and text.isdigit()):
        raise ValueError("not a sequence")
    number = int(text)
    if number > MAX_SEQUENCE:
        raise ValueError("not a sequence")
    return number


def _time_ms(text: str) -> int:
    # 2026-11-30T12:00:00.000Z as our publishers write it; the part that is worked out is the same for a second of events.
    if len(text) == 24 and text[19] == "." and text[23] == "Z" and text.isascii() and (fraction := text[20:23]).isdigit():
        return _second_ms(text[:19]) + int(fraction)
    return time_ms(text)


def _read_second(text: str) -> int:
    return time_ms(f"{text}Z")


#: `Final` saves compiled code a look-up; here and below.
_second_ms: Final = lru_cache(maxsize=1024)(_read_second)

#: The names of tools are few; bounded, because they come from the wire.
_normalized: Final = lru_cache(maxsize=4096)(normalize_tool)


def _digest(text: str) -> bytes:
    digest = bytes.fromhex(text)
    # The second: no capitals, and no spaces, which fromhex skips.
    if len(digest) != 16 or digest.hex() != text:
        raise ValueError("not a hash")
    return digest


def _signature(data: QuickData) -> tuple[SignatureKey, bool]:
    tool = _normalized(data.tool)
    if data.params is NOT_SENT:
        if data.args_hash is None:
            raise ValueError("neither params nor args_hash")
        return (tool, _digest(data.args_hash)), bool(data.poll)
    params = json_text.loads(bytes(data.params))
    digest = _digest(args_hash(params) if data.args_hash is None else data.args_hash)
    return (tool, digest), is_poll(tool, params)


def _outcome(data: QuickData) -> tuple[bytes | None, str | None]:
    if data.outcome_hash is not None:
        if data.result is not NOT_SENT or data.error is not NOT_SENT:
            raise ValueError("a hash and content: left to the models")
        return _digest(data.outcome_hash)[:OUTCOME_DIGEST_BYTES], data.unknown_tool.lower() if data.unknown_tool else None
    found = outcome_fingerprint(data.tool, _content(data.params, None), result=_content(data.result), error=_content(data.error))
    digest = None if found.outcome_hash is None else _digest(found.outcome_hash)[:OUTCOME_DIGEST_BYTES]
    return digest, found.unknown_tool if digest is not None else None


def _content(raw: msgspec.Raw, missing: Any = MISSING) -> Any:
    return missing if raw is NOT_SENT else json_text.loads(bytes(raw))
