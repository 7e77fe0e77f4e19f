"""Put a gate and a publisher around a tool: `guard` as decorator or as context manager."""

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast

from streams.gateway.checking import RunChecker
from streams.gateway.guarding import GuardedCall
from streams.gateway.refusals import ToolCallRefused
from streams.gateway.reporting import RunReporter
from streams.gateway.run_scope import RunIdentity, current_run
from streams.gateway.verdict import Verdict

log = logging.getLogger("loopwarden.gateway")

P = ParamSpec("P")
R = TypeVar("R")

_told: set[str] = set()


class guard:  # noqa: N801  (used like a function: as a decorator and in with statements)
    """Asks before each call of a tool, reports it and its end, and refuses it when the gate says so.

    @guard(gate, publisher)
    def read(path): ...                                         # sync or async

    with guard(gate, publisher, tool="read", params={"path": path}) as call:
        call.result = read(path)                                # also: async with

    The run is `run_id` (or `session_id`), else that of the `run_scope` around the call. A refused call raises `ToolCallRefused`,
    whose text is for the model, or, of a decorated tool, returns `on_refusal(verdict)`; a run that is to be ended raises
    `RunAborted`. `on_warning(verdict, result)` returns the result with the warning put to it; without it the result stays.

    `tool` is the function's name by default. Its parameters are the arguments by name, `self` and `cls` left out, or what
    `params_of` makes of the same arguments. What the tool raises is reported as its error and raised on.
    """

    def __init__(
        self,
        gate: RunChecker,
        publisher: RunReporter,
        *,
        tool: str | None = None,
        params: Any = None,
        run_id: str | None = None,
        session_id: str | None = None,
        agent_id: str | None = None,
        call_id: str | None = None,
        params_of: Callable[..., Any] | None = None,
        on_refusal: Callable[[Verdict], Any] | None = None,
        on_warning: Callable[[Verdict, Any], Any] | None = None,
    ) -> None:
        self._gate = gate
        self._publisher = publisher
        self._tool = tool
        self._params = params
        self._identity = RunIdentity(run_id=run_id, session_id=session_id, agent_id=agent_id)
        self._call_id = call_id
        self._params_of = params_of
        self._on_refusal = on_refusal
        self._on_warning = on_warning
        self._open: GuardedCall | None = None

    # -- decorator -------------------------------------------------------------------------------------------------------------

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Guard a function; raises `TypeError` for generators, whose calls end later than they return."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"{function.__qualname__}: a generator cannot be guarded; use `with guard(...)` around the loop over it"
            )
        signature = _signature_of(function)

        def call_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> GuardedCall | None:
            tool = self._tool or str(getattr(function, "__name__", type(function).__name__))
            params = self._params_of(*args, **kwargs) if self._params_of is not None else _arguments(signature, args, kwargs)
            return self._new_call(tool, params)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def guarded_async(*args: P.args, **kwargs: P.kwargs) -> Any:
                call = call_of(args, kwargs)
                if call is None:
                    return await cast(Awaitable[Any], function(*args, **kwargs))
                if (refusal := self._refusal(call)) is not None:
                    return refusal[0]
                return await self._finish(call, cast(Awaitable[Any], function(*args, **kwargs)))

            return cast(Callable[P, R], guarded_async)

        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            call = call_of(args, kwargs)
            if call is None:
                return function(*args, **kwargs)
            if (refusal := self._refusal(call)) is not None:
                return cast(R, refusal[0])
            try:
                result = function(*args, **kwargs)
            except BaseException as error:
                call.end(error=error)
                raise
            if inspect.isawaitable(result):  # a coroutine function in disguise
                return cast(R, self._finish(call, result))
            call.end(result=result)
            return cast(R, self._with_warning(call, result))

        return guarded

    async def _finish(self, call: GuardedCall, running: Awaitable[Any]) -> Any:
        try:
            result = await running
        except BaseException as error:
            call.end(error=error)
            raise
        call.end(result=result)
        return self._with_warning(call, result)

    def _refusal(self, call: GuardedCall) -> tuple[Any] | None:
        try:
            call.ensure_allowed()
        except ToolCallRefused as refused:
            if self._on_refusal is None:
                raise
            return (self._on_refusal(refused.verdict),)
        return None

    def _with_warning(self, call: GuardedCall, result: Any) -> Any:
        if call.verdict is None or call.verdict.action != "warn" or self._on_warning is None:
            return result
        return self._on_warning(call.verdict, result)

    # -- context manager -------------------------------------------------------------------------------------------------------

    def __enter__(self) -> GuardedCall:
        if self._tool is None:
            raise TypeError("guard(...) as a context manager needs tool=")
        call = self._new_call(self._tool, self._params)
        if call is None:
            raise LookupError("guard(...) needs run_id= or session_id=, or a run_scope around it")
        call.ensure_allowed()
        self._open = call
        return call

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        call, self._open = self._open, None
        if call is not None:
            call.end(result=call.result, error=error)

    async def __aenter__(self) -> GuardedCall:
        return self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.__exit__(kind, error, trace)

    def _new_call(self, tool: str, params: Any) -> GuardedCall | None:
        """Return the call to make; None when nobody knows of which run it is: the tool then works unwatched."""
        run = self._identity
        if run.run_id is None and run.session_id is None:
            around = current_run()
            if around is None or (around.run_id is None and around.session_id is None):
                if tool not in _told:
                    _told.add(tool)
                    log.error("%s is called outside of a run and is not watched: give guard a run_id, or use run_scope", tool)
                return None
            run = around
        return GuardedCall(self._gate, self._publisher, run=run, tool=tool, params=params, call_id=self._call_id)


def _signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have none
        return None


def _arguments(signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by name, however they were given; those that do not fit the function as they came."""
    if signature is not None:
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError:  # the function will say so
            pass
        else:
            found: dict[str, Any] = {}
            for name, value in bound.items():
                kind = signature.parameters[name].kind
                if kind is inspect.Parameter.VAR_KEYWORD:
                    found |= value
                elif not (name in ("self", "cls") and not found):
                    found[name] = value
            return found
    return {**({"args": list(args)} if args else {}), **kwargs}
