"""The Apache Kafka of the tests starts, answers, comes back on its data, and leaves nothing behind however its owner ends."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.brokers import kafka_jars
from tests.brokers.apache_kafka import ApacheKafka, ApacheKafkaError
from tests.brokers.kafka_jars import KafkaUnavailableError
from tests.brokers.kafka_properties import written

pytestmark = pytest.mark.broker

ROOT = Path(__file__).parents[2]

#: Seconds that anything here may take on a loaded machine.
PATIENCE = 60.0


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll: other people's processes cannot be awaited."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not so after {PATIENCE} s"
        time.sleep(0.02)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def write(kafka: ApacheKafka, value: bytes) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers, enable_idempotence=True) as producer:
        await asyncio.wait_for(producer.send_and_wait("kept", value), PATIENCE)


async def read(kafka: ApacheKafka, count: int) -> list[Any]:
    consumer = AIOKafkaConsumer("kept", bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest")
    async with consumer:
        return [(await asyncio.wait_for(consumer.getone(), PATIENCE)).value for _ in range(count)]


async def test_comes_back_with_its_data_on_its_ports_after_sigterm_sigkill_and_a_pause(
    kafka_factory: Callable[..., ApacheKafka],
) -> None:
    with kafka_factory() as kafka:
        admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
        await admin.start()
        await admin.create_topics([NewTopic("kept", 1, 1)])
        await admin.close()
        address = kafka.bootstrap_servers
        await write(kafka, b"before")
        kafka.terminate()
        assert not kafka.alive
        kafka.start()
        await write(kafka, b"after SIGTERM")
        kafka.kill()
        kafka.start()
        await write(kafka, b"after SIGKILL")
        kafka.pause()
        waiting = asyncio.create_task(write(kafka, b"after a pause"))
        assert not (await asyncio.wait([waiting], timeout=0.5))[0], "a paused broker answers"
        kafka.resume()
        await waiting
        assert await read(kafka, 4) == [b"before", b"after SIGTERM", b"after SIGKILL", b"after a pause"]
        assert kafka.bootstrap_servers == address
        pid, folder = kafka.pid, kafka.log_path.parent
        kafka.pause()  # one that is paused is ended too
    assert pid is not None
    assert not exists(pid)
    assert not folder.exists()


def test_its_heap_is_bounded_a_ctrl_c_does_not_reach_it_and_its_port_is_taken(
    kafka_factory: Callable[..., ApacheKafka],
) -> None:
    with kafka_factory() as kafka:
        assert kafka.pid is not None
        assert b"-Xmx512m" in Path(f"/proc/{kafka.pid}/cmdline").read_bytes().split(b"\0")
        assert os.getpgid(kafka.pid) != os.getpgid(0)
        port = int(kafka.bootstrap_servers.partition(":")[2])
        with pytest.raises(ApacheKafkaError, match=f"127.0.0.1:{port} is taken"):
            kafka_factory(port=port)


@pytest.mark.usefixtures("kafka_installed")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_one_for_playing_says_where_it_is_and_dies_with_its_owner(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.brokers.apache_kafka", "--port", "0", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stderr is not None
        address = owner.stdout.readline().strip()
        assert f"export LOOPWARDEN_BOOTSTRAP_SERVERS={address}\n" in [owner.stderr.readline().strip(" ") for _ in range(3)]
        brokers = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if runs(path, tmp_path)]
        assert brokers
        owner.send_signal(number)
        assert owner.wait(PATIENCE) == (130 if number != signal.SIGKILL else -signal.SIGKILL)
        wait_until(lambda: not any(exists(pid) for pid in brokers))


def runs(path: Path, folder: Path) -> bool:
    try:
        return str(folder / "server.properties").encode() in path.read_bytes().split(b"\0")
    except OSError:  # gone meanwhile
        return False


def test_wrong_properties_are_an_error_with_its_last_words(kafka_factory: Callable[..., ApacheKafka]) -> None:
    with pytest.raises(ApacheKafkaError, match=r"(?s)log\.cleaner\.threads"):
        kafka_factory(properties={"log.cleaner.threads": "none"})


def test_without_java_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(KafkaUnavailableError, match="java is not installed"):
        ApacheKafka().start()


def test_without_maven_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(KafkaUnavailableError, match="mvn is not installed"):
        kafka_jars.fetch_jars()


def test_an_old_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(KafkaUnavailableError, match=r"11\.0\.2.*needs Java 17"):
        kafka_jars.find_java()


def test_two_processes_that_fetch_at_once_both_get_all_jars_and_leave_nothing_half_done(tmp_path: Path) -> None:
    binaries, cache = tmp_path / "bin", tmp_path / "cache"
    binaries.mkdir()
    maven = binaries / "mvn"
    # Takes a while and writes two files, one after the other, wherever it was told to.
    maven.write_text(
        "#!/bin/sh\nfor argument; do case $argument in -DoutputDirectory=*) out=${argument#*=};; esac; done\n"
        f"echo run >> {tmp_path}/runs\nmkdir -p $out; touch $out/one.jar; sleep 0.3; touch $out/two.jar\n"
    )
    maven.chmod(0o755)
    code = "from tests.brokers.kafka_jars import fetch_jars; print(sorted(p.name for p in fetch_jars().iterdir()))"
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(cache)}
    processes = [
        subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert {process.communicate(timeout=PATIENCE)[0].strip() for process in processes} == {"['one.jar', 'two.jar']"}
    assert (tmp_path / "runs").read_text() == "run\n"
    assert not list((cache / "loopwarden").glob("unfinished-*"))


def test_a_failed_download_is_an_error_with_mavens_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] unknown host repo.example'\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(KafkaUnavailableError, match=r"unknown host repo\.example"):
        kafka_jars.fetch_jars()


def test_properties_are_escaped_as_java_reads_them() -> None:
    assert written({"a": "b=c\\d\n\u00e9\U0001f600"}) == "a=b=c\\\\d\\n\\u00e9\\ud83d\\ude00\n"
