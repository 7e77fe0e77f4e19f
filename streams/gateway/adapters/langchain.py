"""LangChain and LangGraph: a middleware around tool calls (extra `langchain`)."""

import uuid
from collections.abc import Awaitable, Callable
from typing import Any, NotRequired

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.runtime import Runtime
from langgraph.types import Command

from streams.gateway.checking import RunChecker
from streams.gateway.guarding import GuardedCall
from streams.gateway.refusals import RunAborted
from streams.gateway.reporting import RunReporter
from streams.gateway.run_scope import RunIdentity, current_run

Answer = ToolMessage | Command[Any]


class WatchedState(AgentState[Any]):
    """The agent's state and the run that this invocation is."""

    loopwarden_run: NotRequired[str]


class LoopwardenMiddleware(AgentMiddleware[WatchedState, Any]):
    """Guards every tool call of an agent; each invocation of the agent is a run.

    agent = create_agent(model, tools, middleware=[LoopwardenMiddleware(gate, publisher)])

    A refused call is answered by a `ToolMessage` with the reason, a warning is put to the answer, and a run that is to be ended
    raises `RunAborted` out of the invocation. In a graph of one's own the two methods fit a `ToolNode`:

    ToolNode(tools, wrap_tool_call=middleware.wrap_tool_call, awrap_tool_call=middleware.awrap_tool_call)

    The run is then that of the `run_scope` around the invocation, else the session is the thread of the graph's configuration.
    """

    state_schema = WatchedState

    def __init__(self, gate: RunChecker, publisher: RunReporter, *, agent_id: str | None = None) -> None:
        super().__init__()
        self._gate = gate
        self._publisher = publisher
        self._agent_id = agent_id

    def before_agent(self, state: WatchedState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Begin a run, unless a `run_scope` says which it is."""
        return None if current_run() is not None else {"loopwarden_run": str(uuid.uuid4())}

    async def abefore_agent(self, state: WatchedState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Begin a run, unless a `run_scope` says which it is."""
        return self.before_agent(state, runtime)

    def after_agent(self, state: WatchedState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """End the run that `before_agent` began."""
        run_id = state.get("loopwarden_run")
        if run_id is not None and current_run() is None:
            self._publisher.run_ended(run_id, status="done", agent_id=self._agent_id)
            self._gate.forget(run_id)
        return None

    async def aafter_agent(self, state: WatchedState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """End the run that `before_agent` began."""
        return self.after_agent(state, runtime)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]) -> Answer:
        """Guard one call."""
        call = self._call(request)
        if call is None:
            return handler(request)
        if (refusal := _refusal(call, request)) is not None:
            return refusal
        try:
            answer = handler(request)
        except BaseException as error:
            call.end(error=error)
            raise
        return _answered(call, request, answer)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]) -> Answer:
        """Guard one call."""
        call = self._call(request)
        if call is None:
            return await handler(request)
        if (refusal := _refusal(call, request)) is not None:
            return refusal
        try:
            answer = await handler(request)
        except BaseException as error:
            call.end(error=error)
            raise
        return _answered(call, request, answer)

    def _call(self, request: ToolCallRequest) -> GuardedCall | None:
        run = current_run() or self._run_of(request)
        if run.run_id is None and run.session_id is None:
            return None  # nobody knows of which run it is: the tool works unwatched
        asked = request.tool_call
        return GuardedCall(
            self._gate, self._publisher, run=run, tool=asked["name"], params=asked["args"], call_id=asked.get("id")
        )

    def _run_of(self, request: ToolCallRequest) -> RunIdentity:
        config = getattr(request.runtime, "config", None) or {}
        thread = config.get("configurable", {}).get("thread_id")
        state = request.state if isinstance(request.state, dict) else {}
        return RunIdentity(
            run_id=state.get("loopwarden_run"), session_id=None if thread is None else str(thread), agent_id=self._agent_id
        )


def _refusal(call: GuardedCall, request: ToolCallRequest) -> ToolMessage | None:
    verdict = call.begin()
    if verdict.action == "abort":
        raise RunAborted(verdict)
    if verdict.allowed:
        return None
    asked = request.tool_call
    return ToolMessage(content=verdict.reason, name=asked["name"], tool_call_id=asked["id"] or "", status="error")


def _answered(call: GuardedCall, request: ToolCallRequest, answer: Answer) -> Answer:
    message = answer if isinstance(answer, ToolMessage) else _message_in(answer)
    if request.tool is None:
        call.end(error=f"Tool {request.tool_call['name']} not found")  # LangGraph's own words do not name it so
    elif message is None:
        call.end()
    elif message.status == "error":
        call.end(error=message.content)
    else:
        call.end(result=message.content)
    verdict = call.verdict
    if isinstance(answer, ToolMessage) and verdict is not None and verdict.action == "warn" and isinstance(answer.content, str):
        return answer.model_copy(update={"content": f"{answer.content}\n\n{verdict.reason}"})
    return answer


def _message_in(command: Command[Any]) -> ToolMessage | None:
    """Return the answer that a command carries, when that is all it does with messages."""
    update = command.update
    messages = update.get("messages") if isinstance(update, dict) else None
    found = [message for message in messages or () if isinstance(message, ToolMessage)] if isinstance(messages, list) else []
    return found[0] if len(found) == 1 else None
