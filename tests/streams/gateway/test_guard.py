"""Tools with a gate before them: what is asked, reported, refused and raised."""

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from schemas.events import RunEnded, ToolCallBlocked, ToolCallFinished, ToolCallStarted
from schemas.fingerprints import args_hash, outcome_fingerprint
from schemas.settings import Settings
from streams.gateway import EventPublisher, RunAborted, ToolCallRefused, VerdictGate, guard, run_scope
from tests.streams.gateway.lab import decision, fold, unsent


@pytest.fixture
def publisher() -> EventPublisher:
    """A publisher that was not started: what it wrote can be taken."""
    return EventPublisher(Settings())


@pytest.fixture
def gate() -> VerdictGate:
    """A gate that reads no topic."""
    return VerdictGate(Settings())


def names(events: list[Any]) -> list[str]:
    return [event.event_name for event in events]


def test_a_sync_tool_is_reported_with_its_arguments_by_name(gate: VerdictGate, publisher: EventPublisher) -> None:
    @guard(gate, publisher, run_id="r", agent_id="owl")
    def read(path: str, limit: int = 10, *rest: int, **more: Any) -> str:
        """Read a file."""
        return f"{path} {limit} {rest} {more}"

    assert read("a.txt", 5, 6, x=1) == "a.txt 5 (6,) {'x': 1}"
    assert read.__doc__ == "Read a file."
    started, finished = unsent(publisher)
    assert isinstance(started, ToolCallStarted)
    assert isinstance(finished, ToolCallFinished)
    assert (started.tool, started.run_id, started.agent_id) == ("read", "r", "owl")
    assert started.args_hash == args_hash({"path": "a.txt", "limit": 5, "rest": [6], "x": 1})
    assert started.call_id == finished.call_id
    assert finished.outcome_hash == outcome_fingerprint("read", {}, result="a.txt 5 (6,) {'x': 1}").outcome_hash


def test_the_same_call_is_the_same_however_its_arguments_are_given(gate: VerdictGate, publisher: EventPublisher) -> None:
    @guard(gate, publisher, run_id="r")
    def move(source: str, target: str) -> None: ...

    class Tools:
        @guard(gate, publisher, run_id="r")
        def move(self, source: str, target: str) -> None: ...

    move("a", "b")
    move(target="b", source="a")
    Tools().move("a", target="b")
    hashes = {event.args_hash for event in unsent(publisher) if isinstance(event, ToolCallStarted)}
    assert hashes == {args_hash({"source": "a", "target": "b"})}


async def test_an_async_tool_in_any_disguise_is_reported_when_it_has_ended(gate: VerdictGate, publisher: EventPublisher) -> None:
    async def work(n: int) -> int:
        await asyncio.sleep(0)
        return n

    class Tool:
        async def __call__(self, n: int) -> int:
            return await work(n)

    for tool in (work, functools.partial(work), Tool(), lambda n: work(n)):
        running = guard(gate, publisher, run_id="r", tool="work")(tool)(3)
        assert await running == 3
        assert names(unsent(publisher)) == ["tool-call.started", "tool-call.finished"]


def test_what_a_tool_raises_is_its_error_and_is_raised_on(gate: VerdictGate, publisher: EventPublisher) -> None:
    @guard(gate, publisher, run_id="r")
    def read() -> None:
        raise FileNotFoundError("no a.txt")

    with pytest.raises(FileNotFoundError):
        read()
    _, finished = unsent(publisher)
    assert isinstance(finished, ToolCallFinished)
    assert finished.outcome_hash == outcome_fingerprint("read", {}, error="no a.txt").outcome_hash


async def test_an_interruption_is_no_outcome(gate: VerdictGate, publisher: EventPublisher) -> None:
    @guard(gate, publisher, run_id="r")
    async def wait() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    _, finished = unsent(publisher)
    assert isinstance(finished, ToolCallFinished)
    assert finished.outcome_hash is None


def test_a_refused_call_is_not_made_and_the_reason_is_raised(gate: VerdictGate, publisher: EventPublisher) -> None:
    item = decision(params={"path": "a"})
    fold(gate, item)
    made = []

    @guard(gate, publisher, run_id="r")
    def read(path: str) -> None:
        made.append(path)

    read("b")
    with pytest.raises(ToolCallRefused, match=r"read has been called 20 times\.") as refused:
        read("a")
    assert (made, refused.value.verdict.decision_id) == (["b"], item.decision_id)
    *_, blocked = unsent(publisher)
    assert isinstance(blocked, ToolCallBlocked)
    assert (blocked.reason, blocked.decision_id) == ("loop", item.decision_id)


async def test_a_refusal_can_be_a_value(gate: VerdictGate, publisher: EventPublisher) -> None:
    fold(gate, decision(params={}))
    options = guard(gate, publisher, run_id="r", tool="read", on_refusal=lambda verdict: f"Refused: {verdict.reason}")

    @options
    def read() -> str:
        raise AssertionError("not called")

    @options
    async def read_async() -> str:
        raise AssertionError("not called")

    assert read() == await read_async() == "Refused: read has been called 20 times."


def test_a_run_that_is_to_be_ended_is_ended(gate: VerdictGate, publisher: EventPublisher) -> None:
    fold(gate, decision("abort", scope="run", tool=None))

    @guard(gate, publisher, on_refusal=lambda verdict: "a value")
    def read() -> None: ...

    with pytest.raises(RunAborted), run_scope("r", publisher=publisher, gate=gate):
        read()
    blocked, ended = unsent(publisher)
    assert isinstance(blocked, ToolCallBlocked)
    assert isinstance(ended, RunEnded)
    assert ended.status == "aborted"
    assert gate.runs == 0


def test_a_warning_is_put_to_the_result_and_not_to_what_is_reported(gate: VerdictGate, publisher: EventPublisher) -> None:
    fold(gate, decision("warn", params={}))

    @guard(gate, publisher, run_id="r", on_warning=lambda verdict, result: f"{result} ({verdict.reason})")
    def read() -> str:
        return "text"

    assert read() == "text (read has been called 20 times.)"
    assert read() == "text"
    outcomes = {event.outcome_hash for event in unsent(publisher) if isinstance(event, ToolCallFinished)}
    assert outcomes == {outcome_fingerprint("read", {}, result="text").outcome_hash}


def test_a_call_without_fingerprint_is_made_and_counted(gate: VerdictGate, publisher: EventPublisher) -> None:
    fold(gate, decision(run_id="other", scope="tool"))

    @guard(gate, publisher)
    def read(context: object) -> str:
        return "text"

    with run_scope("r"):
        assert read(object()) == "text"
    assert publisher.dropped == 2
    with run_scope("other"), pytest.raises(ToolCallRefused):
        read(object())


def test_parameters_can_be_chosen(gate: VerdictGate, publisher: EventPublisher) -> None:
    @guard(gate, publisher, run_id="r", params_of=lambda context, path: {"path": path})
    def read(context: object, path: str) -> None: ...

    read(object(), "a")
    started, _ = unsent(publisher)
    assert isinstance(started, ToolCallStarted)
    assert started.args_hash == args_hash({"path": "a"})


def test_arguments_that_do_not_fit_are_the_tools_own_error(gate: VerdictGate, publisher: EventPublisher) -> None:
    @guard(gate, publisher, run_id="r")
    def read(path: str) -> None: ...

    with pytest.raises(TypeError, match="unexpected keyword"):
        read(file="a")  # type: ignore[call-arg]  # on purpose
    assert names(unsent(publisher)) == ["tool-call.started", "tool-call.finished"]


def test_outside_of_a_run_the_tool_works_unwatched(
    gate: VerdictGate, publisher: EventPublisher, caplog: pytest.LogCaptureFixture
) -> None:
    @guard(gate, publisher, tool="lonely")
    def lonely() -> int:
        return 3

    assert (lonely(), lonely()) == (3, 3)
    assert unsent(publisher) == []
    assert caplog.text.count("outside of a run") == 1


async def test_the_run_of_the_scope_is_known_in_tasks_and_threads_begun_within(
    gate: VerdictGate, publisher: EventPublisher
) -> None:
    @guard(gate, publisher)
    def read(n: int) -> None: ...

    async def run(name: str) -> None:
        with run_scope(name, agent_id=f"agent of {name}", session_id="s", publisher=publisher):
            await asyncio.gather(*(asyncio.to_thread(read, n) for n in range(3)))
            await asyncio.create_task(asyncio.to_thread(read, 9))

    await asyncio.gather(run("a"), run("b"))
    events = unsent(publisher)
    assert {(event.run_id, event.agent_id, event.session_id) for event in events} == {
        ("a", "agent of a", "s"),
        ("b", "agent of b", "s"),
    }
    assert [name for name in names(events) if name == "run.ended"] == ["run.ended"] * 2


async def test_with_blocks_guard_one_call(gate: VerdictGate, publisher: EventPublisher) -> None:
    with guard(gate, publisher, run_id="r", tool="read", params={"a": 1}, call_id="c1") as call:
        call.result = "text"
    async with guard(gate, publisher, run_id="r", tool="read", params={"a": 1}) as call:
        pass
    with pytest.raises(KeyError), guard(gate, publisher, run_id="r", tool="read", params={"a": 1}):
        raise KeyError("x")
    events = unsent(publisher)
    assert names(events) == ["tool-call.started", "tool-call.finished"] * 3
    assert events[0].call_id == "c1"
    assert [event.outcome_hash is not None for event in events if isinstance(event, ToolCallFinished)] == [True, False, True]
    fold(gate, decision(params={"a": 1}))
    with pytest.raises(ToolCallRefused), guard(gate, publisher, run_id="r", tool="read", params={"a": 1}):
        raise AssertionError("not reached")
    assert names(unsent(publisher)) == ["tool-call.blocked"]


def test_mistakes_of_use_are_told_at_once(gate: VerdictGate, publisher: EventPublisher) -> None:
    with pytest.raises(TypeError, match="tool="), guard(gate, publisher, run_id="r"):
        pass
    with pytest.raises(LookupError, match="run_scope"), guard(gate, publisher, tool="read"):
        pass

    def lines() -> Iterator[int]:
        yield 1

    async def pages() -> AsyncIterator[int]:
        yield 1

    for tool in (lines, pages):
        with pytest.raises(TypeError, match="generator"):
            guard(gate, publisher, run_id="r")(tool)


def test_a_refusal_without_a_decision_is_reported_as_another_reason(publisher: EventPublisher) -> None:
    closed = VerdictGate(Settings(), fail="closed")
    with pytest.raises(ToolCallRefused), guard(closed, publisher, run_id="r", tool="read"):
        pass
    (blocked,) = unsent(publisher)
    assert isinstance(blocked, ToolCallBlocked)
    assert blocked.reason == "other"
