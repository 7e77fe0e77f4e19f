"""The command receiver: a process for each decision, with the decision on its standard input."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence

from streams.enforcement.envelope import DecisionEnvelope
from streams.enforcement.receiver import NoAnswerError

#: Seconds that a process group has between SIGTERM and SIGKILL.
_TERM_GRACE = 1.0

#: Variables of ours that a command has no business with, by the end of their names.
_SECRET_ENDINGS = ("_SECRET", "_PASSWORD")


class CommandReceiver:
    """Runs a command for each decision; exit code 0 means that it is handled, any other that it is to be tried again.

    The decision's CloudEvent is on standard input, its ids and what it says are in environment variables. The command runs in a
    process group of its own, which is killed at the time-out; its output goes where the worker's goes.
    """

    kind = "command"

    def __init__(self, command: Sequence[str], *, timeout: float = 30.0) -> None:
        self.attempt_timeout = timeout
        self._command = tuple(command)

    async def hand_over(self, envelope: DecisionEnvelope) -> None:
        """Run the command once.

        Raises `NoAnswerError` when it cannot be started, ends with another exit code than 0, is killed or takes too long.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                env=_environment(envelope, os.environ),
                start_new_session=True,
            )
        except OSError as error:
            raise NoAnswerError("not_started", f"cannot be started: {(error.strerror or 'error').lower()}") from None
        try:
            async with asyncio.timeout(self.attempt_timeout):
                # communicate ignores a command that does not read its input.
                await process.communicate(envelope.body)
        except TimeoutError:
            raise NoAnswerError("timeout", f"not through after {self.attempt_timeout:g} s, killed") from None
        finally:
            if process.returncode is None:
                # Shielded, so that a worker that is stopping does not leave half a process group behind.
                await asyncio.shield(_kill_group(process))
        code = await process.wait()
        if code < 0:
            raise NoAnswerError(f"signal_{-code}", f"killed by signal {-code}")
        if code:
            raise NoAnswerError(f"exit_{code}", f"exit code {code}")

    async def close(self) -> None:
        """Nothing is held between attempts."""


async def _kill_group(process: asyncio.subprocess.Process) -> None:
    # The group's id is the process's; it is not given to another while the group has members.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_TERM_GRACE):
            await process.wait()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # children that outlive their parent, too
    await process.wait()


def _environment(envelope: DecisionEnvelope, inherited: Mapping[str, str]) -> dict[str, str]:
    decision = envelope.decision
    said = {
        "DECISION_ID": decision.decision_id,
        "RUN_ID": decision.run_id,
        "SESSION_ID": decision.session_id or "",
        "AGENT_ID": decision.agent_id or "",
        "ACTION": decision.action,
        "LEVEL": decision.level,
        "DETECTOR": decision.detector,
        "TARGET_SCOPE": decision.target.scope,
        "TARGET_TOOL": decision.target.tool or "",
        "MODE": decision.mode,
        "ORIGIN": str(envelope.origin),
    }
    kept = {
        name: value
        for name, value in inherited.items()
        if not (name.startswith("LOOPWARDEN_") and name.endswith(_SECRET_ENDINGS))
    }
    return kept | {f"LOOPWARDEN_{name}": _passable(text) for name, text in said.items()}


def _passable(text: str) -> str:
    # What an environment cannot carry: NUL, and halves of surrogate pairs, which JSON lets through.
    return text.replace("\0", "").encode(errors="replace").decode()
