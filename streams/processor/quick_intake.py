"""The quick way from a record to facts, for the tool-call events that gateways send all day.

The models of `schemas` are the contract. Building them costs more than all of the detection, so structured events whose fields
have just the types that our publishers write are read into plain structs here. Whatever is not clearly valid is left to the
models, which accept or refuse it: this way never refuses anything. A property test holds the two against each other.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from schemas import json_text
from schemas.cloudevents import MAX_SEQUENCE, time_ms
from schemas.events import ToolCallFinished, ToolCallStarted
from schemas.fingerprints import MISSING, args_hash, is_poll, normalize_tool, outcome_fingerprint
from streams.detection.facts import OUTCOME_DIGEST_BYTES, Facts, Kind, RunPartition, record_time
from streams.detection.history import SignatureKey
from streams.processor.quick_event import NOT_SENT, decode
from streams.transport import BareRecord

# `Final` saves compiled code a look-up by name; here and below.
_KINDS: Final[dict[str, Kind]] = {ToolCallStarted.event_type(): "started", ToolCallFinished.event_type(): "finished"}
_NOT_SENT: Final = NOT_SENT
_decode: Final = decode
_fields: Final[Callable[[Any], tuple[Any, ...]]] = astuple
_from_hex: Final = bytes.fromhex

#: The models let values nest 256 deep. A shorter text cannot nest deeper, and neither can one with fewer brackets.
_SHORT = 512
_FEW_BRACKETS = 200


def quick_facts(record: BareRecord, *, partition: RunPartition, max_bytes: int) -> tuple[str, Facts] | None:
    """Return the run id and the facts of a record of the tool-calls topic, None when it is a case for the models."""
    value = record.value
    if not value or len(value) > max_bytes or not _is_plain(value) or (record.headers and not _is_structured(record)):
        return None
    try:
        # All fields at once: asked for one by one they would cost as much again as their decoding.
        _, _, _, event_type, data, event_time, number, data_base64 = _fields(_decode(value))
        (
            run_id,
            tool,
            call_id,
            session_id,
            agent_id,
            _,
            _,
            hash_of_args,
            given_poll,
            outcome_hash,
            given_unknown_tool,
            _,
            _,
            lost_events,
            params,
            result,
            error,
        ) = _fields(data)
        kind = _KINDS[event_type]
        sequence = None if number is None else _sequence(number)
        time = record_time(record.timestamp) if event_time is None else _time_ms(event_time)
        outcome: bytes | None = None
        unknown_tool: str | None = None
        if kind != "started":
            if outcome_hash is None:
                outcome, unknown_tool = _outcome_of_content(tool, params, result, error)
            elif result is not _NOT_SENT or error is not _NOT_SENT:
                return None  # a hash and content
            else:
                outcome = _digest(outcome_hash)[:OUTCOME_DIGEST_BYTES]
                unknown_tool = given_unknown_tool.lower() if given_unknown_tool else None
        name = _normalized(tool)
        if params is not _NOT_SENT:
            key, poll = _signature_of_content(name, params, hash_of_args)
        elif hash_of_args is not None:
            key, poll = (name, _digest(hash_of_args)), bool(given_poll)
        else:
            return None  # nothing that tells the arguments
    except (msgspec.MsgspecError, KeyError, ValueError):
        return None
    if (lost_events is not None and lost_events < 0) or data_base64 is not _NOT_SENT or record.key != run_id.encode():
        return None
    facts = Facts(kind, partition, record.offset, time, sequence, session_id, agent_id, call_id, key, poll, outcome, unknown_tool)
    return run_id, facts


def _is_plain(value: bytes) -> bool:
    # msgspec does not look into the texts of fields that it leaves out.
    if not value.isascii():
        try:
            value.decode()
        except UnicodeDecodeError:
            return False
    return len(value) < _SHORT or value.count(b"[") + value.count(b"{") < _FEW_BRACKETS


def _is_structured(record: BareRecord) -> bool:
    for name, _ in record.headers:
        lower = name.lower()
        if lower == "content-type" or lower.startswith("ce_"):
            return False
    return True


def _sequence(text: str) -> int:
    if not (len(text) <= 64 and text.isdigit() and text.isascii()):
        raise ValueError("not a sequence")
    number = int(text)
    if number > MAX_SEQUENCE:
        raise ValueError("not a sequence")
    return number


#: What was worked out for a second of events, and for the names of tools, which are few. Bounded, because they come from the
#: wire; compiled code asks a dict in a third of the time that a cache of `functools` takes.
_seconds: Final[dict[str, int]] = {}
_names: Final[dict[str, str]] = {}
_MOST_REMEMBERED = 4096

#: The end of a time as our publishers write it, 2026-11-30T12:00:00.000Z, in milliseconds.
_MILLISECONDS: Final[dict[str, int]] = {f".{number:03d}Z": number for number in range(1000)}


def _time_ms(text: str) -> int:
    milliseconds = _MILLISECONDS.get(text[19:])
    if milliseconds is None:
        return time_ms(text)
    start = text[:19]
    second = _seconds.get(start)
    if second is None:
        if start[13:14] != ":" or start[16:17] != ":":
            return time_ms(text)  # in another form a piece of it might read as a time by itself
        second = time_ms(f"{start}Z")
        if len(_seconds) >= _MOST_REMEMBERED:
            _seconds.clear()
        _seconds[start] = second
    return second + milliseconds


def _normalized(tool: str) -> str:
    name = _names.get(tool)
    if name is None:
        name = normalize_tool(tool)
        if len(_names) >= _MOST_REMEMBERED:
            _names.clear()
        _names[tool] = name
    return name


def _digest(text: str) -> bytes:
    digest: bytes = _from_hex(text)
    # The second: no capitals, and no spaces, which fromhex skips.
    if len(digest) != 16 or digest.hex() != text:
        raise ValueError("not a hash")
    return digest


def _signature_of_content(tool: str, params: msgspec.Raw, given_hash: str | None) -> tuple[SignatureKey, bool]:
    content = json_text.loads(bytes(params))
    return (tool, _digest(args_hash(content) if given_hash is None else given_hash)), is_poll(tool, content)


def _outcome_of_content(
    tool: str, params: msgspec.Raw, result: msgspec.Raw, error: msgspec.Raw
) -> tuple[bytes | None, str | None]:
    found = outcome_fingerprint(tool, _content(params, None), result=_content(result), error=_content(error))
    if found.outcome_hash is None:
        return None, None
    return _digest(found.outcome_hash)[:OUTCOME_DIGEST_BYTES], found.unknown_tool


def _content(raw: msgspec.Raw, missing: Any = MISSING) -> Any:
    return missing if raw is _NOT_SENT else json_text.loads(bytes(raw))
