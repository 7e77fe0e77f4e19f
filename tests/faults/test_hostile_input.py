"""Whatever a record holds, it is an event or it is refused with a reason; made-up values of all kinds, by hypothesis."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.cloudevents import InvalidEventError
from schemas.policy import PolicyDocument
from schemas.settings import Settings
from streams.detection import state_codec
from streams.detection.engine import apply
from streams.detection.run_state import RunState
from streams.processor.intake import read_record
from streams.transport import DeliveredRecord

SETTINGS = Settings()
POLICY = PolicyDocument.from_mapping({"tools": {"loopDetection": {"enabled": True}}})

#: Any code point, lone surrogates too.
TEXT = st.text(st.characters(), max_size=30)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)
TYPES = st.sampled_from(["started", "finished", "blocked"]).map(lambda name: f"dev.loopwarden.tool-call.{name}.v1")


@st.composite
def events(draw: st.DrawFn) -> bytes:
    """Draw an event whose fields hold anything; a few are right, so that it gets far."""
    data: dict[str, Any] = {"run_id": draw(st.just("run") | TEXT), "tool": draw(st.just("read") | TEXT | JSON)}
    for name in (
        "params",
        "result",
        "error",
        "call_id",
        "session_id",
        "round",
        "args_hash",
        "outcome_hash",
        "poll",
        "unknown_tool",
    ):
        if draw(st.booleans()):
            data[name] = draw(JSON)
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": draw(TYPES), "data": data}
    for name in ("time", "sequence", "subject"):
        if draw(st.integers(0, 4)) == 0:
            event[name] = draw(JSON)
    return json.dumps(event).encode()


def take(key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes], ...] = ()) -> None:
    """Read a record and apply it to a fresh run, as a worker does."""
    record = DeliveredRecord(SETTINGS.topics.tool_calls, 0, 5, 0, key, value, headers)
    try:
        run_id, facts = read_record(record, settings=SETTINGS)
    except InvalidEventError as error:
        f"{error.code} {error}".encode()  # they become headers of a dead letter
        return
    state = RunState(run_id)
    for decision in apply(state, facts, POLICY).decisions:
        decision.to_record(source="s")
    stored = state_codec.encode(state)
    assert state_codec.encode(state_codec.decode(run_id, stored)) == stored


@settings(max_examples=400)
@given(events())
def test_an_event_of_anything_is_taken_or_refused(value: bytes) -> None:
    take(b"run", value)


@settings(max_examples=200)
@given(
    st.none() | st.binary(max_size=40),
    st.none() | st.binary(max_size=200),
    st.lists(st.tuples(st.sampled_from(["ce_type", "ce_specversion", "content-type", "x"]), st.binary(max_size=20)), max_size=4),
)
def test_any_bytes_are_taken_or_refused(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]) -> None:
    take(key, value, tuple(headers))
