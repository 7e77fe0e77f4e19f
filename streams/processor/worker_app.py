"""The Faust app of a worker: one agent over both input topics, and the changelogged table of runs."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import faust
import structlog

from schemas.policy import PolicyDocument
from schemas.settings import Settings
from schemas.topics import MAX_DEAD_LETTER_BYTES
from streams.connection import Connection
from streams.detection import state_codec
from streams.processor.run_processor import RunProcessor
from streams.transport import Batch, BatchTable, BatchTopic, batch_app_settings

log = structlog.get_logger()


def create_app(
    settings: Settings, policy: PolicyDocument, *, partitions: int, on_failure: Callable[[BaseException], None] | None = None
) -> faust.App:
    """Build the app of one worker; `partitions` is the number that the input topics have.

    `on_failure` is told of an error that the worker cannot go on after (a topic that is gone, a state of a newer version); what
    was not committed is processed again by the next worker.
    """
    app = faust.App(
        settings.group,
        **batch_app_settings(
            bootstrap_servers=settings.bootstrap_servers,
            broker_credentials=Connection.from_settings(settings).faust_credentials(),
            session_timeout=settings.session_timeout,
            heartbeat_interval=settings.heartbeat_interval,
            commit_interval=settings.commit_interval,
            idempotence=settings.idempotent_producer,
            store=settings.store,
            data_dir=settings.data_dir,
            max_record_bytes=MAX_DEAD_LETTER_BYTES,
        ),
    )
    topic = BatchTopic(app, topics=list(settings.topics.inputs))
    runs = cast(BatchTable, app.Table("runs", partitions=partitions, newer=state_codec.is_newer))
    processor = RunProcessor(app=app, table=runs, settings=settings, policy=policy)
    topic.before_release(processor.release)
    topic.after_takeover(processor.take_over)

    @app.agent(topic)
    async def judge_runs(batches: Any) -> None:
        batch: Batch
        async for batch in batches:
            try:
                await processor.process(batch)
            except Exception as error:
                log.exception("worker stops: its batch could not be processed", batch=str(batch))
                if on_failure is not None:
                    on_failure(error)
                raise

    @app.timer(settings.commit_interval)  # type: ignore[untyped-decorator]  # Faust's is untyped
    async def commit_when_idle() -> None:
        await processor.commit_when_due()

    @app.timer(min(settings.commit_interval, 0.5))  # type: ignore[untyped-decorator]  # Faust's is untyped
    async def judge_again() -> None:
        more = True
        while more:
            more = await processor.judge_slice_again()
            await asyncio.sleep(0)  # lets a batch in between

    return app
