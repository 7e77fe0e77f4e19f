"""Model Context Protocol: a client session whose tool calls are guarded (extra `mcp`)."""

from typing import Any

from mcp.types import CallToolResult, TextContent

from streams.gateway.checking import RunChecker
from streams.gateway.guarding import GuardedCall
from streams.gateway.refusals import RunAborted
from streams.gateway.reporting import RunReporter
from streams.gateway.run_scope import RunIdentity, current_run


class GuardedSession:
    """A `ClientSession` (or `Client`) that asks before `call_tool`; everything else is the session's own.

    session = GuardedSession(session, gate, publisher, run_id="run-1")
    result = await session.call_tool("read", {"path": "a.txt"})

    The run is `run_id`, else that of the `run_scope` around the call; without either the session works unwatched. A refused call
    is answered by a result with `is_error` and the reason, a warning is put to the content of the result, and a run that is to be
    ended raises `RunAborted`.
    """

    def __init__(
        self, session: Any, gate: RunChecker, publisher: RunReporter, *, run_id: str | None = None, agent_id: str | None = None
    ) -> None:
        self._session = session
        self._gate = gate
        self._publisher = publisher
        self._run = RunIdentity(run_id=run_id, agent_id=agent_id) if run_id is not None else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, *given: Any, **options: Any) -> Any:
        """Call a tool of the server as the session does, when the gate lets it."""
        run = self._run or current_run()
        if run is None:
            return await self._session.call_tool(name, arguments, *given, **options)
        call = GuardedCall(self._gate, self._publisher, run=run, tool=name, params=arguments or {})
        verdict = call.begin()
        if verdict.action == "abort":
            raise RunAborted(verdict)
        if verdict.refused:
            return CallToolResult(content=[TextContent(type="text", text=verdict.reason)], is_error=True)
        try:
            result = await self._session.call_tool(name, arguments, *given, **options)
        except BaseException as error:
            call.end(error=error)
            raise
        if not isinstance(result, CallToolResult):  # the server asks for more before it answers
            call.end()
            return result
        if result.is_error:
            call.end(error=_text(result))
        else:
            call.end(result=_outcome(result))
        if verdict.action == "warn":
            return result.model_copy(update={"content": [*result.content, TextContent(type="text", text=verdict.reason)]})
        return result


def _text(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def _outcome(result: CallToolResult) -> dict[str, Any]:
    """Return a result in the shape that outcomes have: content, and details for what is structured."""
    content = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
    others = [block for block in content if block.get("type") != "text"]
    details = {name: value for name, value in (("structured", result.structured_content), ("other", others)) if value}
    return {"content": content, "details": details}
