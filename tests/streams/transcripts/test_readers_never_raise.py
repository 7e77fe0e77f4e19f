"""Whatever stands in a log, its reader makes items of it: found by putting wrong values into every place of the samples."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.transcripts.format import FileContext
from streams.transcripts.item_facts import item_facts
from streams.transcripts.items import Copied, NotUnderstood, PromptGiven, Spent
from streams.transcripts.records import Record
from streams.transcripts.registry import FORMATS

SAMPLES = Path(__file__).parent / "samples"
WRONG = [None, True, 0, -1, 1e308, "", "x", "\ud800", [], [None], {}, {"type": "text"}, [{"type": 7}], [[]], "2026-99-99", 2**70]


def records(folder: Path) -> list[Any]:
    found: list[Any] = []
    for path in sorted(folder.rglob("*.json*")):
        if path.name == "expected.json" or path.suffix == ".gz":
            continue
        text = path.read_bytes().decode("utf-8-sig", errors="replace")
        try:
            value = json.loads(text)
            found += value if isinstance(value, list) else [value]
        except ValueError:
            for line in text.splitlines():
                try:
                    found.append(json.loads(line))
                except ValueError:
                    continue
    return found


RECORDS = {name: records(SAMPLES / name) for name in FORMATS}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, below in inner for place in places(below, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], wrong: Any) -> Any:
    if not path:
        return wrong
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], wrong)
    return copy


def read_all(name: str, values: list[Any]) -> None:
    reader = FORMATS[name].reader(FileContext("log", "log"))
    for number, value in enumerate(values, start=1):
        for item in [*reader.read(Record(value, number, number)), *(reader.finish() if number == len(values) else ())]:
            if isinstance(item, NotUnderstood | Copied | PromptGiven | Spent):
                continue
            try:
                item_facts(item, sequence=1, offset=1, time=0)
            except (TypeError, ValueError):
                continue  # told as a line that is not understood


@pytest.mark.parametrize("name", FORMATS)
def test_a_wrong_value_in_any_place_is_no_reason_to_fail(name: str) -> None:
    chance = random.Random(name)
    for value in RECORDS[name]:
        spots = places(value)
        for spot in chance.sample(spots, min(len(spots), 25)):
            read_all(name, [replaced(value, spot, chance.choice(WRONG)), value])


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=50)
@given(
    values=st.lists(
        st.recursive(st.sampled_from(WRONG), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)), max_size=3
    )
)
def test_values_of_no_format_are_not_understood(name: str, values: list[Any]) -> None:
    read_all(name, values)
