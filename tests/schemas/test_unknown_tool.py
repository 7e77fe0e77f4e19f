import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.unknown_tool import MAX_NAME_LENGTH, missing_tool

NAMES = st.text("abcXYZ019_.-", min_size=1, max_size=20)
SPACES = st.text(" \t\n\u00a0\ufeff\u2028", min_size=1, max_size=3)
QUOTES = st.sampled_from(["", '"', "'", "`"])


@given(NAMES, SPACES, QUOTES, st.sampled_from(["unknown tool", "Unknown Tool", "UNKNOWN TOOL"]), st.sampled_from(["", ":"]))
def test_the_name_after_unknown_tool_is_found(name: str, space: str, quote: str, wording: str, colon: str) -> None:
    assert missing_tool(f"so: {wording}{colon}{space}{quote}{name}{quote}, alas") == name.lower()
    assert missing_tool(f"{wording}{space}{colon}{quote}{name}") == name.lower()


@given(NAMES, SPACES, QUOTES, st.sampled_from(["not found", "NOT found", "is not available"]))
def test_the_name_before_not_found_is_found(name: str, space: str, quote: str, wording: str) -> None:
    assert missing_tool(f"the tool{space}{quote}{name}{quote}{space}{wording}!") == name.lower()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("unknown tool:x", "x"),
        ("no such multitool x not found", "x"),
        ("Tool bell not found, so unknown tool: drum", "drum"),
        ("unknown tool ?, and tool bell not found", "bell"),
        ("tool a not here, tool b not found", "b"),
        ("Unknown tool: k\u00e4se", "k"),
        ('{"message":"Unknown tool: x"}', "x"),
    ],
)
def test_names(text: str, name: str) -> None:
    assert missing_tool(text) == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tool",
        "tool not found",
        "tool  not  found",
        "Tool x was not found",
        "Tool x: not found",
        "Tool (x) not found",
        "Tool x notfound",
        "toolbox x not found",
        "x not found",
        "file x is not available",
        "unknown tool",
        "unknown tools: ",
        "unknowntool: x",
        "unknown tool ?x",
        "Un\u212anown tool: x",
        "unknown tool: \u017fx",
        "unknown tool:\u001cx",
        "unknown tool\u0085x",
        "tool \u00e4pfel not found",
    ],
)
def test_other_texts_name_no_tool(text: str) -> None:
    assert missing_tool(text) is None


def test_long_names_are_cut() -> None:
    assert missing_tool("unknown tool: " + "W" * 100_000) == "w" * MAX_NAME_LENGTH


@pytest.mark.parametrize(
    "piece", ["tool ", "unknown tool:", "tool x ", "tool x not ", "tool \u00a0", "toola", "unknown tool \"'"]
)
def test_long_texts_that_almost_match_end_soon(piece: str) -> None:
    """A search in quadratic time would keep this test busy for hours."""
    missing_tool(piece * (2**20 // len(piece)))
    missing_tool("tool x" + " " * 2**20)
    missing_tool("tool " + "x" * 2**20)
