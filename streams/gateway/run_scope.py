"""Which run the code is working for, so that tools need not be told."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from streams.gateway.checking import RunChecker
from streams.gateway.refusals import RunAborted
from streams.gateway.reporting import RunFacts, RunReporter


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """A run as events name it; without `run_id` it is named by its session."""

    run_id: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    parent_run_id: str | None = None

    def facts(self) -> RunFacts:
        """Return what reports take beside `run_id`."""
        return {"session_id": self.session_id, "agent_id": self.agent_id, "parent_run_id": self.parent_run_id}


_current: ContextVar[RunIdentity | None] = ContextVar("loopwarden_run", default=None)


def current_run() -> RunIdentity | None:
    """Return the run of the innermost `run_scope`, in this task or thread; None outside."""
    return _current.get()


@contextmanager
def run_scope(
    run_id: str | None = None,
    *,
    session_id: str | None = None,
    agent_id: str | None = None,
    parent_run_id: str | None = None,
    publisher: RunReporter | None = None,
    gate: RunChecker | None = None,
) -> Iterator[RunIdentity]:
    """Make a run the current one of the block; also around `await`, and in tasks and `asyncio.to_thread` begun within.

    With a `publisher` the end of the block is reported as the end of the run (status `done`, `aborted` or `failed`); with a
    `gate` the gate then forgets the run.
    """
    identity = RunIdentity(run_id=run_id, session_id=session_id, agent_id=agent_id, parent_run_id=parent_run_id)
    token = _current.set(identity)
    status = "done"
    try:
        yield identity
    except RunAborted:
        status = "aborted"
        raise
    except BaseException:
        status = "failed"
        raise
    finally:
        _current.reset(token)
        if publisher is not None:
            publisher.run_ended(run_id, status=status, **identity.facts())
        if gate is not None:
            gate.forget(run_id, session_id=session_id)
