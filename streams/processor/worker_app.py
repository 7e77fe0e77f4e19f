"""The Faust app of a worker: one agent over both input topics, and the changelogged table of runs."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import faust
import structlog

from schemas.cloudevents import InvalidEventError
from schemas.policy import PolicyDocument
from schemas.policy_records import PublishedPolicies
from schemas.settings import Settings
from schemas.topics import MAX_DEAD_LETTER_BYTES
from streams.connection import Connection
from streams.processor import garbage, metrics
from streams.processor.dead_letters import dead_letter, send_dead_letters
from streams.processor.partition_policy import is_newer
from streams.processor.policy_feed import PolicyFeed
from streams.processor.run_processor import RunProcessor
from streams.processor.vital_signs import VitalSigns
from streams.transport import Batch, BatchTable, BatchTopic, batch_app_settings

log = structlog.get_logger()


def create_app(
    settings: Settings,
    policy: PolicyDocument,
    *,
    partitions: int,
    on_failure: Callable[[BaseException], None] | None = None,
    vital_signs: VitalSigns | None = None,
) -> faust.App:
    """Build the app of one worker; `partitions` is the number that the input topics have.

    `policy` is the default policy while the policies topic has none.

    `vital_signs` are taken of this worker.

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
        # Made or checked at the start, so that a worker needs no permission to create topics.
        topic_allow_declare=False,
    )
    topic = BatchTopic(app, topics=list(settings.topics.inputs))
    runs = cast(BatchTable, app.Table("runs", partitions=partitions, newer=is_newer))
    processor = RunProcessor(app=app, table=runs, settings=settings, partitions=partitions)
    if vital_signs is not None:
        vital_signs.watch(processor, runs)
    topic.before_release(processor.release)
    topic.after_takeover(processor.take_over)

    def give_up(message: str, error: Exception, **place: str) -> None:
        log.error(message, **place, exc_info=error)
        if on_failure is not None:
            on_failure(error)

    @app.agent(topic)
    async def judge_runs(rounds: Any) -> None:
        batches: tuple[Batch, ...]
        async for batches in rounds:
            try:
                await processor.process(*batches)
            except Exception as error:
                give_up("worker stops: its batches could not be processed", error, batches=", ".join(map(str, batches)))
                raise

    async def dead_letter_policy(record: Any, error: InvalidEventError) -> None:
        letter = dead_letter(record, error, group=settings.group)
        await send_dead_letters(app, settings.topics.dead_letters(record.topic), 0, [letter])
        metrics.DEAD_LETTERS.labels(record.topic, error.code).inc()

    async def want(published: PublishedPolicies) -> None:
        processor.policies.want(published)
        await processor.change_policies()

    feed = PolicyFeed(
        Connection.from_settings(settings),
        settings.topics.policies,
        group=f"{settings.group}-policies",
        policies=PublishedPolicies(policy),
        on_policies=want,
        dead_letter=dead_letter_policy,
        writes_dead_letters=lambda: 0 in processor.policies.owned,
    )

    @app.task  # type: ignore[untyped-decorator]  # Faust's is untyped
    async def spare_long_lived_objects() -> None:
        garbage.spare_long_lived_objects()

    @app.task  # type: ignore[untyped-decorator]  # Faust's is untyped
    async def follow_policies() -> None:
        try:
            await feed.run()
        except Exception as error:
            give_up("worker stops: the policies topic cannot be followed", error, topic=settings.topics.policies)
            raise

    @app.timer(settings.commit_interval)  # type: ignore[untyped-decorator]  # Faust's is untyped
    async def commit_when_idle() -> None:
        await processor.commit_when_due()

    @app.timer(min(settings.commit_interval, 0.5))  # type: ignore[untyped-decorator]  # Faust's is untyped
    async def between_batches() -> None:
        await processor.change_policies()
        for work in (processor.judge_slice_again, processor.expire_slice):
            more = True
            while more:
                more = await work()
                await asyncio.sleep(0)  # lets a batch in between

    return app
