"""The processes of the compose file, started on this machine from its command lines and environment.

What differs: addresses (everything listens on 127.0.0.1), folders, and what the broker under test asks for. Images, limits
and the read-only file system are not tried.
"""

import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import yaml

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose/compose.yaml").read_text())


def free_port() -> int:
    """Return a port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def get(url: str) -> tuple[int, str]:
    """Return status and text of a GET; status 0 when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


class Stack:
    """Services of the compose file as processes; all are ended with the block."""

    def __init__(self, folder: Path, overrides: Mapping[str, str]) -> None:
        self.folder = folder
        self.overrides = dict(overrides)
        self.ports = {name: free_port() for name in (*COMPOSE["services"], "gateway")}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._stack.close()

    def address(self, service: str) -> str:
        """Return `127.0.0.1:PORT` of a service."""
        return f"127.0.0.1:{self.ports[service]}"

    def log(self, service: str) -> str:
        """Return what a service has printed."""
        return (self.folder / f"{service}.log").read_text(errors="replace")

    def environment(self, service: str) -> dict[str, str]:
        """Return the environment of a service: the file's, with the addresses and folders of this machine."""
        given = {name: _defaulted(str(value)) for name, value in COMPOSE["services"][service]["environment"].items()}
        places = {
            "LOOPWARDEN_HTTP_HOST": "127.0.0.1",
            "LOOPWARDEN_HTTP_PORT": str(self.ports[service]),
            "LOOPWARDEN_POLICY_FILE": str(ROOT / "compose" / COMPOSE["configs"]["policy"]["file"]),
        }
        kept = {name: value for name, value in places.items() if name in given}
        data = {"LOOPWARDEN_DATA_DIR": str(self.folder / f"{service}-data"), "LOOPWARDEN_LOG_FORMAT": "json"}  # the image's
        return {**os.environ, **data, **given, **kept, **self.overrides}

    def words(self, service: str) -> list[str]:
        """Return the command line of a service."""
        words = [str(word) for word in COMPOSE["services"][service]["command"]]
        if service == "receiver":
            words = [str(word) for word in COMPOSE["services"][service]["entrypoint"]]
            assert words[:4] == ["tini", "--", "python", "/opt/webhook_receiver.py"]
            words = [str(ROOT / "examples/webhook_receiver.py"), *words[4:]]
        else:
            words = ["-m", "streams.cli", *words]
        here = {"0.0.0.0": "127.0.0.1", "8080": str(self.ports[service]), "8088": str(self.ports["receiver"])}
        return [here.get(word, word.replace("receiver:8088", self.address("receiver"))) for word in words]

    def run(self, service: str) -> str:
        """Run a service that ends by itself, and return what it printed; raises `CalledProcessError`."""
        command = [sys.executable, *self.words(service)]
        return subprocess.run(
            command, env=self.environment(service), capture_output=True, text=True, timeout=120, check=True
        ).stdout

    def start(self, service: str, command: list[str] | None = None) -> None:
        """Start a service that goes on; `command` in place of the program's own."""
        environment = self.environment(service) if command is None else None
        log = self._stack.enter_context((self.folder / f"{service}.log").open("wb"))
        command = command or [sys.executable, *self.words(service)]
        self.processes[service] = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)

    def ensure_running(self) -> None:
        """Fail with the log of a process that has ended."""
        for service, process in self.processes.items():
            assert process.poll() is None, f"{service} has ended:\n{self.log(service)[-2000:]}"


def _defaulted(value: str) -> str:
    """Put defaults into `${NAME:-default}`, as compose does where the variable is not set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)
