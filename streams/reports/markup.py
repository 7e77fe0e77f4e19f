"""HTML that cannot forget to escape: elements are made by a function, and only what it made is taken as markup."""

from html import escape


class Markup(str):
    """Text that is HTML already; only `element`, `joined` and constants of this package make it."""

    __slots__ = ()


_VOID = frozenset({"br", "meta", "col"})


def text(content: str) -> Markup:
    """Return any text as HTML; what cannot be printed is written as an escape, except line ends."""
    if not content.isprintable():
        content = "".join(
            char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode() for char in content
        )
    return Markup(escape(content, quote=True))


def element(name: str, /, *content: str, **attributes: str | bool | None) -> Markup:
    """Return an element; content and attributes are escaped unless they are markup.

    `class_` is the attribute `class`, an underscore inside a name a dash; True is an attribute without value, None and False are
    no attribute.
    """
    written = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        written.append(f" {attribute}" if value is True else f' {attribute}="{text(value)}"')
    opening = f"<{name}{''.join(written)}>"
    return Markup(opening if name in _VOID else f"{opening}{joined(*content)}</{name}>")


def joined(*content: str) -> Markup:
    """Return pieces of markup and text in a row."""
    return Markup("".join(piece if isinstance(piece, Markup) else text(piece) for piece in content))
