"""A worker in a process of its own, for demo and conformance: never outlives the one that started it."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from aiokafka import AIOKafkaConsumer, TopicPartition

from schemas.settings import Settings
from streams.broker import launcher
from streams.connection import Connection

#: Seconds between two looks at the committed offsets.
_LOOK_INTERVAL = 0.05


class WorkerProcessError(RuntimeError):
    """A worker did not come up, or ended before it was told to; the message ends with its last log lines."""


class WorkerProcess:
    """Starts `loopwarden worker` with the given settings and stops it at the end of the `with` block."""

    def __init__(self, settings: Settings, *, log_path: Path) -> None:
        self._settings = settings
        self._log_path = log_path
        self._process: subprocess.Popen[bytes] | None = None
        self._worker_pid: int | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "streams.cli", "worker"]
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-I", "-S", launcher.__file__, str(os.getpid()), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # The command line of a process is public. Without a port of its own it would take the one of a worker that people
                # look at.
                env={**os.environ, "LOOPWARDEN_HTTP_PORT": "0", **self._settings.environment()},
            )
        assert self._process.stdout is not None  # noqa: S101 - we asked for a pipe
        self._worker_pid = int(self._process.stdout.readline())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self, *, timeout: float = 10.0) -> None:
        """Stop the worker gracefully, by force after `timeout` seconds."""
        process, self._process = self._process, None
        if process is None or self._worker_pid is None:
            return
        try:
            if process.poll() is None:
                os.kill(self._worker_pid, signal.SIGTERM)
                process.wait(timeout)
        except ProcessLookupError:
            pass
        except subprocess.TimeoutExpired:
            os.kill(self._worker_pid, signal.SIGKILL)
        finally:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            process.wait()

    def kill(self) -> None:
        """End the worker with SIGKILL, as a crash would: it writes and commits nothing more and does not leave its group."""
        if self._process is not None and self._process.poll() is None and self._worker_pid is not None:
            os.kill(self._worker_pid, signal.SIGKILL)
            self._process.wait()
        self.stop()

    def ensure_running(self) -> None:
        """Raise `WorkerProcessError` when the worker has ended."""
        if self._process is not None and self._process.poll() is not None:
            lines = self._log_path.read_text("utf-8", errors="replace").splitlines()[-10:]
            raise WorkerProcessError("the worker has ended:\n" + "\n".join(lines))

    async def wait_until_committed(self, ends: Iterable[tuple[str, int, int]], *, patience: float = 60.0) -> None:
        """Wait until the group has committed the given (topic, partition, offset)s: their events are judged and decided.

        Raises `WorkerProcessError` after `patience` seconds without that, or when the worker ends.
        """
        wanted = {(topic, partition): offset for topic, partition, offset in ends if offset}
        # Only asks for offsets: without a subscription it does not join the group. (Tansu hangs up on the admin client.)
        client = AIOKafkaConsumer(
            **Connection.from_settings(self._settings).client_options(), group_id=self._settings.group, enable_auto_commit=False
        )
        await client.start()
        try:
            deadline = time.monotonic() + patience
            while True:
                self.ensure_running()
                at = {place: await client.committed(TopicPartition(*place)) or -1 for place in wanted}
                if all(at.get(place, -1) >= offset for place, offset in wanted.items()):
                    return
                if time.monotonic() > deadline:
                    behind = ", ".join(f"{t}[{p}]@{at.get((t, p), -1)} of {o}" for (t, p), o in wanted.items())
                    raise WorkerProcessError(f"the worker is not through after {patience:.0f} s: {behind}; see {self._log_path}")
                await asyncio.sleep(_LOOK_INTERVAL)
        finally:
            await client.stop()
