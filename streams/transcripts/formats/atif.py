"""ATIF trajectories (Agent Trajectory Interchange Format, versions 1.x): one JSON document each, or one a line.

Written from the format's documentation (harborframework.com/docs/trajectory-format; RFC 0001 of the Harbor project) and its
models in the public crates vtcode-exec-events (v1.4) and nemo-relay (v1.7).

* A trajectory is a run; embedded `subagent_trajectories` are runs below it. Without `trajectory_id` the session names the run.
* Results name their call by `source_call_id`; one without it belongs to the last unanswered call of its step.
* Steps that were copied for context (`is_copied_context`) are left out: they were made in another trajectory.
* The format has no compaction. Terminus-2 writes a system step "Performed context summarization", others a system step whose
  `extra` says compaction: these count as one.
"""

from collections.abc import Iterator
from typing import Any

from schemas.fingerprints import MISSING
from streams.transcripts.amounts import money, total
from streams.transcripts.content import arguments, error_message, tool_result
from streams.transcripts.format import FileContext, Format
from streams.transcripts.items import (
    CallStarted,
    Compacted,
    Copied,
    Item,
    NotUnderstood,
    Place,
    PromptGiven,
    RunRef,
    Spent,
)
from streams.transcripts.moments import milliseconds
from streams.transcripts.open_calls import OpenCalls
from streams.transcripts.records import Record

_SUMMARIZED = "Performed context summarization"
_COMPACTION_WORDS = ("compact", "summarization")


def recognises(value: Any) -> bool:
    """Whether a record names an ATIF version."""
    return isinstance(value, dict) and str(value.get("schema_version")).upper().startswith("ATIF")


class _Reader:
    def __init__(self, context: FileContext) -> None:
        self._context = context
        self._calls = OpenCalls()

    def read(self, record: Record) -> Iterator[Item]:
        if not isinstance(record.value, dict) or ("steps" not in record.value and "subagent_trajectories" not in record.value):
            yield NotUnderstood(self._context.place(record.line), "not a trajectory: no steps")
            return
        fallback = self._context.run_id_at(record.document, record.element)
        yield from self._trajectory(record.value, self._context.place(record.line), fallback=fallback, parent=None)

    def finish(self) -> Iterator[Item]:
        return iter(())

    def _trajectory(self, value: dict[str, Any], place: Place, *, fallback: str, parent: RunRef | None) -> Iterator[Item]:
        session, own = value.get("session_id"), value.get("trajectory_id")
        session_id = session if isinstance(session, str) and session else parent.session_id if parent else None
        run_id = own if isinstance(own, str) and own else session_id or fallback
        if parent is not None and run_id == parent.run_id:
            run_id = f"{parent.run_id}/{fallback}"
        agent = value.get("agent")
        name = agent.get("name") if isinstance(agent, dict) else None
        agent_id = name if isinstance(name, str) and name else None
        run = RunRef(run_id, session_id or run_id, agent_id, parent.run_id if parent else None)
        steps = value.get("steps")
        for step in steps if isinstance(steps, list) else ():
            yield from self._step(step, run, place)
        below = value.get("subagent_trajectories")
        for number, trajectory in enumerate(below if isinstance(below, list) else (), start=1):
            if isinstance(trajectory, dict):
                yield from self._trajectory(trajectory, place, fallback=f"subagent-{place.line}-{number}", parent=run)
            else:
                yield NotUnderstood(place, "not a trajectory")

    def _step(self, step: Any, run: RunRef, place: Place) -> Iterator[Item]:
        if not isinstance(step, dict):
            yield NotUnderstood(place, "not a step")
            return
        time = milliseconds(step.get("timestamp"))
        if step.get("is_copied_context") is True:
            yield Copied(place)
            return
        source = step.get("source")
        if source == "user":
            yield PromptGiven(run, place, time)
        elif source == "system" and _is_compaction(step):
            yield Compacted(run, place, time)
        metrics = step.get("metrics")
        if isinstance(metrics, dict):
            tokens, cost = total(metrics, "prompt_tokens", "completion_tokens"), money(metrics.get("cost_usd"))
            if tokens or cost:
                yield Spent(run, place, time, tokens, cost)
        unanswered = []
        calls = step.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            item = self._call(call, run, place, time)
            if isinstance(item, CallStarted):
                unanswered.append(item)
            yield item
        yield from self._results(step, unanswered, run, place, time)

    def _call(self, call: Any, run: RunRef, place: Place, time: int | None) -> Item:
        if not isinstance(call, dict):
            return NotUnderstood(place, "not a tool call")
        return self._calls.start(
            run,
            place,
            time,
            call_id=call.get("tool_call_id"),
            tool=call.get("function_name"),
            params=arguments(call.get("arguments")),
        )

    def _results(
        self, step: dict[str, Any], unanswered: list[CallStarted], run: RunRef, place: Place, time: int | None
    ) -> Iterator[Item]:
        observation = step.get("observation")
        results = observation.get("results") if isinstance(observation, dict) else None
        for result in results if isinstance(results, list) else ():
            if not isinstance(result, dict):
                yield NotUnderstood(place, "not a result")
                continue
            call_id, tool = result.get("source_call_id"), None
            if call_id is None:
                if not unanswered:
                    continue  # what the environment says by itself answers no call
                last = unanswered.pop()
                call_id, tool = last.call_id, last.tool
            else:
                unanswered = [call for call in unanswered if call.call_id != call_id]
            yield self._calls.finish(run, place, time, call_id=call_id, tool=tool, **_outcome(result))


def _outcome(result: dict[str, Any]) -> dict[str, Any]:
    extra = result.get("extra")
    failed = isinstance(extra, dict) and (extra.get("is_error") is True or extra.get("error") not in (None, False))
    content = result.get("content", MISSING)
    if failed:
        return {"error": error_message(content if content is not MISSING else extra.get("error"))}  # type: ignore[union-attr]
    return {} if content is MISSING else {"result": tool_result(content)}


def _is_compaction(step: dict[str, Any]) -> bool:
    message, extra = step.get("message"), step.get("extra")
    if isinstance(message, str) and message.startswith(_SUMMARIZED):
        return True
    words = (
        [str(value).lower() for key, value in extra.items() if key in ("type", "kind", "event", "subtype")]
        if isinstance(extra, dict)
        else []
    )
    return any(part in word for word in words for part in _COMPACTION_WORDS)


FORMAT = Format(name="atif", title="ATIF trajectories", recognises=recognises, reader=_Reader)
