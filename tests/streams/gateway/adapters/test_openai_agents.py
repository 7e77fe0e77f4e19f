"""Guarded tools in real agents of the OpenAI Agents SDK, with its scripted model."""

from typing import Any

import pytest

pytest.importorskip("agents", reason="extra `openai-agents` is not installed")

from agents import Agent, RunConfig, Runner, WebSearchTool, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

from schemas.events import RunEnded, ToolCallBlocked, ToolCallFinished, ToolCallStarted
from schemas.settings import Settings
from streams.gateway import EventPublisher, RunAborted, VerdictGate, run_scope
from streams.gateway.adapters.openai_agents import guard_tools
from tests.streams.gateway.lab import decision, fold, unsent


@function_tool
def read(path: str) -> str:
    """Read a file."""
    return f"content of {path}"


@function_tool(failure_error_function=None)
def fail(path: str) -> str:
    """Fail."""
    raise FileNotFoundError(path)


@pytest.fixture
def publisher() -> EventPublisher:
    return EventPublisher(Settings(), content="full")


@pytest.fixture
def gate() -> VerdictGate:
    return VerdictGate(Settings())


async def run(gate: VerdictGate, publisher: EventPublisher, *paths: str, tool: str = "read") -> list[str]:
    """Let an agent call a tool with each path; return what the tool answered."""
    steps = [[function_call(tool, {"path": path}, call_id=f"c{number}")] for number, path in enumerate(paths)]
    agent = Agent(
        name="owl",
        model=ScriptedModel([*steps, [assistant_message("done")]]),
        tools=guard_tools([read, fail, WebSearchTool()], gate, publisher),
    )
    result = await Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True))
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


async def test_calls_are_reported_in_the_run_of_the_scope(gate: VerdictGate, publisher: EventPublisher) -> None:
    with run_scope("r", agent_id="owl", publisher=publisher):
        assert await run(gate, publisher, "a.txt") == ["content of a.txt"]
    started, finished, ended = unsent(publisher)
    assert isinstance(started, ToolCallStarted)
    assert (started.run_id, started.tool, started.params) == ("r", "read", {"path": "a.txt"})
    assert (started.call_id, started.agent_id) == ("c0", "owl")
    assert isinstance(finished, ToolCallFinished)
    assert finished.result == "content of a.txt"
    assert isinstance(ended, RunEnded)


async def test_without_a_scope_the_tools_work_unwatched(gate: VerdictGate, publisher: EventPublisher) -> None:
    assert await run(gate, publisher, "a.txt") == ["content of a.txt"]
    assert unsent(publisher) == []


async def test_refusals_and_warnings_reach_the_model(gate: VerdictGate, publisher: EventPublisher) -> None:
    fold(gate, decision("warn", params={"path": "warned"}, offset=1), decision(params={"path": "refused"}, offset=2))
    with run_scope("r"):
        assert await run(gate, publisher, "warned", "refused", "fine") == [
            "content of warned\n\nread has been called 20 times.",
            "read has been called 20 times.",
            "content of fine",
        ]
    kinds = [type(event) for event in unsent(publisher)]
    assert kinds == [ToolCallStarted, ToolCallFinished, ToolCallBlocked, ToolCallStarted, ToolCallFinished]


def causes(error: BaseException | None) -> list[type[BaseException]]:
    found = []
    while error is not None:
        found.append(type(error))
        error = error.__cause__
    return found


async def test_an_abort_ends_the_run(gate: VerdictGate, publisher: EventPublisher) -> None:
    fold(gate, decision("abort", scope="run", tool=None))
    with pytest.raises(Exception, match="called 20 times") as raised, run_scope("r", publisher=publisher):
        await run(gate, publisher, "a")
    assert RunAborted in causes(raised.value)
    assert [type(event) for event in unsent(publisher)] == [ToolCallBlocked, RunEnded]


async def test_what_a_tool_raises_is_its_error(gate: VerdictGate, publisher: EventPublisher) -> None:
    with pytest.raises(Exception, match="missing"), run_scope("r"):
        await run(gate, publisher, "missing", tool="fail")
    _, finished = unsent(publisher)
    assert isinstance(finished, ToolCallFinished)
    assert "missing" in str(finished.error)


@pytest.mark.parametrize(("text", "params"), [("", {}), ("{oops", "{oops"), ('{"a":1}', {"a": 1})])
async def test_arguments_count_as_the_model_wrote_them(
    gate: VerdictGate, publisher: EventPublisher, text: str, params: Any
) -> None:
    steps = [[function_call("read", text, call_id="c")], [assistant_message("done")]]
    agent = Agent(name="owl", model=ScriptedModel(steps), tools=guard_tools([read], gate, publisher))
    with run_scope("r"):
        await Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True))
    started = unsent(publisher)[0]
    assert isinstance(started, ToolCallStarted)
    assert started.params == params
