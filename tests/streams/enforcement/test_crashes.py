"""Worker processes that are killed, stopped and woken up again."""

import asyncio
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable

from aiohttp import web
from standardwebhooks import Webhook

from schemas.decisions import Decision
from schemas.topics import partition_of
from tests.streams.enforcement.conftest import PARTITIONS, SECRET, Answer, Hook, Scene, until

Make = Callable[..., Decision]

#: An id may be handed over again when its worker was killed while the answer was on its way or not recorded yet: within some
#: milliseconds, on a machine that is busy with other tests within a second.
UNRECORDED = 1.0


def start(scene: Scene, hook: Hook, *options: str) -> subprocess.Popen[bytes]:
    return scene.process("webhook", "--url", hook.url, *options)


def answering_after(seconds: Callable[[], float]) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        await asyncio.sleep(seconds())
        return web.Response()

    return answer


async def test_kill_9_loses_no_decision_and_repeats_none_that_was_answered(
    scene: Scene, hook: Hook, decision_factory: Make
) -> None:
    """Killed five times at any moment, while copies come along as after a crash of the worker that decides."""
    chance = random.Random(5)
    runs = [f"run-{number}" for number in range(12)]
    for run in runs:
        hook.answer(run, answering_after(lambda: chance.uniform(0, 0.05)))
    made = [decision_factory(run=run) for _ in range(50) for run in runs]
    ends: list[float] = []
    for round_ in range(5):
        process = start(scene, hook)
        part = made[round_ * 100 : (round_ + 1) * 100]
        await scene.publish(*part, *made[max(round_ * 100 - 50, 0) : round_ * 100 + 50])
        reached = round_ * 100 + chance.randrange(10, 90)
        await until(lambda reached=reached: len(hook.answered) >= reached, what=f"{reached} answers")
        process.kill()
        ends.append(asyncio.get_running_loop().time())
        process.wait()
    await scene.publish(*made[500:])
    start(scene, hook)
    await until(lambda: len(hook.answered) == len(made), what="an answer for each decision")
    await until(lambda: hook.under_way == 0)
    again = [one for one, times in hook.answered.items() if times > 1]
    assert all(any(abs(end - hook.answered_at[one]) <= UNRECORDED for end in ends) for one in again)
    assert max(hook.answered.values()) <= 1 + len(ends)
    for run in runs:
        first_times = list(dict.fromkeys(hook.ids(run)))
        assert first_times == [one.decision_id for one in made if one.run_id == run]
    for headers, body in zip(hook.headers, hook.bodies, strict=True):
        Webhook(SECRET).verify(body, headers)


async def test_kill_9_forgets_nothing_that_was_handled_ahead_of_a_run_that_is_stuck(
    scene: Scene, hook: Hook, decision_factory: Make
) -> None:
    """The offset cannot tell: it waits for the run that gets no answer."""
    other = next(name for name in map(str, range(100)) if partition_of(name, PARTITIONS) == partition_of("stuck", PARTITIONS))
    answer = asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        await answer.wait()
        return web.Response()

    hook.answer("stuck", wait)
    await scene.publish(stuck := decision_factory(run="stuck"), *(ahead := [decision_factory(run=other) for _ in range(50)]))
    process = start(scene, hook)
    await scene.delivered(50)
    process.kill()
    process.wait()
    answer.set()
    await scene.publish(*ahead, last := decision_factory(run=other))
    start(scene, hook)
    await until(lambda: hook.answered[last.decision_id])
    await until(lambda: hook.answered[stuck.decision_id])
    assert hook.ids(other) == [one.decision_id for one in [*ahead, last]]


async def test_a_decision_without_an_answer_when_its_worker_is_killed_comes_again_under_its_id(
    scene: Scene, hook: Hook, decision_factory: Make
) -> None:
    answer = asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        await answer.wait()
        return web.Response()

    hook.answer("run", wait)
    await scene.publish(made := decision_factory())
    process = start(scene, hook)
    await until(lambda: hook.under_way == 1)
    process.kill()
    process.wait()
    answer.set()
    start(scene, hook)
    await until(lambda: len(hook.requests) == 2)
    assert set(hook.ids()) == {made.decision_id}


async def test_a_worker_that_wakes_up_after_its_partitions_moved_repeats_nothing(
    scene: Scene, hook: Hook, decision_factory: Make
) -> None:
    """Only the decision that was on its way when it was stopped may come twice."""
    hook.answer("run", answering_after(lambda: 0.1))
    made = [decision_factory(run="run") for _ in range(40)]
    await scene.publish(*made)
    sleeper = start(scene, hook)
    await until(lambda: len(hook.requests) == 5)
    sleeper.send_signal(signal.SIGSTOP)
    try:
        start(scene, hook)
        await until(lambda: len(hook.answered) >= 20, what="the second worker at work")
    finally:
        sleeper.send_signal(signal.SIGCONT)
    await until(lambda: len(hook.answered) == 40, what="an answer for each decision")
    await scene.publish(last := decision_factory(run="run"))
    await until(lambda: hook.answered[last.decision_id])
    assert sum(hook.answered.values()) <= 42
    assert set(hook.answered) == {one.decision_id for one in [*made, last]}


async def test_sigterm_ends_a_worker_within_ten_seconds_though_nobody_answers(
    scene: Scene, hook: Hook, decision_factory: Make
) -> None:
    hook.answer("run", answering_after(lambda: 600))
    await scene.publish(*(decision_factory(run="run") for _ in range(3)))
    process = start(scene, hook, "--timeout", "500")
    await until(lambda: hook.under_way == 1)
    begun = time.monotonic()
    process.terminate()
    assert await asyncio.to_thread(process.wait) == 0
    assert time.monotonic() - begun < 10


async def test_a_process_goes_on_with_the_partitions_of_one_that_was_killed(
    scene: Scene, hook: Hook, decision_factory: Make
) -> None:
    runs = [f"run-{number}" for number in range(9)]
    for run in runs:
        hook.answer(run, answering_after(lambda: 0.02))
    made = [decision_factory(run=run) for _ in range(40) for run in runs]
    first = start(scene, hook)
    await scene.publish(*made[:90])
    await until(lambda: len(hook.answered) >= 30)
    start(scene, hook)
    await scene.publish(*made[90:])
    await until(lambda: len(hook.answered) >= 150)
    first.kill()
    killed_at = asyncio.get_running_loop().time()
    first.wait()
    await until(lambda: len(hook.answered) == len(made), what="an answer for each decision")
    await until(lambda: hook.under_way == 0)
    again = {one: times for one, times in Counter(hook.ids()).items() if times > 1}
    assert all(abs(killed_at - hook.answered_at[one]) <= UNRECORDED for one in again), again
