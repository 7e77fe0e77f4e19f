"""The CloudEvents attributes of a message, and the schema of a whole message."""

from collections.abc import Mapping
from typing import Any

from schemas.cloudevents import MAX_SEQUENCE
from schemas.contract.data_schemas import Schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"

#: RFC 3339 with offset. The calendar (30 February) and leap seconds are left to `format`; a `z` in lower case is not read.
TIME: Schema = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$",
}

#: The largest sequence is 9223372036854775807. A pattern that says so to the digit is unreadable; this one ends at 9e18 - 1.
SEQUENCE: Schema = {"type": "string", "pattern": "^0*[0-8]?[0-9]{1,18}$", "maxLength": 64}

_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 1024}


def attributes(event_type: str, *, subject: str | None, of_run: bool, sequenced: bool) -> dict[str, Schema]:
    """Return the schemas of the attributes of one type, `data` not among them.

    `subject` says in words what the attribute holds, None: there is none. `of_run`: the type has the attribute `partitionkey`,
    `sequenced`: it has `sequence`.
    """
    found: dict[str, Schema] = {
        "specversion": {"description": "CloudEvents version.", "type": "string", "const": "1.0"},
        "type": {"description": "What kind of event it is.", "type": "string", "const": event_type},
        "source": {"description": "Who wrote it, a URI reference.", **_TEXT},
        "id": {"description": "Unique within the source.", **_TEXT},
        "time": {"description": "When it happened, with milliseconds; without it the record's timestamp counts.", **TIME},
    }
    if subject is not None:
        found["subject"] = {"description": f"{subject}.", "type": "string"}
    if of_run:
        found["partitionkey"] = {"description": "The record key as text: the run id.", "type": "string"}
    if sequenced:
        found["sequence"] = {
            "description": "Decimal, zero-padded to 19 digits, strictly increasing for each run over both input topics; gaps are "
            f"fine; at most {MAX_SEQUENCE}. An event that is not above the last one of its run and topic is a duplicate.",
            **SEQUENCE,
        }
    return found


def message_schema(data: Mapping[str, Any], *, name: str, attributes: Mapping[str, Schema]) -> Schema:
    """Return the schema of a message in structured mode; `data` is the schema of its data, `$defs` included."""
    own = {key: value for key, value in data.items() if key != "$defs"}
    required = ["specversion", "type", "source", "id", "data"]
    properties = {
        **attributes,
        "datacontenttype": {"description": "Media type of `data`; JSON when absent.", "type": "string"},
        "data": {"$ref": f"#/$defs/{own['title']}"},
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:loopwarden:schema:{name}.v1",
        "title": f"{name}.v1",
        "description": f"{own['description']}\n\nA CloudEvent in structured mode: the record's value is this object as a line of "
        f"JSON. In binary mode the value is `data` alone (`#/$defs/{own['title']}`) and each attribute is a header `ce_<name>`. "
        "Attributes and fields that are not named here are ignored.",
        "type": "object",
        "required": required,
        "properties": properties,
        "not": {"required": ["data_base64"]},
        "$defs": {own["title"]: own, **data.get("$defs", {})},
    }
