"""Who takes part: how each contender is started, on which brokers, and with how much of the input."""

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench.brokers import Broker
from tests.bench.contenders.arguments import Arguments
from tests.bench.decided import POLICY

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"

#: Quix Streams pins an older pydantic than ours, so it gets a virtual environment of its own.
QUIX = "quixstreams==3.28.0"


class NotHereError(RuntimeError):
    """A contender cannot run on this machine; the message says what is missing."""


#: Returns arguments and environment of a contender's process.
Command = Callable[[Broker, Arguments], tuple[list[str], Mapping[str, str]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Contender:
    """One line of the table.

    `command` returns arguments and environment of its process. `share` is the part of the input that it gets: slow ones would
    hold everybody up. `detects` says whether it does the whole job. `setting_up` makes what it needs, once.
    """

    name: str
    command: Command
    detects: bool
    share: float = 1.0
    brokers: tuple[str, ...] = ("embedded", "kafka")
    setting_up: Callable[[], None] = lambda: None


def _module(name: str, python: str = sys.executable, **changed: str) -> Command:
    def command(broker: Broker, given: Arguments) -> tuple[list[str], Mapping[str, str]]:
        options = given.as_options()
        for option, value in changed.items():
            options[options.index(f"--{option}") + 1] = value
        return [python, "-m", f"tests.bench.contenders.{name}", *options], {}

    return command


def worker(store: str = "memory://", policy: Mapping[str, object] = POLICY) -> Command:
    """Return how to start a worker of ours."""

    def command(broker: Broker, given: Arguments) -> tuple[list[str], Mapping[str, str]]:
        policy_file = given.state_dir / "policy.json"
        policy_file.write_text(json.dumps(policy))
        environment = {
            "LOOPWARDEN_BOOTSTRAP_SERVERS": given.bootstrap,
            "LOOPWARDEN_TOPIC_PREFIX": given.input.removesuffix("agent.tool-calls.v1"),
            "LOOPWARDEN_GROUP": given.group,
            "LOOPWARDEN_POLICY_FILE": str(policy_file),
            "LOOPWARDEN_STORE": store,
            "LOOPWARDEN_DATA_DIR": str(given.state_dir / "data"),
            "LOOPWARDEN_IDEMPOTENT_PRODUCER": str(given.idempotent),
            "LOOPWARDEN_SESSION_TIMEOUT": str(given.session_timeout),
            "LOOPWARDEN_HEARTBEAT_INTERVAL": str(given.session_timeout / 4),
            "LOOPWARDEN_COMMIT_INTERVAL": str(given.commit_interval),
            "LOOPWARDEN_HTTP_PORT": "0",
        }
        return [sys.executable, "-m", "streams.cli", "worker"], environment

    return command


def _set_up_quix() -> None:
    python = BUILD / "quix-venv" / "bin" / "python"
    marker = BUILD / "quix-venv" / QUIX
    if marker.exists():
        return
    venv.create(BUILD / "quix-venv", with_pip=True, clear=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", QUIX, "-e", str(ROOT)], check=True)
    marker.touch()


def _set_up_kafka_streams() -> None:
    if shutil.which("mvn") is None or shutil.which("java") is None:
        raise NotHereError("Java and Maven are needed")
    folder = Path(__file__).parent / "kafka_streams"
    libraries = BUILD / "kafka-streams" / "lib"
    subprocess.run(
        ["mvn", "-q", "-B", "compile", "dependency:copy-dependencies", f"-DoutputDirectory={libraries}"], cwd=folder, check=True
    )


def _kafka_streams(broker: Broker, given: Arguments) -> tuple[list[str], Mapping[str, str]]:
    places = f"{BUILD}/kafka-streams/classes:{BUILD}/kafka-streams/lib/*"
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", "-Xmx1g", quiet, "-cp", places, "loopwarden.bench.BareJob", *given.as_options()], {}


FIELD = (
    Contender(name="bare aiokafka, msgspec", command=_module("bare_aiokafka"), detects=False),
    Contender(name="bare aiokafka, pydantic", command=_module("bare_aiokafka", decoder="pydantic"), detects=False),
    Contender(name="Loopwarden, memory", command=worker("memory://"), detects=True),
    Contender(name="Loopwarden, RocksDB", command=worker("rocksdb://"), detects=True),
    Contender(
        name="Kafka Streams",
        command=_kafka_streams,
        detects=False,
        brokers=("kafka",),
        setting_up=_set_up_kafka_streams,
    ),
    Contender(
        name="Quix Streams",
        command=_module("quix_streams", python=str(BUILD / "quix-venv" / "bin" / "python")),
        detects=True,
        share=0.2,
        setting_up=_set_up_quix,
    ),
    Contender(name="stock Faust", command=_module("stock_faust"), detects=True, share=0.05),
)


def environment_of(changed: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a contender's process: this one's without our settings, and what is changed."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("LOOPWARDEN_")}
    return {**inherited, "PYTHONPATH": str(ROOT), **changed}
