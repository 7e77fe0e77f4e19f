"""`loopwarden worker`: watches runs and publishes decisions."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import structlog
import typer

from schemas.policy import PolicyDocument, read_policy
from schemas.settings import Settings
from streams.cli.logs import configure_logs, let_kafka_client_speak
from streams.cli.options import Bootstrap, TopicPrefix, settings_with
from streams.detection.compiled import engine_form
from streams.operations.graceful_worker import GracefulWorker, Watch, leave
from streams.operations.health import Health
from streams.operations.heartbeat import Heartbeat
from streams.operations.http_endpoint import HttpEndpoint, PortTakenError, Probe
from streams.processor.start_check import ready_topics
from streams.processor.vital_signs import VitalSigns
from streams.processor.worker_app import create_app

app = typer.Typer(add_completion=False, rich_markup_mode=None)

log = structlog.get_logger("loopwarden")

#: Where a worker serves metrics and health when no port is set: the usual port of programs that export metrics themselves.
DEFAULT_HTTP_PORT = 9464

#: Seconds after which a busy thread lets another one run. With Python's 5 ms the thread that fetches waits so long after each
#: piece that it reads from its socket, and the records with it: the 99th percentile at half of the full load is twice as long.
_SWITCH_INTERVAL = 0.0005

_NO_POLICY = (
    "no policy: only the post-compaction guard runs. To switch the detectors on, write "
    '{"tools": {"loopDetection": {"enabled": true}}} into a file and give it with --policy'
)


@app.command(epilog="Example: loopwarden worker --bootstrap kafka:9092 --policy policy.json5")
def worker(
    bootstrap: Bootstrap = None,
    policy: Annotated[Path | None, typer.Option("--policy", help="policy file, JSON5 [env: LOOPWARDEN_POLICY_FILE]")] = None,
    topic_prefix: TopicPrefix = None,
    group: Annotated[str | None, typer.Option("--group", help="consumer group [env: LOOPWARDEN_GROUP]")] = None,
    store: Annotated[str | None, typer.Option("--store", help="memory:// or rocksdb:// [env: LOOPWARDEN_STORE]")] = None,
) -> None:
    """Read events, keep the runs, publish decisions, until SIGTERM or Ctrl-C.

    One process is one worker; start more of the same group to share the partitions. All other settings are environment
    variables LOOPWARDEN_*. /metrics, /livez and /readyz are on 127.0.0.1:9464, or where LOOPWARDEN_HTTP_HOST and
    LOOPWARDEN_HTTP_PORT say.
    """
    settings = settings_with(bootstrap_servers=bootstrap, policy_file=policy, topic_prefix=topic_prefix, group=group, store=store)
    configure_logs(settings.log_format)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    document = read_policy(settings.policy_file) if settings.policy_file is not None else PolicyDocument.from_mapping({})
    if settings.policy_file is None:
        logging.getLogger("loopwarden").warning(_NO_POLICY)
    partitions = asyncio.run(ready_topics(settings))
    signs = VitalSigns(max_lag=settings.ready_max_lag)
    heartbeat = Heartbeat()
    faust_app = create_app(settings, document, partitions=partitions, on_failure=_give_up, vital_signs=signs)
    let_kafka_client_speak()
    probes = {
        "livez": heartbeat.health,
        # The signs are taken by the event loop: of one that is stuck they are old.
        "readyz": lambda: Health([*heartbeat.health().checks, *signs.readiness().checks]),
    }
    with _http_endpoint(settings, probes) as url:
        log.info(
            "worker starts",
            version=version("loopwarden"),
            engine=engine_form(),
            group=settings.group,
            bootstrap_servers=settings.bootstrap_servers,
            topics=list(settings.topics.inputs),
            partitions=partitions,
            store=settings.store,
            http=url,
        )
        GracefulWorker(faust_app, Watch(heartbeat, signs.look)).execute_from_commandline()


@contextlib.contextmanager
def _http_endpoint(settings: Settings, probes: Mapping[str, Probe]) -> Iterator[str | None]:
    if settings.http_port == 0:
        yield None
        return
    port = DEFAULT_HTTP_PORT if settings.http_port is None else settings.http_port
    endpoint = HttpEndpoint(host=settings.http_host, port=port, probes=probes)
    try:
        endpoint.start()
    except PortTakenError as error:
        if settings.http_port is not None:
            raise PortTakenError(f"{error}; give another LOOPWARDEN_HTTP_PORT, or 0 for none") from None
        log.warning("metrics and health are not served", reason=str(error), remedy="set LOOPWARDEN_HTTP_PORT, 0 for none")
        yield None
        return
    try:
        yield endpoint.url
    finally:
        endpoint.stop()


def _give_up(error: BaseException) -> None:
    # Faust may wait for ever for its consumer after a failed agent. All that counts is on the broker, in an order in which
    # nothing is lost: leave at once and let the supervisor start the worker again.
    log.critical("worker ends with exit code 1", reason=str(error))
    leave(1)
