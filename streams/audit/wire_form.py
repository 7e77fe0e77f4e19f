"""Decisions as their bytes: what a worker writes is compared without being read.

Two computations of one decision are the same bytes but for the time at which it was decided, which a worker writes last. So a
digest of the bytes before it is enough to say that a published decision is the recomputed one. What was written in another form
(keys in another order, white space, headers, an envelope that does not fit) has no such digest and is read and compared field by
field; so is every decision whose digest is another one.
"""

import re
from typing import Literal, NamedTuple

import msgspec
import xxhash

from schemas.made_decisions import MadeDecision
from streams.transport import BareRecord

_DATA = b',"data":{'

#: The end of a decision. The digits are all that the digest leaves out, so nothing can be hidden there.
_END = re.compile(rb'(?:,"decided_at":"(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{12}Z)")?\}\}')
_END_LENGTH = len(b',"decided_at":"2026-11-30T12:00:00.000Z"}}')


class _Envelope(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """What stands before the data. All of it is decoded, so all of it is valid."""

    specversion: Literal["1.0"]
    type: Literal["dev.loopwarden.decision.v1"]
    source: str
    id: str
    subject: str
    partitionkey: str
    datacontenttype: Literal["application/json"]
    time: str | None = None


class _Target(msgspec.Struct, gc=False):
    scope: str = ""


class _Place(msgspec.Struct, gc=False):
    offset: int


class Head(msgspec.Struct, gc=False):
    """The fields of a decision that say what it is about; the others are left unread."""

    decision_id: str
    run_id: str
    action: str
    target: _Target
    policy_version: str
    engine_version: str
    since: _Place
    as_of: _Place


class InWireForm(NamedTuple):
    """A decision that was written as a worker writes it."""

    head: Head
    digest: bytes


_envelope = msgspec.json.Decoder(_Envelope).decode
_head = msgspec.json.Decoder(Head).decode


def in_wire_form(record: BareRecord) -> InWireForm | None:
    """Return head and digest of a decision, None for all that a worker does not write like this."""
    value = record.value
    if value is None or record.headers or (cut := _cut(value)) is None:
        return None
    data, end = cut
    time = end["time"]
    try:
        # What stands before the data is an object without it, and the data one within its outer braces: so all of it is JSON.
        envelope = _envelope(value[: data - len(_DATA) + 1] + b"}")
        head = _head(memoryview(value)[data:-1])
        if not value.isascii():
            value.decode()  # msgspec does not look into the texts of fields that it leaves out
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if (envelope.time or "").encode() != (time or b"") or not envelope.source:
        return None
    if envelope.id != head.decision_id or record.key != head.run_id.encode():
        return None
    return InWireForm(head, _digest(value, data, end.start()))


def digest_of_bytes(decision: MadeDecision) -> bytes:
    """Return the digest that a decision has in wire form."""
    return xxhash.xxh3_128_digest(decision.to_json()[:-1])


def _cut(value: bytes) -> tuple[int, re.Match[bytes]] | None:
    """Return where the data begins and the match of the end."""
    data = value.find(_DATA)
    # From where the time of the decision is when there is one.
    end = _END.fullmatch(value, len(value) - _END_LENGTH) or _END.fullmatch(value, len(value) - 2)
    return None if data < 0 or end is None else (data + len(_DATA) - 1, end)


def _digest(value: bytes, start: int, end: int) -> bytes:
    return xxhash.xxh3_128_digest(memoryview(value)[start:end])
