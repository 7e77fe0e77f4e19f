"""docs/operations.md says what is so: settings, their defaults, log lines, the names of checks."""

import re
from pathlib import Path

import pytest

from schemas.settings import Settings
from streams.cli.worker import DEFAULT_HTTP_PORT
from streams.operations.heartbeat import STUCK_AFTER
from streams.processor.run_log import DECISION_LINES, RECORD_LINES
from streams.processor.vital_signs import UNREADY_FOR, Picture

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "operations.md").read_text()
SOURCES = "\n".join(path.read_text() for path in (ROOT / "streams").rglob("*.py"))


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("row", rows("Start"), ids=lambda row: row[0])
def test_a_setting_has_the_default_that_the_page_tells(row: list[str]) -> None:
    name = row[0].strip("`").removeprefix("LOOPWARDEN_").lower()
    default = Settings.model_fields[name].default
    told = row[1].strip("`")
    assert told == (
        ""
        if default is None
        else f"{default:g}"
        if isinstance(default, float) and default < 1e6
        else str(default).removesuffix(".0")
    )


def test_every_setting_on_the_page_exists() -> None:
    named = {name.lower() for name in re.findall(r"LOOPWARDEN_([A-Z_]+)", PAGE)}
    assert named <= set(Settings.model_fields)


def test_every_log_line_on_the_page_is_one_of_ours() -> None:
    for row in rows("Logs"):
        for event in re.findall(r"`([^`]+)`", row[0]):
            text = event.split("N attempts")[0].removesuffix(" ...").removesuffix("...")
            assert text.strip() in SOURCES, event


def test_the_numbers_on_the_page_are_those_of_the_code() -> None:
    assert f"within the last {STUCK_AFTER:g} s" in PAGE
    assert f"{DECISION_LINES} lines in 10 s are logged, of each topic and code {RECORD_LINES}" in PAGE
    assert f"for {UNREADY_FOR:g} s, and why" in PAGE
    assert f"Unset: {DEFAULT_HTTP_PORT}," in PAGE


def test_the_checks_on_the_page_are_those_of_a_worker() -> None:
    shown = re.findall(r"\[[+-]\]([\w-]+) ", PAGE)
    assert shown == ["event-loop", *(check.name for check in Picture().readiness(60.0).checks)]
