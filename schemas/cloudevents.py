"""CloudEvents 1.0 on Kafka records, in structured and in binary mode.

Structured mode puts the whole event into the value as one JSON object. Binary mode puts `data` into the value and each
attribute into a header `ce_<name>`. A record without any CloudEvents header is read as structured: a line of JSON is then
complete by itself in kcat, in files and in dead letters.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from schemas import json_text

STRUCTURED_CONTENT_TYPE = "application/cloudevents+json"
TYPE_PREFIX = "dev.loopwarden."

_EPOCH = datetime(1970, 1, 1)

#: What can be written as RFC 3339 again: the years 1 to 9999 in UTC.
MIN_TIME_MS = -62_135_596_800_000
MAX_TIME_MS = 253_402_300_799_999

#: The largest sequence: run states keep it as a signed 64-bit number.
MAX_SEQUENCE = 2**63 - 1

Headers = Iterable[tuple[str, bytes | None]]
Model = TypeVar("Model", bound=BaseModel)


class InvalidEventError(ValueError):
    """A record that is no event of ours; `code` is short and stable, the message names the attribute, never its content."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def _sequence(value: object) -> object:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 64 and int(value) <= MAX_SEQUENCE:
        return int(value)
    raise ValueError("must be a decimal string of digits, at most 9223372036854775807")


def time_ms(value: object) -> int:
    """Read an RFC 3339 time as milliseconds since 1970; raises `ValueError`."""
    # A date alone, a time without an offset or a number is valid for fromisoformat or pydantic, but not in RFC 3339.
    if isinstance(value, str) and len(value) >= 20 and value[10] in "Tt":
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
        if moment is not None and moment.tzinfo is not None:
            milliseconds = round(moment.timestamp() * 1000)
            if MIN_TIME_MS <= milliseconds <= MAX_TIME_MS:
                return milliseconds
    raise ValueError("must be an RFC 3339 time with offset, such as 2026-11-30T12:00:00.000Z")


Attribute = Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class CloudEvent(BaseModel):
    """The attributes that Loopwarden reads; all others are ignored.

    `sequence` is the number that the wire's decimal string stands for, `time` milliseconds since 1970.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    specversion: Literal["1.0"]
    id: Attribute
    source: Attribute
    type: Attribute
    time: Annotated[int, BeforeValidator(time_ms)] | None = None
    sequence: Annotated[int, BeforeValidator(_sequence), Field(ge=0)] | None = None
    data: Any = None


def describe(error: ValidationError, *, within: str = "") -> str:
    """Say what is wrong with an event: each field and its fault, at most three, without the values."""
    faults = []
    for fault in error.errors(include_url=False, include_context=False, include_input=False)[:3]:
        place = ".".join(str(part) for part in (*([within] if within else []), *fault["loc"])) or "event"
        faults.append(f"{place}: {fault['msg'].removeprefix('Value error, ')}")
    more = error.error_count() - len(faults)
    return "; ".join(faults) + (f"; and {more} more" if more > 0 else "")


def parse(value: bytes, headers: Headers = ()) -> CloudEvent:
    """Read the CloudEvent of a Kafka record.

    Raises `InvalidEventError` with code `not_json` or `not_cloudevent`.
    """
    attributes: dict[str, Any] = {}
    content_type = ""
    for name, raw in headers:
        lower = name.lower()
        if raw is None or not (lower == "content-type" or lower.startswith("ce_")):
            continue
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            raise InvalidEventError("not_cloudevent", f"header {lower}: must be UTF-8 text") from None
        if lower == "content-type":
            content_type = text.split(";", 1)[0].strip().lower()
        else:
            attributes[lower[3:]] = text
    structured = content_type.startswith("application/cloudevents") or "specversion" not in attributes
    if structured and content_type.startswith("application/cloudevents") and content_type != STRUCTURED_CONTENT_TYPE:
        raise InvalidEventError(
            "not_cloudevent", "content-type: one event in JSON a record; batches and other formats are not read"
        )
    try:
        body = json_text.loads(value)
    except ValueError as error:
        raise InvalidEventError("not_json", str(error)) from None
    if structured:
        if not isinstance(body, dict):
            raise InvalidEventError("not_cloudevent", "the value must be a JSON object with the attributes of a CloudEvent")
        if "data_base64" in body:
            raise InvalidEventError("not_cloudevent", "data_base64: send the data as JSON in `data`")
        attributes = body
    else:
        attributes["data"] = body
    try:
        return CloudEvent.model_validate(attributes)
    except ValidationError as error:
        raise InvalidEventError("not_cloudevent", describe(error)) from None


def read_data(model: type[Model], event_type: str, value: bytes, headers: Headers = ()) -> Model:
    """Return the data of an event of one type as its model.

    Raises `InvalidEventError`, with code `unknown_type` for events of other types.
    """
    event = parse(value, headers)
    if event.type != event_type:
        raise InvalidEventError("unknown_type", f"type: expected {event_type}")
    try:
        return model.model_validate(event.data)
    except ValidationError as error:
        raise InvalidEventError("invalid_data", describe(error, within="data")) from None


def format_time(milliseconds: int) -> str:
    """Write a time as RFC 3339 in UTC with milliseconds."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_format_seconds(seconds)}.{rest:03d}Z"


@lru_cache(maxsize=1024)  # events that are written together share their second
def _format_seconds(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat("T", "seconds")


def format_sequence(sequence: int) -> str:
    """Write a sequence as the wire wants it: decimal, zero-padded to 19 digits, so that text order is number order."""
    return f"{sequence:019d}"


def structured(
    *,
    event_type: str,
    source: str,
    event_id: str,
    run_id: str | None = None,
    data: Mapping[str, Any],
    time: int | None = None,
    sequence: int | None = None,
    subject: str | None = None,
) -> bytes:
    """Write an event in structured mode, one line of JSON; events of a run have its id as subject and partition key."""
    event: dict[str, Any] = {
        "specversion": "1.0",
        "type": event_type,
        "source": source,
        "id": event_id,
    }
    if run_id is not None:
        event |= {"subject": run_id, "partitionkey": run_id}
    elif subject is not None:
        event["subject"] = subject
    if time is not None:
        event["time"] = format_time(time)
    if sequence is not None:
        event["sequence"] = format_sequence(sequence)
    event["datacontenttype"] = "application/json"
    event["data"] = data
    return json_text.dumps(event)
