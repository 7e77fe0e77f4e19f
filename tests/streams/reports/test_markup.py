from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from streams.reports.markup import Markup, element, joined, text


class Read(HTMLParser):
    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.said += data


printable = st.text().filter(str.isprintable)


@given(printable, printable)
def test_text_and_attributes_come_back_as_they_were_and_make_no_elements(content: str, attribute: str) -> None:
    read = Read(element("p", content, title=attribute))
    assert read.tags == [("p", {"title": attribute})]
    assert read.said == content


@given(st.text())
def test_what_cannot_be_printed_is_written_as_an_escape(content: str) -> None:
    assert all(char.isprintable() or char == "\n" for char in text(content))


def test_elements_within_elements_are_not_escaped_again() -> None:
    assert element("p", element("b", "a&b"), " < ") == "<p><b>a&amp;b</b> &lt; </p>"
    assert isinstance(joined("a", Markup("<br>")), Markup)


def test_attributes_are_left_out_written_without_value_and_renamed() -> None:
    assert element("details", class_="x", open=True, title=None, hidden=False, aria_label="y") == (
        '<details class="x" open aria-label="y"></details>'
    )
    assert element("meta", name="viewport") == '<meta name="viewport">'
