"""Whether an event loop turns, seen from outside of it."""

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from streams.operations.graceful_worker import Watch
from streams.operations.heartbeat import Heartbeat
from streams.operations.http_endpoint import HttpEndpoint
from tests.streams.operations.conftest import ask


def test_a_loop_that_has_not_turned_for_long_is_stuck_until_it_turns_again() -> None:
    now = 100.0
    heartbeat = Heartbeat(stuck_after=15.0, clock=lambda: now)
    now = 115.0
    assert heartbeat.health().ok
    now = 115.1
    assert not heartbeat.health().ok
    assert heartbeat.health().faults == "event-loop: turned 15.1 s ago, bound 15 s"
    heartbeat.beat()
    assert heartbeat.health().ok


class Loop:
    """An event loop in a thread, with a watch on it."""

    def __init__(self, heartbeat: Heartbeat, look: Callable[[], None]) -> None:
        self.loop = asyncio.new_event_loop()
        self._heartbeat, self._look = heartbeat, look
        self._stop = asyncio.Event()
        self.thread = threading.Thread(target=self.loop.run_until_complete, args=(self._run(),))

    async def _run(self) -> None:
        watch = Watch(self._heartbeat, self._look)
        async with watch:
            await self._stop.wait()

    def block(self, until: threading.Event) -> None:
        """Have the loop do nothing but wait."""
        self.loop.call_soon_threadsafe(until.wait)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self.thread.join()
        self.loop.close()


@pytest.fixture
def loop_factory() -> Iterator[Callable[..., Loop]]:
    """Run event loops that are watched: `loop_factory(heartbeat, look)`."""
    running: list[Loop] = []

    def run(heartbeat: Heartbeat, look: Callable[[], None] = lambda: None) -> Loop:
        loop = Loop(heartbeat, look)
        loop.thread.start()
        running.append(loop)
        return loop

    yield run
    for loop in running:
        loop.stop()


def wait_for(wanted: Callable[[], bool]) -> None:
    """Ask again and again, for a minute at most."""
    pause = threading.Event()
    for _ in range(600):
        if wanted():
            return
        pause.wait(0.1)
    raise AssertionError("never happened")


def test_livez_fails_while_the_event_loop_is_blocked_and_the_endpoint_answers_all_the_same(
    endpoint_factory: Callable[..., HttpEndpoint], loop_factory: Callable[..., Loop]
) -> None:
    heartbeat = Heartbeat(stuck_after=3.0)
    url = endpoint_factory({"livez": heartbeat.health}).url + "/livez"
    loop = loop_factory(heartbeat)
    wait_for(lambda: heartbeat.age < 1.0)
    assert ask(url)[0] == 200
    free = threading.Event()
    loop.block(free)
    try:
        wait_for(lambda: ask(url)[0] == 503)
        assert "event-loop failed" in ask(url)[1]
    finally:
        free.set()
    wait_for(lambda: ask(url)[0] == 200)


def test_a_look_that_fails_stops_neither_the_beats_nor_the_looks(loop_factory: Callable[..., Loop]) -> None:
    heartbeat = Heartbeat()
    looks = []

    def look() -> None:
        looks.append(heartbeat.age)
        raise RuntimeError("cannot look")

    loop_factory(heartbeat, look)
    wait_for(lambda: len(looks) >= 2)
    assert max(looks) < 1.0, "each look comes right after a beat"
