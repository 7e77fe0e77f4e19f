"""Attributes of OpenTelemetry spans as plain values, whichever JSON they are written in."""

from typing import Any


def plain_attributes(given: Any) -> dict[str, Any]:
    """Return attributes as a mapping: OTLP's list of keys and typed values, or the mapping that SDKs print."""
    if isinstance(given, dict):
        return given
    found: dict[str, Any] = {}
    for entry in given if isinstance(given, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("key"), str):
            found[entry["key"]] = _plain(entry.get("value"))
    return found


def _plain(value: Any) -> Any:
    """Return what an OTLP AnyValue holds; 64-bit numbers may be strings (OTLP/JSON)."""
    if not isinstance(value, dict) or len(value) != 1:
        return None if value == {} else value
    ((kind, held),) = value.items()
    kind = kind.replace("_", "").lower()
    if kind == "intvalue":
        try:
            return int(held)
        except (TypeError, ValueError):
            return held
    if kind == "arrayvalue" and isinstance(held, dict):
        inner = held.get("values")
        return [_plain(item) for item in inner] if isinstance(inner, list) else []
    if kind == "kvlistvalue" and isinstance(held, dict):
        return plain_attributes(held.get("values"))
    return held if kind.endswith("value") else value
