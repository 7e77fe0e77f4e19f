from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.tool_names import is_poll, normalize_tool


@pytest.mark.parametrize(
    ("name", "normalized"),
    [
        ("read", "read"),
        (" \tREAD\r\n", "read"),
        ("\ufeff\u00a0Bash\u2028", "exec"),
        ("Apply-Patch", "apply_patch"),
        ("apply_patch", "apply_patch"),
        ("pe ek", "pe ek"),
        ("\u001cread", "\u001cread"),
        ("read\u0085", "read\u0085"),
        ("read\u200b", "read\u200b"),
        ("\u00c9T\u00c9", "\u00e9t\u00e9"),
        ("bash-exec", "bash-exec"),
        ("", ""),
    ],
)
def test_names_are_trimmed_lower_cased_and_known_by_one_alias(name: str, normalized: str) -> None:
    assert normalize_tool(name) == normalized


@given(st.text(st.characters(exclude_categories=())))
def test_a_normalized_name_stays_as_it_is(name: str) -> None:
    # Lower-casing is done once: the lower case of some letters is a letter and an accent, which stay as they are.
    assert normalize_tool(normalize_tool(name)) == normalize_tool(name)


@pytest.mark.parametrize(
    ("tool", "params"),
    [
        ("command_status", None),
        (" Command_Status", {"action": "anything"}),
        ("process", {"action": "poll"}),
        ("PROCESS", {"action": "log", "sessionId": "j1"}),
    ],
)
def test_polls(tool: str, params: Any) -> None:
    assert is_poll(tool, params)


@pytest.mark.parametrize(
    ("tool", "params"),
    [
        ("process", {"action": "kill"}),
        ("process", {"action": "Poll"}),
        ("process", {"action": ["poll"]}),
        ("process", {"action": None}),
        ("process", {}),
        ("process", None),
        ("process", "poll"),
        ("process", ["action", "poll"]),
        ("exec", {"action": "poll"}),
        ("message", {"action": "poll"}),
        ("command-status", None),
    ],
)
def test_other_calls_are_no_polls(tool: str, params: Any) -> None:
    assert not is_poll(tool, params)
