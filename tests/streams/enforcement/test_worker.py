"""Workers of a group between a real broker and a real HTTP server."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from schemas.cloudevents import structured
from schemas.decisions import Decision
from schemas.topics import partition_of
from streams.connection import Connection
from streams.enforcement import partition_work
from streams.enforcement.decision_filter import DecisionFilter
from streams.enforcement.partition_work import EnforcementLimits
from streams.enforcement.signing import WebhookSigner
from streams.enforcement.start_position import begin_at_the_end
from streams.enforcement.webhook import WebhookReceiver
from streams.enforcement.worker import EnforcementWorker
from tests.streams.enforcement.conftest import PARTITIONS, SECRET, Hook, Scene, status, until

Make = Callable[..., Decision]

#: A run of each partition, and another one of the first.
RUN, OTHER_RUN = (
    "run",
    next(name for name in map(str, range(100)) if partition_of(name, PARTITIONS) == partition_of("run", PARTITIONS)),
)


def webhook(hook: Hook, timeout: float = 10.0) -> WebhookReceiver:
    return WebhookReceiver(hook.url, signer=WebhookSigner([SECRET], origin="here"), timeout=timeout)


@asynccontextmanager
async def unanswered(hook: Hook, run: str) -> AsyncIterator[asyncio.Event]:
    """Let requests about a run wait for the event."""
    answer = asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        await answer.wait()
        return web.Response()

    hook.answer(run, wait)
    try:
        yield answer
    finally:
        answer.set()


async def test_decisions_are_handed_over_once_in_the_order_of_their_run(scene: Scene, hook: Hook, decision_factory: Make) -> None:
    made = [decision_factory(run=f"run-{number % 5}") for number in range(60)]
    await scene.publish(*made)
    async with scene.worker(webhook(hook)):
        await until(lambda: len(hook.requests) >= 60)
        await scene.publish(*(later := [decision_factory(run="run-0") for _ in range(5)]))
        await until(lambda: len(hook.requests) >= 65)
    for number in range(5):
        expected = [one.decision_id for one in [*made, *later] if one.run_id == f"run-{number}"]
        assert hook.ids(f"run-{number}") == expected
    assert {one.outcome for one in await scene.deliveries()} == {"delivered"}
    assert sum(offset or 0 for offset in (await scene.committed()).values()) == 65


async def test_copies_are_not_handed_over_again_whoever_reads_them(scene: Scene, hook: Hook, decision_factory: Make) -> None:
    """Side by side on the topic, later, and after a restart of the worker."""
    made = [decision_factory(run=f"run-{number}") for number in range(10)]
    await scene.publish(*made, *made)
    async with scene.worker(webhook(hook)):
        await until(lambda: len(hook.requests) >= 10)
        await scene.publish(*made)
    last = decision_factory(run="run-0")
    await scene.publish(*made, last)
    async with scene.worker(webhook(hook)):
        await until(lambda: last.decision_id in hook.ids())
        await until(lambda: hook.under_way == 0)
    assert Counter(hook.ids()) == Counter(one.decision_id for one in [*made, last])
    assert len(await scene.deliveries()) == 11


async def test_a_run_whose_decisions_are_not_taken_does_not_hold_up_the_others(
    scene: Scene, hook: Hook, decision_factory: Make
) -> None:
    """In the same partition, with one slot; what was handled ahead is not handed over again by the next worker."""
    async with unanswered(hook, RUN) as answer:
        stuck = [decision_factory(run=RUN) for _ in range(3)]
        others = [decision_factory(run=OTHER_RUN) for _ in range(20)]
        await scene.publish(*stuck, *others)
        async with scene.worker(webhook(hook, timeout=0.5), limits=EnforcementLimits(concurrency=1)):
            await until(lambda: len(hook.ids(OTHER_RUN)) == 20)
        assert (await scene.committed())[partition_of(RUN, PARTITIONS)] in {0, None}
        answer.set()
        async with scene.worker(webhook(hook)):
            await until(lambda: sum(hook.answered[one.decision_id] > 0 for one in stuck) == 3)
    assert hook.ids(OTHER_RUN) == [one.decision_id for one in others]
    assert list(dict.fromkeys(hook.ids(RUN))) == [one.decision_id for one in stuck]


async def test_attempts_at_a_time_are_bounded_in_each_partition(scene: Scene, hook: Hook, decision_factory: Make) -> None:
    runs = [f"run-{number}" for number in range(60)]
    inside = [run for run in runs if partition_of(run, PARTITIONS) == 0]
    gate = asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        await gate.wait()
        return web.Response()

    for run in runs:
        hook.answer(run, wait)
    await scene.publish(*(decision_factory(run=run) for run in inside))
    async with scene.worker(webhook(hook), limits=EnforcementLimits(concurrency=4)):
        await until(lambda: hook.under_way == 4)
        gate.set()
        await until(lambda: len(hook.requests) == len(inside) and hook.under_way == 0)
    assert hook.most_under_way == 4


async def test_what_is_refused_is_dead_lettered_at_once_and_untouched(scene: Scene, hook: Hook, decision_factory: Make) -> None:
    hook.answer("refused", status(404))
    refused, taken = decision_factory(run="refused"), decision_factory(run="refused-not")
    value = refused.to_record(source="/tests")
    await scene.send(scene.topics.decisions, [(1, b"refused", value, [("traceparent", b"00-1")])])
    await scene.publish(taken)
    async with scene.worker(webhook(hook)):
        (letter,) = await scene.dead_letters()
        await until(lambda: hook.answered[taken.decision_id])
    assert (letter.partition, letter.key, letter.value) == (1, b"refused", value)
    headers = dict(letter.headers)
    assert headers["traceparent"] == b"00-1"
    assert headers["loopwarden.error.code"] == b"http_404"
    assert headers["loopwarden.error.message"] == b"HTTP status 404; 1 attempt"
    assert headers["loopwarden.error.group"] == scene.group.encode()
    assert (headers["loopwarden.error.partition"], headers["loopwarden.error.offset"]) == (b"1", b"0")
    assert hook.ids("refused") == [refused.decision_id]
    outcomes = {one.decision_id: one.outcome for one in await scene.deliveries()}
    assert outcomes == {refused.decision_id: "dead_lettered", taken.decision_id: "delivered"}


async def test_an_endpoint_that_recovers_gets_the_decision(scene: Scene, hook: Hook, decision_factory: Make) -> None:
    hook.answer("run", status(503, 429, 200))
    await scene.publish(decision_factory(run="run"), last := decision_factory(run="run"))
    async with scene.worker(webhook(hook)):
        await until(lambda: hook.answered[last.decision_id])
    assert len(hook.requests) == 4
    assert [one.attempts for one in await scene.deliveries()] == [3, 1]


async def test_a_run_that_gets_no_answer_is_given_up_with_what_waits_behind(
    scene: Scene, hook: Hook, decision_factory: Make
) -> None:
    hook.answer("down", status(500))
    lost = [decision_factory(run="down") for _ in range(30)]
    await scene.publish(*lost)
    async with scene.worker(webhook(hook), limits=EnforcementLimits(give_up_after=1.0)):
        letters = await scene.dead_letters(30)
        hook.answer("down", status(200))
        await scene.publish(back := decision_factory(run="down"))
        await until(lambda: hook.answered[back.decision_id])
    assert [Decision.from_record(one.value) for one in letters] == lost
    assert {dict(one.headers)["loopwarden.error.code"] for one in letters} == {b"http_500"}
    assert set(hook.ids()) == {lost[0].decision_id, back.decision_id}


async def test_more_decisions_than_fit_into_memory_wait_on_the_topic(
    scene: Scene, hook: Hook, decision_factory: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_work, "MOST_UNHANDLED", 10)
    made = [decision_factory(run=RUN) for _ in range(1500)]
    async with unanswered(hook, RUN) as answer:
        await scene.publish(*made[:1400])
        async with scene.worker(webhook(hook)) as worker:
            await until(lambda: hook.under_way == 1)
            work = worker._work[partition_of(RUN, PARTITIONS)]
            await until(lambda: work.full)
            await scene.publish(*made[1400:])
            assert work.unhandled < 1500
            answer.set()
            await until(lambda: len(hook.requests) >= 1500)
    assert hook.ids() == [one.decision_id for one in made]


async def test_other_records_are_passed_over_and_unreadable_ones_dead_lettered(
    scene: Scene, hook: Hook, decision_factory: Make
) -> None:
    marker = structured(event_type="dev.loopwarden.policy.applied.v1", source="/w", event_id="1", data={})
    broken = json.loads(decision_factory().to_record(source="/w"))
    del broken["data"]["detector"]
    unreadable = [b"\xff\x00", None, json.dumps(broken).encode()]
    await scene.send(scene.topics.decisions, [(0, None, marker, ()), *((0, b"k", value, ()) for value in unreadable)])
    good = decision_factory(run="good")
    await scene.send(scene.topics.decisions, [(0, b"good", good.to_record(source="/w"), ())])
    async with scene.worker(webhook(hook)):
        letters = await scene.dead_letters(3)
        await until(lambda: hook.answered[good.decision_id])
    assert sorted((one.value for one in letters), key=str) == sorted(unreadable, key=str)
    assert (await scene.committed())[0] == 5


async def test_only_what_is_chosen_is_handed_over_and_the_rest_is_done(scene: Scene, hook: Hook, decision_factory: Make) -> None:
    await scene.publish(
        decision_factory(),
        decision_factory(action="release", reason="changed"),
        decision_factory(mode="shadow", action="abort"),
        decision_factory(action="abort", agent_id="other"),
        wanted := decision_factory(action="abort", agent_id="researcher"),
    )
    chosen = DecisionFilter(actions=frozenset({"abort"}), agents=frozenset({"researcher"}))
    async with scene.worker(webhook(hook), chosen=chosen):
        await until(lambda: hook.answered[wanted.decision_id])
    assert hook.ids() == [wanted.decision_id]
    assert (await scene.committed())[partition_of("run", PARTITIONS)] == 5


async def test_two_groups_both_get_every_decision(scene: Scene, hook: Hook, decision_factory: Make) -> None:
    made = [decision_factory(run=f"run-{number}") for number in range(6)]
    await scene.publish(*made)
    async with scene.worker(webhook(hook)):
        await until(lambda: len(hook.requests) == 6)
    scene.group += "-2"
    async with scene.worker(webhook(hook)):
        await until(lambda: len(hook.requests) == 12)
    assert Counter(hook.ids()) == Counter([one.decision_id for one in made] * 2)


async def test_an_attempt_under_way_is_waited_for_when_the_worker_stops(scene: Scene, hook: Hook, decision_factory: Make) -> None:
    async with unanswered(hook, "run") as answer:
        await scene.publish(first := decision_factory(), second := decision_factory())
        async with scene.worker(webhook(hook)) as worker:
            await until(lambda: hook.under_way == 1)
            worker.stop_within = 60
            asyncio.get_running_loop().call_later(0.5, answer.set)
    assert hook.ids() == [first.decision_id]
    assert [one.decision_id for one in await scene.deliveries()] == [first.decision_id]
    async with scene.worker(webhook(hook)):
        await until(lambda: hook.answered[second.decision_id])
    assert hook.ids() == [first.decision_id, second.decision_id]


async def test_partitions_that_move_between_workers_lose_and_repeat_nothing(
    scene: Scene, hook: Hook, decision_factory: Make
) -> None:
    """A second worker joins and the first one leaves while decisions are being handed over."""

    async def slowly(request: web.Request) -> web.Response:
        await asyncio.sleep(0.02)
        return web.Response()

    runs = [f"run-{number}" for number in range(9)]
    for run in runs:
        hook.answer(run, slowly)
    made = [decision_factory(run=run) for _ in range(60) for run in runs]
    third = len(made) // 3
    await scene.publish(*made[:third])
    async with scene.worker(webhook(hook)) as first:
        await until(lambda: len(hook.requests) > 10)
        async with scene.worker(webhook(hook)) as second:
            await scene.publish(*made[third : 2 * third])
            await until(lambda: first._work and second._work, what="both workers having partitions")
            await until(lambda: len(hook.answered) >= 2 * third, what="two thirds handed over")
            publishing = asyncio.create_task(scene.publish(*made[2 * third :]))
            await until(lambda: len(hook.answered) > 2 * third + 5)
        # Tansu 0.6 never forms a group again whose leader leaves while the group is forming.
        await until(lambda: len(first._work) == PARTITIONS, what="the first worker having all partitions again")
    await publishing
    async with scene.worker(webhook(hook)):
        await until(lambda: len(hook.answered) == len(made), what="all handed over")
        await until(lambda: hook.under_way == 0)
    assert Counter(hook.ids()) == Counter(one.decision_id for one in made)
    for run in runs:
        assert hook.ids(run) == [one.decision_id for one in made if one.run_id == run]


async def test_a_group_that_begins_now_skips_the_past_and_nothing_after(scene: Scene, hook: Hook, decision_factory: Make) -> None:
    """Not even what comes while no worker runs."""
    connection, topic = Connection.from_settings(scene.settings), scene.topics.decisions
    await scene.publish(*(decision_factory(run=f"run-{number}") for number in range(12)))
    assert await begin_at_the_end(connection, topic=topic, group=scene.group)
    await scene.publish(later := decision_factory(run="run-1"))
    assert not await begin_at_the_end(connection, topic=topic, group=scene.group)
    async with scene.worker(webhook(hook)):
        await until(lambda: hook.answered[later.decision_id])
        await begin_at_the_end(connection, topic=topic, group=scene.group)
    assert hook.ids() == [later.decision_id]


async def test_a_worker_that_is_no_longer_sure_of_its_partitions_begins_no_attempt(
    scene: Scene, hook: Hook, decision_factory: Make
) -> None:
    hook.answer("run", status(503, 200))
    await scene.publish(decision_factory())
    async with scene.worker(webhook(hook)) as worker:
        await until(lambda: len(hook.requests) == 1)
        worker._lease.renew = lambda sent_at: None  # type: ignore[method-assign] # heartbeats that are not answered
        worker._lease.end()
        await asyncio.sleep(2.5)  # nothing to wait for: more than the longest wait before the second attempt
        assert len(hook.requests) == 1
        del worker._lease.renew
        await until(lambda: len(hook.requests) == 2)


async def test_a_broker_that_is_not_there_is_an_error_at_the_start(scene: Scene, hook: Hook) -> None:
    settings = scene.settings.model_copy(update={"bootstrap_servers": "127.0.0.1:1"})
    worker = EnforcementWorker(webhook(hook), settings=settings, group=scene.group)
    with pytest.raises(Exception, match=r"127\.0\.0\.1"):
        await worker.run(asyncio.Event())


async def test_a_worker_that_cannot_reach_a_broker_can_be_stopped(scene: Scene, hook: Hook) -> None:
    """One that takes connections and says nothing."""

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            pass
        writer.close()

    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    settings = scene.settings.model_copy(update={"bootstrap_servers": f"127.0.0.1:{port}"})
    stop = asyncio.Event()
    running = asyncio.create_task(EnforcementWorker(webhook(hook), settings=settings, group=scene.group).run(stop))
    asyncio.get_running_loop().call_later(0.5, stop.set)
    async with asyncio.timeout(10):
        await running
    silent.close()


async def test_a_run_that_fills_the_partition_and_is_never_answered_lets_the_others_through_in_time(
    scene: Scene, hook: Hook, decision_factory: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_work, "MOST_UNHANDLED", 10)
    async with unanswered(hook, RUN):
        await scene.publish(*(decision_factory(run=RUN) for _ in range(40)))
        async with scene.worker(webhook(hook, timeout=0.3), limits=EnforcementLimits(give_up_after=4.0)) as worker:
            await until(lambda: worker._work and worker._work[partition_of(RUN, PARTITIONS)].full)
            await scene.publish(other := decision_factory(run=OTHER_RUN))
            await until(lambda: hook.answered[other.decision_id])
            assert len(await scene.dead_letters(40)) == 40
