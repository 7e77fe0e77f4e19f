"""Workers in processes of their own: started, signalled, watched."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from schemas.settings import Settings
from streams.broker import launcher
from tests.faults.making.plan import FaultPlan

ROOT = Path(__file__).parents[3]

#: The launcher's exit status for a command that a signal ended, as -N modulo 256.
KILLED = 256 - signal.SIGKILL


def environment_of(settings: Settings) -> dict[str, str]:
    """Return settings as environment variables of a process."""
    return {f"LOOPWARDEN_{name.upper()}": str(value) for name, value in settings.model_dump().items() if value is not None}


class Worker:
    """One worker process; it never outlives this one."""

    def __init__(self, settings: Settings, *, log_path: Path, plan: FaultPlan | None = None, niceness: int = 0) -> None:
        self.log_path = log_path
        command = [sys.executable, "-m", "tests.faults.making.faulty_worker", "worker"]
        environment = {
            **os.environ,
            **environment_of(settings),
            "LOOPWARDEN_LOG_FORMAT": "json",
            "LOOPWARDEN_HTTP_PORT": "0",
            **(plan or FaultPlan()).environment(),
        }
        with log_path.open("ab") as log:
            self._launcher = subprocess.Popen(
                [sys.executable, "-I", "-S", launcher.__file__, str(os.getpid()), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env=environment,
            )
        assert self._launcher.stdout is not None
        self.pid = int(self._launcher.stdout.readline())

    @property
    def alive(self) -> bool:
        """Whether the process is there (it may be paused)."""
        return self._launcher.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit status, None while it runs; `KILLED` after a SIGKILL."""
        return self._launcher.poll()

    @property
    def paused(self) -> bool:
        """Whether a SIGSTOP holds the process."""
        return _status(self.pid).get("State", "").startswith(("T", "t"))

    @property
    def resident_bytes(self) -> int:
        """The memory that the process holds, 0 when it has gone."""
        return int(_status(self.pid).get("VmRSS", "0 kB").split()[0]) * 1024

    @property
    def peak_resident_bytes(self) -> int:
        """The most memory that the process has held, 0 when it has gone."""
        return int(_status(self.pid).get("VmHWM", "0 kB").split()[0]) * 1024

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens when the process has gone."""
        if self.alive:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process with SIGKILL and wait until it is gone."""
        self.send(signal.SIGKILL)
        self._launcher.wait()

    def close(self) -> None:
        """Kill what is left and let go of the pipes."""
        self.kill()
        for pipe in (self._launcher.stdin, self._launcher.stdout):
            if pipe is not None:
                pipe.close()

    def log_text(self) -> str:
        """Return the log so far."""
        return self.log_path.read_text("utf-8", errors="replace")

    def log_events(self, event: str) -> list[dict[str, Any]]:
        """Return the structured lines with this text."""
        found = []
        for line in self.log_text().splitlines():
            if line.startswith("{"):
                try:
                    entry = json.loads(line)
                except ValueError:  # written this moment
                    continue
                if event in str(entry.get("event", "")):
                    found.append(entry)
        return found

    def takeovers(self) -> list[list[int]]:
        """Return the partitions of each assignment so far."""
        return [entry["partitions"] for entry in self.log_events("partitions taken over")]


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
