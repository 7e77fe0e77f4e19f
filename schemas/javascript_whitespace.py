"""White space as JavaScript has it, because the rules for names and texts come from a JavaScript gateway.

Python's own differs: `str.strip()` takes U+001C to U+001F and U+0085, which JavaScript keeps, and keeps U+FEFF, which
JavaScript takes.
"""

#: ECMAScript's WhiteSpace and LineTerminator: what `String.prototype.trim` removes and `\\s` matches.
WHITE_SPACE = (
    "\t\n\v\f\r \u00a0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)


def trim(text: str) -> str:
    """Remove white space at both ends."""
    return text.strip(WHITE_SPACE)
