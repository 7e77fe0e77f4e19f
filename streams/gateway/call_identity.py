"""How a gateway names runs and calls, so that what it publishes and what it asks the gate about are the same thing."""

from typing import Any, NamedTuple

from xxhash import xxh3_128_hexdigest

from schemas.fingerprints import args_hash, is_poll, normalize_tool
from streams.gateway.json_form import NoJsonFormError, json_form

#: The bounds that events have (`schemas.events`).
_MAX_LABEL = 1024
_MAX_NAME = 256

#: Stands for a name that a model left empty: a call of it is a call all the same.
_NO_NAME = "(none)"


class FingerprintedCall(NamedTuple):
    """A call as detection knows it: `tool` as the gateway names it, `tool_key` normalized, `params` in JSON form."""

    tool: str
    tool_key: str
    params: Any
    args_hash: str
    poll: bool


def fingerprint_call(tool: str, params: Any) -> FingerprintedCall:
    """Fingerprint a call once, for the gate and the publisher.

    Raises `NoJsonFormError` for parameters that cannot be fingerprinted: an object of unknown kind in them, or nested too deeply.
    """
    name = tool_name(tool)
    try:
        digest = args_hash(params)
    except TypeError:
        params = json_form(params)
        digest = _hash(params)
    except (ValueError, RecursionError) as error:
        raise NoJsonFormError(str(error)) from None
    return FingerprintedCall(name, normalize_tool(name), params, digest, is_poll(name, params))


def run_key(run_id: object, session_id: object = None) -> str | None:
    """Return the run id as it travels: bounded, and `session:<session id>` without one; None when there is neither."""
    if run_id is not None and run_id != "":
        return label(run_id)
    return None if session_id is None or session_id == "" else label(f"session:{session_id}")


def tool_name(tool: object) -> str:
    """Return a tool's name within the bounds of events; a longer one ends in its hash, an empty one is `(none)`."""
    return _bounded(tool, _MAX_NAME) or _NO_NAME


def call_name(call_id: object) -> str | None:
    """Return a call id within the bounds of events."""
    return None if call_id is None else _bounded(call_id, _MAX_NAME)


def label(value: object) -> str:
    """Return an id of a run, session or agent within the bounds of events; one that is no Unicode text becomes its hash."""
    return _bounded(value, _MAX_LABEL)


def _bounded(value: object, limit: int) -> str:
    text = value if type(value) is str else str(value)
    if len(text) <= limit and (text.isascii() or _is_unicode(text)):
        return text
    digest = xxh3_128_hexdigest(text.encode(errors="surrogatepass"))
    kept = text[: limit - len(digest) - 1]
    return f"{kept if _is_unicode(kept) else ''}#{digest}"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _hash(params: Any) -> str:
    try:
        return args_hash(params)
    except (TypeError, ValueError, RecursionError) as error:
        raise NoJsonFormError(str(error)) from None
