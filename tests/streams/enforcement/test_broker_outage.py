"""A broker that goes away and comes back, with everything that it had."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from schemas.decisions import Decision
from schemas.settings import Settings
from streams.enforcement.webhook import WebhookReceiver
from tests.brokers.apache_kafka import ApacheKafka
from tests.streams.enforcement.conftest import Hook, Scene, until


async def test_an_outage_of_the_broker_loses_and_repeats_nothing(
    kafka_factory: Callable[..., ApacheKafka], hook: Hook, decision_factory: Callable[..., Decision], tmp_path: Path
) -> None:
    """What the receiver takes meanwhile is recorded when the broker is back."""

    async def slowly(request: web.Request) -> web.Response:
        await asyncio.sleep(0.05)
        return web.Response()

    kafka = kafka_factory()
    settings = Settings(bootstrap_servers=kafka.bootstrap_servers, session_timeout=6.0, heartbeat_interval=1.0)
    scene = Scene(settings, "outage", tmp_path)
    await scene.create()
    runs = [f"run-{number}" for number in range(6)]
    for run in runs:
        hook.answer(run, slowly)
    made = [decision_factory(run=run) for _ in range(40) for run in runs]
    await scene.publish(*made)
    async with scene.worker(WebhookReceiver(hook.url, signer=None)):
        await until(lambda: len(hook.answered) > 30)
        await asyncio.to_thread(kafka.kill)
        before = len(hook.answered)
        await asyncio.to_thread(kafka.start)
        await until(lambda: len(hook.answered) > before + 20, what="work after the outage")
        await asyncio.to_thread(kafka.kill)
        await asyncio.sleep(8)  # an outage that is longer than the session
        await asyncio.to_thread(kafka.start)
        await until(lambda: len(hook.answered) == len(made), what="an answer for each decision")
        await scene.delivered(len(made))
    assert Counter(hook.ids()) == Counter(one.decision_id for one in made)
