"""Read lists of tool calls, one JSON object a line, and make the events of them that a gateway would have published."""

import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import xxhash
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from schemas import cloudevents, json_text
from schemas.cloudevents import InvalidEventError
from schemas.events import CallId, RunEvent, RunId, ToolCallFinished, ToolCallStarted, ToolName
from schemas.topics import Topics
from streams.intake.event_lines import outgoing
from streams.intake.outgoing import InvalidLineError, OutgoingEvent

SOURCE = "/loopwarden/publish"

#: Numbers above it are milliseconds since 1970: as seconds it would be in the year 5138, as milliseconds it is in 1973.
_LARGEST_SECONDS = 10**11

#: Half of the largest sequence, since each call takes two.
_MAX_CALL_NUMBER = (cloudevents.MAX_SEQUENCE - 2) // 2


def _moment(value: object) -> object:
    if value is None:
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            milliseconds = round(value if abs(value) > _LARGEST_SECONDS else value * 1000)
            cloudevents.format_time(milliseconds)  # fails beyond the years that a date can have
            return milliseconds
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        pass
    raise ValueError("must be an ISO 8601 time, or seconds or milliseconds since 1970")


class _Call(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    run: RunId
    seq: Annotated[int, Field(ge=0, le=_MAX_CALL_NUMBER, strict=True)]
    tool: ToolName
    args: Any = None
    result: Any = None
    is_error: bool | None = None
    call_id: CallId | None = None
    ts: Annotated[int | None, BeforeValidator(_moment)] = None


def events_of_calls(
    lines: Iterable[bytes],
    *,
    name: str,
    topics: Topics,
    max_event_bytes: int,
    agent_id: str | None = None,
    run_prefix: str = "",
    now_ms: int | None = None,
) -> Iterator[OutgoingEvent]:
    """Yield two events for each call, started and finished, with its raw content; blank lines are skipped.

    A line has `run, seq, tool, args, result, is_error, call_id, ts`; `run`, `seq` and `tool` are required. The sequences are
    `2 * seq + 1` and `2 * seq + 2`. `args` that are a string with a JSON object in it are parsed. A result of a failed call
    (`is_error` true) is sent as its error; a null result means that the outcome is not known. `ts` is an ISO 8601 time (UTC
    without an offset) or seconds or milliseconds since 1970; without it `now_ms` counts, by default the present moment.
    Raises `InvalidLineError` at the first line that cannot be used; nothing of that line is yielded.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            call = _read(line)
            time_ms = call.ts if call.ts is not None else now_ms if now_ms is not None else time.time_ns() // 1_000_000
            pair = [
                outgoing(value, topics=topics, max_event_bytes=max_event_bytes)
                for value in _values(call, run_id=run_prefix + call.run, agent_id=agent_id, time_ms=time_ms)
            ]
        except ValidationError as error:
            raise InvalidLineError(name, number, cloudevents.describe(error)) from None
        except (InvalidEventError, ValueError) as error:
            raise InvalidLineError(name, number, str(error)) from None
        yield from pair


def _read(line: bytes) -> _Call:
    value = json_text.loads(line)
    if not isinstance(value, dict):
        raise ValueError("a call must be a JSON object")  # noqa: TRY004  (the type of what was read is no programming error)
    return _Call.model_validate(value)


def _values(call: _Call, *, run_id: str, agent_id: str | None, time_ms: int) -> Iterator[bytes]:
    shared: dict[str, Any] = {"run_id": run_id}
    if agent_id is not None:
        shared["agent_id"] = agent_id
    if call.call_id is not None:
        shared["call_id"] = call.call_id
    shared |= {"tool": call.tool, "params": _parameters(call.args)}
    outcome: dict[str, Any] = {}
    if call.result is not None:
        outcome["error" if call.is_error else "result"] = call.result
    if call.is_error is not None:
        outcome["is_error"] = call.is_error
    first = 2 * call.seq + 1
    yield _event(ToolCallStarted, shared, run_id=run_id, sequence=first, time_ms=time_ms)
    yield _event(ToolCallFinished, shared | outcome, run_id=run_id, sequence=first + 1, time_ms=time_ms)


def _event(model: type[RunEvent], data: dict[str, Any], *, run_id: str, sequence: int, time_ms: int) -> bytes:
    return cloudevents.structured(
        event_type=model.event_type(),
        source=SOURCE,
        # A hash, because a run id may be as long as an event id already; the same call always gets the same id.
        event_id=xxhash.xxh3_128_hexdigest(f"{run_id}:{sequence}".encode(errors="surrogatepass")),
        run_id=run_id,
        data=data,
        time=time_ms,
        sequence=sequence,
    )


def _parameters(args: Any) -> Any:
    if isinstance(args, str) and args.lstrip().startswith("{"):
        try:
            parsed = json_text.loads(args.encode(errors="surrogatepass"))
        except ValueError:
            return args
        if isinstance(parsed, dict):
            return parsed
    return args
