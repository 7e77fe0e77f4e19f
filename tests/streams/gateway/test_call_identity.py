"""How runs and calls are named, whatever a gateway hands over."""

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.events import ToolCallStarted
from schemas.fingerprints import args_hash
from streams.gateway.call_identity import call_name, fingerprint_call, run_key, tool_name
from streams.gateway.json_form import NoJsonFormError


def test_a_run_without_an_id_is_named_by_its_session() -> None:
    assert run_key("r", "s") == "r"
    assert run_key(None, "s") == run_key("", "s") == "session:s"
    assert run_key(None) is None
    assert run_key(uuid.UUID(int=1)) == str(uuid.UUID(int=1))


@given(run=st.text(st.characters(), max_size=1100), tool=st.text(st.characters(), max_size=300), call=st.text(max_size=300))
def test_every_name_fits_the_events(run: str, tool: str, call: str) -> None:
    key = run_key(run, "session")
    assert key is not None
    key.encode()
    ToolCallStarted(run_id=key, tool=tool_name(tool), call_id=call_name(call), params=None)


def test_names_that_differ_beyond_the_bound_stay_different() -> None:
    long = "t" * 300
    assert tool_name(long + "a") != tool_name(long + "b")
    assert tool_name("\ud800") != tool_name("\ud801")
    assert tool_name("read") == "read"
    assert tool_name("") == "(none)"


def test_a_call_is_fingerprinted_as_a_worker_does() -> None:
    call = fingerprint_call(" Process ", {"action": "poll", "n": float("nan")})
    assert (call.tool, call.tool_key, call.poll) == (" Process ", "process", True)
    assert call.args_hash == args_hash({"action": "poll", "n": None})
    assert fingerprint_call("t", {"ids": {3, 1}}).args_hash == args_hash({"ids": [1, 3]})


@pytest.mark.parametrize("params", [{"a": object()}, [[]] * 3 + [object()]])
def test_a_call_with_an_unknown_object_has_no_fingerprint(params: Any) -> None:
    with pytest.raises(NoJsonFormError, match="object"):
        fingerprint_call("t", params)


def test_a_call_nested_too_deeply_has_no_fingerprint() -> None:
    value: list[Any] = []
    for _ in range(5000):
        value = [value]
    with pytest.raises(NoJsonFormError):
        fingerprint_call("t", value)
