"""OpenAI Agents SDK: function tools with a gate before them (extra `openai-agents`)."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from agents import FunctionTool, Tool
from agents.tool_context import ToolContext

from schemas import json_text
from streams.gateway.checking import RunChecker
from streams.gateway.guarding import GuardedCall
from streams.gateway.refusals import RunAborted
from streams.gateway.reporting import RunReporter
from streams.gateway.run_scope import current_run


def guard_tools(tools: Iterable[Tool], gate: RunChecker, publisher: RunReporter) -> list[Tool]:
    """Return the tools with every function tool guarded; hosted tools, which run elsewhere, stay as they are.

    agent = Agent(name="builder", tools=guard_tools([read, write], gate, publisher))
    with run_scope("run-1", agent_id="builder", publisher=publisher, gate=gate):
        await Runner.run(agent, "...")

    The run is that of the `run_scope` around `Runner.run`; without one the tools work unwatched. A refused call is answered with
    the reason, a warning is put to an answer that is text, and a run that is to be ended raises `RunAborted` out of the runner
    (as the cause of what it raises).
    """
    return [_guarded(tool, gate, publisher) if isinstance(tool, FunctionTool) else tool for tool in tools]


def _guarded(tool: FunctionTool, gate: RunChecker, publisher: RunReporter) -> FunctionTool:
    invoke = tool.on_invoke_tool

    async def on_invoke_tool(context: ToolContext[Any], arguments: str) -> Any:
        run = current_run()
        if run is None:
            return await invoke(context, arguments)
        call = GuardedCall(gate, publisher, run=run, tool=tool.name, params=_parsed(arguments), call_id=context.tool_call_id)
        verdict = call.begin()
        if verdict.action == "abort":
            raise RunAborted(verdict)
        if verdict.refused:
            return verdict.reason
        try:
            result = await invoke(context, arguments)
        except BaseException as error:
            call.end(error=error)
            raise
        call.end(result=result)
        return f"{result}\n\n{verdict.reason}" if verdict.action == "warn" and isinstance(result, str) else result

    return dataclasses.replace(tool, on_invoke_tool=on_invoke_tool)


def _parsed(arguments: str) -> Any:
    """Return the arguments as the JSON value that they are, or as text when the model wrote none."""
    try:
        return json_text.loads(arguments.encode()) if arguments else {}
    except ValueError:
        return arguments
