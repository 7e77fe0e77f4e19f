"""Guarded sessions against a real MCP server in this process."""

import contextlib

import pytest

pytest.importorskip("mcp", reason="extra `mcp` is not installed")

from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError

from schemas.events import ToolCallBlocked, ToolCallFinished, ToolCallStarted
from schemas.settings import Settings
from streams.gateway import EventPublisher, RunAborted, VerdictGate, run_scope
from streams.gateway.adapters.mcp import GuardedSession
from tests.streams.gateway.lab import decision, fold, unsent

server = MCPServer("files")


@server.tool()
def read(path: str) -> str:
    """Read a file."""
    if path == "missing":
        raise FileNotFoundError(path)
    return f"content of {path}"


@pytest.fixture
def publisher() -> EventPublisher:
    return EventPublisher(Settings(), content="full")


@pytest.fixture
def gate() -> VerdictGate:
    return VerdictGate(Settings())


async def test_calls_are_made_and_reported(gate: VerdictGate, publisher: EventPublisher) -> None:
    async with Client(server) as client:
        for session in (GuardedSession(client, gate, publisher, run_id="r"), GuardedSession(client.session, gate, publisher)):
            with run_scope("r", agent_id="owl"):
                result = await session.call_tool("read", {"path": "a.txt"})
            assert result.content[0].text == "content of a.txt"
            assert not result.is_error
            started, finished = unsent(publisher)
            assert isinstance(started, ToolCallStarted)
            assert (started.run_id, started.tool, started.params) == ("r", "read", {"path": "a.txt"})
            assert isinstance(finished, ToolCallFinished)
            assert finished.result["content"] == [{"type": "text", "text": "content of a.txt"}]
        assert [tool.name for tool in (await session.list_tools()).tools] == ["read"], "the rest is the session's own"


async def test_outside_of_a_run_the_session_works_unwatched(gate: VerdictGate, publisher: EventPublisher) -> None:
    async with Client(server) as client:
        result = await GuardedSession(client, gate, publisher).call_tool("read", {"path": "a.txt"})
        assert not result.is_error
        assert unsent(publisher) == []


async def test_refusals_warnings_and_aborts(gate: VerdictGate, publisher: EventPublisher) -> None:
    async with Client(server) as client:
        fold(
            gate,
            decision("warn", params={"path": "warned"}, offset=1),
            decision(params={"path": "refused"}, offset=2),
            decision("abort", run_id="ends", scope="run", tool=None),
        )
        session = GuardedSession(client, gate, publisher, run_id="r")
        warned = await session.call_tool("read", {"path": "warned"})
        assert [block.text for block in warned.content] == ["content of warned", "read has been called 20 times."]
        refused = await session.call_tool("read", {"path": "refused"})
        assert ([block.text for block in refused.content], refused.is_error) == (["read has been called 20 times."], True)
        assert [type(event) for event in unsent(publisher)] == [ToolCallStarted, ToolCallFinished, ToolCallBlocked]
        with pytest.raises(RunAborted):
            await GuardedSession(client, gate, publisher, run_id="ends").call_tool("read", {"path": "a"})


async def test_failures_and_unknown_tools_are_errors(gate: VerdictGate, publisher: EventPublisher) -> None:
    async with Client(server) as client:
        session = GuardedSession(client, gate, publisher, run_id="r")
        result = await session.call_tool("read", {"path": "missing"})
        assert result.is_error
        _, finished = unsent(publisher)
        assert isinstance(finished, ToolCallFinished)
        assert finished.error == result.content[0].text
        with contextlib.suppress(MCPError):  # servers answer by a result or by an error of the protocol
            await session.call_tool("nosuch", {})
        _, finished = unsent(publisher)
        assert isinstance(finished, ToolCallFinished)
        assert "nosuch" in str(finished.error)
