"""The middleware in real LangChain agents and LangGraph tool nodes."""

from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("langchain", reason="extra `langchain` is not installed")

from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from schemas.events import RunEnded, ToolCallBlocked, ToolCallFinished, ToolCallStarted
from schemas.settings import Settings
from streams.gateway import EventPublisher, RunAborted, VerdictGate, run_scope
from streams.gateway.adapters.langchain import LoopwardenMiddleware
from tests.streams.gateway.lab import decision, fold, unsent


class Model(GenericFakeChatModel):
    """Says what it was told to, whatever the tools are."""

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        return self


@tool
def read(path: str) -> str:
    """Read a file."""
    if path == "missing":
        raise FileNotFoundError(path)
    return f"content of {path}"


def asks(name: str, path: str, call_id: str = "c1") -> AIMessage:
    return AIMessage(content="", tool_calls=[{"name": name, "args": {"path": path}, "id": call_id}])


@pytest.fixture
def publisher() -> EventPublisher:
    return EventPublisher(Settings(), content="full")


@pytest.fixture
def gate() -> VerdictGate:
    return VerdictGate(Settings())


def agent(gate: VerdictGate, publisher: EventPublisher, *messages: AIMessage) -> Any:
    middleware = LoopwardenMiddleware(gate, publisher, agent_id="owl")
    return create_agent(Model(messages=iter([*messages, AIMessage(content="done")])), [read], middleware=[middleware])


def answers(result: Any) -> list[ToolMessage]:
    return [message for message in result["messages"] if isinstance(message, ToolMessage)]


QUESTION: dict[str, list[AnyMessage]] = {"messages": [HumanMessage("go")]}


async def invoke(made: Any, how: str) -> Any:
    return await made.ainvoke(QUESTION) if how == "async" else made.invoke(QUESTION)


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_each_invocation_is_a_run_with_its_calls(gate: VerdictGate, publisher: EventPublisher, how: str) -> None:
    for _ in range(2):
        result = await invoke(agent(gate, publisher, asks("read", "a.txt")), how)
        assert [message.content for message in answers(result)] == ["content of a.txt"]
    events = unsent(publisher)
    assert [type(event) for event in events] == [ToolCallStarted, ToolCallFinished, RunEnded] * 2
    assert len({event.run_id for event in events}) == 2
    started, finished = events[:2]
    assert isinstance(started, ToolCallStarted)
    assert (started.tool, started.params, started.call_id, started.agent_id) == ("read", {"path": "a.txt"}, "c1", "owl")
    assert isinstance(finished, ToolCallFinished)
    assert finished.result == "content of a.txt"


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_refusals_warnings_and_aborts_reach_the_model(gate: VerdictGate, publisher: EventPublisher, how: str) -> None:
    fold(
        gate,
        decision("warn", params={"path": "warned"}, offset=1),
        decision(params={"path": "refused"}, offset=2),
        decision("abort", run_id="ends", scope="run", tool=None),
    )
    made = agent(gate, publisher, asks("read", "warned"), asks("read", "refused"), asks("read", "fine"))
    with run_scope("r"):
        result = await invoke(made, how)
    warned, refused, fine = answers(result)
    assert warned.content == "content of warned\n\nread has been called 20 times."
    assert (refused.content, refused.status) == ("read has been called 20 times.", "error")
    assert fine.content == "content of fine"
    kinds = [type(event) for event in unsent(publisher)]
    assert kinds == [ToolCallStarted, ToolCallFinished, ToolCallBlocked, ToolCallStarted, ToolCallFinished]
    with pytest.raises(RunAborted), run_scope("ends"):
        await invoke(agent(gate, publisher, asks("read", "any")), how)


def test_failures_and_unknown_tools_are_reported_as_errors(gate: VerdictGate, publisher: EventPublisher) -> None:
    agent(gate, publisher, asks("nosuch", "a")).invoke(QUESTION)
    _, finished, _ = unsent(publisher)
    assert isinstance(finished, ToolCallFinished)
    assert finished.error == "Tool nosuch not found"
    with pytest.raises(FileNotFoundError):
        agent(gate, publisher, asks("read", "missing")).invoke(QUESTION)
    _, finished = unsent(publisher)
    assert isinstance(finished, ToolCallFinished)
    assert finished.error["$error"] == {"name": "FileNotFoundError", "message": "missing"}


def test_a_tool_node_of_ones_own_graph_is_guarded(gate: VerdictGate, publisher: EventPublisher) -> None:
    fold(gate, decision(run_id="session:t1", params={"path": "refused"}))
    middleware = LoopwardenMiddleware(gate, publisher)
    graph = StateGraph(MessagesState)
    graph.add_node(
        "tools", ToolNode([read], wrap_tool_call=middleware.wrap_tool_call, awrap_tool_call=middleware.awrap_tool_call)
    )
    graph.set_entry_point("tools")
    compiled = graph.compile()
    for path, content in (("a", "content of a"), ("refused", "read has been called 20 times.")):
        result = compiled.invoke({"messages": [asks("read", path)]}, {"configurable": {"thread_id": "t1"}})
        assert answers(result)[0].content == content
    assert {event.run_id for event in unsent(publisher)} == {"session:t1"}
    compiled.invoke({"messages": [asks("read", "a")]})
    assert unsent(publisher) == [], "nobody knows the run"
