import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.transcripts import records
from streams.transcripts.records import BadRecord, Record, records_of_document, records_of_lines, shape_of


def nothing(_count: int) -> None:
    pass


def lines(text: bytes) -> list[Record | BadRecord]:
    return list(records_of_lines(io.BytesIO(text), meter=nothing))


def document(text: bytes) -> list[Record | BadRecord]:
    return list(records_of_document(io.BytesIO(text), meter=nothing))


@pytest.mark.parametrize(
    ("head", "shape"),
    [
        (b'{"a": 1}\n{"a": 2}\n', "lines"),
        (b'{"a": 1}', "lines"),
        (b'\n\r\n  {"a": 1}\r\n', "lines"),
        (b'[{"a": 1},\n{"a": 2}]', "document"),
        (b'[\n{"a": 1}\n]', "document"),
        (b'{\n "a": 1\n}\n{\n "a": 2\n}', "document"),
        (b'{"a": \n1}', "document"),
        (b'{"torn\n{"a": 1}\n', "lines"),
        (b'garbage\n{"a": 1}\n', "lines"),
        (b"not json\nat all\n", None),
        (b"12\n", None),
        (b"  \n", None),
        (b"", None),
        (b'{"cut off', "document"),
    ],
)
def test_the_beginning_tells_lines_from_documents(head: bytes, shape: str | None) -> None:
    assert shape_of(head) == shape


def test_lines_have_their_numbers_and_bad_ones_do_not_stop_the_reading() -> None:
    found = lines(b'{"a": 1}\r\n\r\n{torn\r\n[1, {"b": 2}]\n\xff\xfe\n{"last": ')
    assert found == [
        Record({"a": 1}, 1, 1),
        BadRecord(3, "not JSON"),
        Record(1, 4, 4, element=1),
        Record({"b": 2}, 4, 4, element=2),
        BadRecord(5, "not JSON"),
        BadRecord(6, "not JSON: the last line is cut off"),
    ]


def test_a_line_that_is_too_long_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_LINE_BYTES", 20)
    found = lines(b'{"a": 1}\n{"a": "' + b"x" * 100 + b'"}\n{"a": 2}\n')
    assert [type(record) for record in found] == [Record, BadRecord, Record]
    assert found[2] == Record({"a": 2}, 3, 3)


steps = st.lists(
    st.dictionaries(st.sampled_from(["n", "text"]), st.integers(-9, 9) | st.text(max_size=9), max_size=2), max_size=6
)


@given(steps, st.sampled_from([None, 1]), st.booleans())
def test_a_document_in_parts_is_the_whole_document(wanted: list[Any], indent: int | None, header_first: bool) -> None:
    header = {"schema_version": "x", "agent": {"name": "a"}}
    whole = {**header, "steps": wanted} if header_first else {"steps": wanted, **header}
    outline, *parts = document(json.dumps(whole, indent=indent).encode())
    assert isinstance(outline, Record)
    assert outline.first
    assert outline.value == {**whole, "steps": []}
    together = []
    for part in parts:
        assert isinstance(part, Record)
        assert not part.first
        assert {key: value for key, value in part.value.items() if key != "steps"} == header
        together += part.value["steps"]
    assert together == wanted


def test_spans_of_an_export_come_one_by_one_with_their_lines() -> None:
    text = b'{"resourceSpans": [{"resource": {},\n"scopeSpans": [{"spans": [{"n": 1},\n{"n": 2}]}]}]}'
    _, *parts = document(text)
    assert [
        (part.value["resourceSpans"][0]["scopeSpans"][0]["spans"], part.line) for part in parts if isinstance(part, Record)
    ] == [
        ([{"n": 1}], 2),
        ([{"n": 2}], 3),
    ]


def test_what_stands_before_a_break_is_read() -> None:
    assert document(b'{"steps": [{"n": 1},\n{"n": 2') == [
        Record({"steps": []}, 1, 1),
        Record({"steps": [{"n": 1}]}, 1, 1, first=False),
        BadRecord(2, "not JSON from here on: the text ends in the middle of a value"),
    ]


def test_several_documents_in_one_file_are_told_apart() -> None:
    found = document(b'[{"n": 1}]\n{"n": 2}\n\n[3]')
    assert found == [Record({"n": 1}, 1, 1, element=1), Record({"n": 2}, 2, 2), Record(3, 4, 4, element=1)]


@pytest.mark.parametrize(
    "whole", [{"messages": [1], "choices": [2]}, {"input": [1], "output": [2]}, {"request": {}, "response": {}}]
)
def test_a_request_with_its_response_stays_in_one_piece(whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(whole, indent=1).encode()
    assert document(text) == [Record(whole, 1, 1)]
    monkeypatch.setattr(records, "_MAX_WHOLE_BYTES", 10)
    assert len(document(text)) > 1 or "request" in whole


@given(steps, st.sampled_from([None, 1]))
def test_large_and_small_documents_are_read_alike(wanted: list[Any], indent: int | None) -> None:
    text = "\n".join(json.dumps({"steps": wanted, "n": number}, indent=indent) for number in range(3)).encode()
    small = document(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_SMALL_BYTES", -1)
        assert document(text) == small


def test_many_documents_in_one_file_take_no_more_time_than_their_size() -> None:
    text = b"".join(json.dumps({"steps": [{"n": n}], "n": n}, indent=1).encode() + b"\n" for n in range(20_000))
    file = io.BytesIO(text)
    taken = 0
    read = file.read

    def counted(size: int | None = -1, /) -> bytes:
        nonlocal taken
        found = read(size)
        taken += len(found)
        return found

    file.read = counted  # type: ignore[method-assign]
    assert len(list(records_of_document(file, meter=nothing))) == 40_000
    assert taken == len(text)
