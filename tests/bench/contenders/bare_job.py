"""The job without detection: the last calls of each run in one packed state, and a decision now and then."""

import struct
from typing import Any, Literal

import msgspec
from pydantic import BaseModel

#: Calls kept per run, and bytes of each: half of the hash of its arguments, half of that of its outcome.
CALLS = 30
_ENTRY = struct.Struct("<8s8s")
_HEAD = struct.Struct("<q")

#: A decision as large as ours are on average.
DECISION = b'{"message":"' + b"x" * 900 + b'"}'


class Data(msgspec.Struct):
    """The data of an event."""

    run_id: str
    tool: str
    args_hash: str = ""
    call_id: str = ""
    agent_id: str = ""
    outcome_hash: str = ""


class Event(msgspec.Struct):
    """An event as msgspec reads it."""

    specversion: str
    id: str
    source: str
    type: str
    time: str
    sequence: str
    data: Data


class ModelData(BaseModel):
    """The data of an event."""

    run_id: str
    tool: str
    args_hash: str = ""
    call_id: str = ""
    agent_id: str = ""
    outcome_hash: str = ""


class ModelEvent(BaseModel):
    """An event as pydantic reads it."""

    specversion: Literal["1.0"]
    id: str
    source: str
    type: str
    time: str
    sequence: str
    data: ModelData


DECODERS = {"msgspec": msgspec.json.Decoder(Event).decode, "pydantic": ModelEvent.model_validate_json}


def step(state: bytes | None, event: Any, offset: int) -> bytes:
    """Return the state with one more event."""
    calls = b"" if state is None else state[_HEAD.size :]
    data = event.data
    entry = _ENTRY.pack(bytes.fromhex(data.args_hash[:16]), bytes.fromhex(data.outcome_hash[:16]))
    return _HEAD.pack(offset) + (calls + entry)[-CALLS * _ENTRY.size :]
