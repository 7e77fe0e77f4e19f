import pytest

from streams.reports.scan_report import Spending
from streams.reports.wording import counted, moment, money, span, spending


@pytest.mark.parametrize(("amount", "text"), [(0, "$0.00"), (0.0042, "$0.0042"), (3.1, "$3.10"), (12345.678, "$12,345.68")])
def test_money_has_the_digits_that_say_something(amount: float, text: str) -> None:
    assert money(amount) == text


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [
        ("a.jsonl:3", "a.jsonl:17", "a.jsonl:3 to 17"),
        ("a.jsonl:3", "a.jsonl:3", "a.jsonl:3"),
        ("a.jsonl:3", "b.jsonl:1", "a.jsonl:3 to b.jsonl:1"),
        ("C:\\a:3", "C:\\a:4", "C:\\a:3 to 4"),
        ("x", "y", "x to y"),
    ],
)
def test_places_in_one_file_name_it_once(first: str, last: str, text: str) -> None:
    assert span(first, last) == text


def test_counts_and_times() -> None:
    assert [counted(1, "entry", "entries"), counted(2000, "entry", "entries")] == ["1 entry", "2,000 entries"]
    assert spending(Spending(calls=1)) == "1 call"
    assert [moment(None), moment(0)] == ["-", "1970-01-01 00:00:00"]
