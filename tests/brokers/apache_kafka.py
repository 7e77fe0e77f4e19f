"""An Apache Kafka (KRaft, one node) on 127.0.0.1 for tests and for playing.

    python -m tests.brokers.apache_kafka [--port 9092] [--data-dir FOLDER]

runs one until Ctrl-C.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from streams.broker import launcher
from tests.brokers.kafka_jars import KafkaUnavailableError, fetch_jars, find_java
from tests.brokers.kafka_properties import HOST, PLAINTEXT, listener_names, scram_credential, server_properties, written

#: Ports to choose from: below the ranges from which systems take the source ports of outgoing connections.
_PORTS = range(20_000, 32_000)

#: How often other ports are tried when somebody takes a chosen one before the broker does.
_PORT_ATTEMPTS = 5

#: Seconds between two questions whether the broker answers yet (it takes about two seconds to come up).
_PROBE_INTERVAL = 0.05

#: A bounded heap, and start-up before peak speed: a broker in a test lives for seconds. SIGTERM makes Java exit with 143.
_JAVA_OPTIONS = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

#: What the broker logs: warnings, and who was denied what.
_LOG_OPTIONS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.authorizer.logger=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)

_LOG_LINES_IN_ERRORS = 25


class ApacheKafkaError(RuntimeError):
    """The broker did not start or does not answer; the message ends with its last log lines."""


class _PortTakenError(ApacheKafkaError):
    """Somebody else listens on one of the ports."""


class ApacheKafka:
    """A broker that never outlives this process.

    with ApacheKafka(listeners={"SASL_PLAINTEXT": "SASL_PLAINTEXT"}, users={"worker": "secret"}) as kafka:
        producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

    It always has a PLAINTEXT listener; `listeners` are others (name to security protocol), and `address(name)` returns where
    each is. `users` are known to all SASL listeners, by PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. `properties` win over all others;
    those for TLS come from `kafka_properties.tls_properties`. `log_options` are more of slf4j-simple's. `data_dir` keeps data,
    properties and log (otherwise a temporary folder that the end of the block removes). After `terminate()` or `kill()`,
    `start()` begins again on the same data and ports; `pause()` and `resume()` are SIGSTOP and SIGCONT. Raises
    `KafkaUnavailableError` where Java or Maven are missing and `ApacheKafkaError` when it does not come up.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        listeners: Mapping[str, str] | None = None,
        users: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        data_dir: Path | None = None,
        java_options: Sequence[str] = _JAVA_OPTIONS,
        log_options: Sequence[str] = (),
        start_timeout: float = 90.0,
    ) -> None:
        self._wanted_port = port
        self._listeners = dict(listeners or {})
        self._users = dict(users or {})
        self._properties = dict(properties or {})
        self._wanted_dir = data_dir
        self._java_options = tuple(java_options)
        self._log_options = (*_LOG_OPTIONS, *log_options)
        self._start_timeout = start_timeout
        self._dir: Path | None = None
        self._cluster = ""
        self._ports: dict[str, int] = {}
        self._launcher: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The address of the PLAINTEXT listener."""
        return self.address(PLAINTEXT)

    @property
    def pid(self) -> int | None:
        """The process id of the Java machine; None when it does not run."""
        return self._pid if self.alive else None

    @property
    def alive(self) -> bool:
        """Whether the broker process runs (it may be paused)."""
        return self._launcher is not None and self._launcher.poll() is None

    @property
    def log_path(self) -> Path:
        """The broker's log, over all its starts."""
        assert self._dir is not None, "not started yet"
        return self._dir / "kafka.log"

    def address(self, listener: str) -> str:
        """Return `127.0.0.1:PORT` of a listener."""
        return f"{HOST}:{self._ports[listener]}"

    def start(self) -> Self:
        """Start the broker and wait until it answers; does nothing when it already runs."""
        if self.alive:
            return self
        java, jars = find_java(), fetch_jars()
        deadline = time.monotonic() + self._start_timeout
        try:
            if self._ports:
                self._run(java, jars, deadline)
                return self
            self._dir = self._wanted_dir or Path(tempfile.mkdtemp(prefix="loopwarden-kafka-"))
            self._dir.mkdir(parents=True, exist_ok=True)
            for attempt in range(_PORT_ATTEMPTS):
                self._choose_ports()
                try:
                    if attempt == 0:
                        self._format(java, jars)
                    self._run(java, jars, deadline)
                except _PortTakenError:
                    self.kill()
                    if self._wanted_port or attempt == _PORT_ATTEMPTS - 1:
                        raise
                else:
                    return self
        except BaseException:  # a Ctrl-C while waiting must not leave a broker either
            self.kill()
            raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    def terminate(self, *, timeout: float = 30.0) -> None:
        """End the broker with SIGTERM, as an operator does, and wait; by force after `timeout` seconds."""
        self._end(signal.SIGTERM, timeout)

    def kill(self) -> None:
        """End the broker with SIGKILL, as a crash does, and wait until it is gone."""
        self._end(signal.SIGKILL, None)

    def pause(self) -> None:
        """Stop the broker in its tracks (SIGSTOP): its connections stay, nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused broker go on."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """End the broker by force and remove what it kept, unless it was given a folder; may be called any number of times."""
        self.kill()
        self._ports = {}
        folder, self._dir = self._dir, None
        if folder is not None and self._wanted_dir is None:
            shutil.rmtree(folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    def _choose_ports(self) -> None:
        names = listener_names(self._listeners)
        with contextlib.ExitStack() as held:
            free = _free_ports(held)
            self._ports = {name: next(free) for name in names}
            if self._wanted_port:
                self._ports[PLAINTEXT] = self._wanted_port
        assert self._dir is not None
        properties = server_properties(
            ports=self._ports,
            listeners=self._listeners,
            data=self._dir / "data",
            users=self._users,
            extra=self._properties,
        )
        path = self._dir / "server.properties"
        path.touch(mode=0o600)  # it holds the passwords
        path.write_text(written(properties))

    def _format(self, java: str, jars: Path) -> None:
        """Make the data directory, with the SCRAM users in it; one that was made before is kept."""
        assert self._dir is not None
        made = self._dir / "data" / "meta.properties"
        if made.exists():
            lines = made.read_text().splitlines()
            self._cluster = next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))
            return
        # Sixteen bytes in base64; the first letter is given, since the tool takes one that starts with a dash for an option.
        self._cluster = "L" + urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        command = [java, *self._java_options, *self._log_options, "-cp", f"{jars}/*", "kafka.tools.StorageTool", "format"]
        command += ["--cluster-id", self._cluster, "--config", str(self._dir / "server.properties")]
        for name, password in self._users.items():
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                command += ["--add-scram", scram_credential(mechanism, name, password)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            tail = "\n".join((result.stdout + result.stderr).splitlines()[-_LOG_LINES_IN_ERRORS:])
            raise ApacheKafkaError(f"the data directory cannot be made:\n{tail}")

    def _run(self, java: str, jars: Path, deadline: float) -> None:
        assert self._dir is not None
        for port in self._ports.values():
            _require_free(port)
        command = [
            java,
            *self._java_options,
            *self._log_options,
            "-cp",
            f"{jars}/*",
            "kafka.Kafka",
            str(self._dir / "server.properties"),
        ]
        started_at = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log:
            self._launcher = subprocess.Popen(
                [sys.executable, "-I", "-S", launcher.__file__, str(os.getpid()), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._dir,
                start_new_session=True,  # a Ctrl-C on the terminal reaches this process only
            )
        assert self._launcher.stdout is not None
        reported = self._launcher.stdout.readline()
        self._pid = int(reported) if reported else None
        while not _answers(self._ports[PLAINTEXT], self._cluster):
            if not self.alive:
                tail = self._log_tail(started_at)
                kind = _PortTakenError if "Address already in use" in tail else ApacheKafkaError
                raise kind(f"Apache Kafka died at start; its log ends:\n{tail}")
            if time.monotonic() > deadline:
                raise ApacheKafkaError(
                    f"Apache Kafka did not answer on {self.bootstrap_servers} within {self._start_timeout:g} s (start_timeout);"
                    f" its log ends:\n{self._log_tail(started_at)}"
                )
            time.sleep(_PROBE_INTERVAL)

    def _signal(self, number: signal.Signals) -> None:
        if self.alive and self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def _end(self, number: signal.Signals, timeout: float | None) -> None:
        process = self._launcher
        if process is None:
            return
        self._signal(number)
        self._signal(signal.SIGCONT)  # a paused one would not notice
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
        finally:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()  # the end of its input makes the launcher kill the broker
            process.wait()
            self._launcher, self._pid = None, None

    def _log_tail(self, start: int) -> str:
        with self.log_path.open("rb") as log:
            log.seek(start)
            lines = log.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_LINES_IN_ERRORS:])


def _free_ports(held: contextlib.ExitStack) -> Iterator[int]:
    """Yield free ports, which are held until the stack is left so that none comes twice."""
    for port in random.sample(_PORTS, len(_PORTS)):
        probe = held.enter_context(socket.socket())
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            probe.bind((HOST, port))
            yield port


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise _PortTakenError(
                f"{HOST}:{port} is taken; stop what listens there, or let a free port be chosen (port 0)"
            ) from error


def _answers(port: int, cluster: str) -> bool:
    """Ask for the cluster's metadata (version 2: the first that names the cluster); it must name a broker and this cluster.

    A broker that is up but not registered yet answers without brokers, and makes no topics.
    """
    client = b"loopwarden"
    header = b"\x00\x03\x00\x02" + b"\x00\x00\x00\x07" + len(client).to_bytes(2) + client
    request = header + b"\x00\x00\x00\x00"  # no topics
    try:
        with socket.create_connection((HOST, port), timeout=2.0) as connection:
            connection.sendall(len(request).to_bytes(4) + request)
            answer: IO[bytes]
            with connection.makefile("rb") as answer:
                body = answer.read(int.from_bytes(answer.read(4)))
            brokers = int.from_bytes(body[4:8])
            return brokers > 0 and cluster.encode() in body
    except OSError:
        return False


def main() -> int:
    """Run a broker until Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.brokers.apache_kafka",
        description="Run an Apache Kafka on 127.0.0.1 until Ctrl-C.",
        epilog="Example: python -m tests.brokers.apache_kafka --port 9092 --data-dir /tmp/kafka",
    )
    parser.add_argument(
        "--port", type=int, default=9092, help="port of the PLAINTEXT listener; 0 chooses a free one (default: 9092)"
    )
    parser.add_argument("--data-dir", type=Path, help="keep data here (default: nothing is kept)")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    kafka = ApacheKafka(port=given.port, data_dir=given.data_dir)
    try:
        with kafka:
            print(kafka.bootstrap_servers, flush=True)
            print(f"Running until Ctrl-C; the log is {kafka.log_path}. For other terminals:", file=sys.stderr)
            print(f"  export LOOPWARDEN_BOOTSTRAP_SERVERS={kafka.bootstrap_servers}", file=sys.stderr)
            print(f"  export LOOPWARDEN_TEST_BROKER={kafka.bootstrap_servers}  # to run the tests against it", file=sys.stderr)
            forever = threading.Event()
            while not forever.wait(0.5):
                if not kafka.alive:
                    print(f"apache_kafka: the broker has died; see {kafka.log_path}", file=sys.stderr)
                    return 1
            return 0
    except KeyboardInterrupt:
        return 130
    except (ApacheKafkaError, KafkaUnavailableError, OSError) as error:
        print(f"apache_kafka: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
