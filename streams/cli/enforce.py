"""`loopwarden enforce`: hands decisions to a webhook or a command."""

import asyncio
import logging
import re
import shutil
import signal
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, get_args

import typer
from prometheus_client import start_http_server

from schemas.decisions import Action
from schemas.policy.model import DETECTOR_NAMES, Mode
from schemas.settings import Settings
from streams.cli.logs import configure_logs
from streams.cli.options import Bootstrap, TopicPrefix, settings_with
from streams.connection import Connection
from streams.enforcement.command import CommandReceiver
from streams.enforcement.decision_filter import DEFAULT_ACTIONS, DecisionFilter
from streams.enforcement.partition_work import EnforcementLimits
from streams.enforcement.receiver import Receiver
from streams.enforcement.signing import SecretError, WebhookSigner
from streams.enforcement.start_position import begin_at_the_end
from streams.enforcement.webhook import WebhookReceiver, WebhookUrlError, checked_url, without_secrets
from streams.enforcement.worker import EnforcementWorker
from streams.topics_admin import TopicsError, partition_counts

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

#: Exit code after Ctrl-C, and the seconds within which the worker then stops: somebody waits at the terminal.
_INTERRUPTED = 130
_INTERRUPT_WITHIN = 2.0

_GROUP = re.compile(r"[a-zA-Z0-9._-]{1,200}")

log = logging.getLogger("loopwarden.enforcement")

Actions = Annotated[
    list[str] | None, typer.Option("--action", metavar="LIST", help="block, warn, abort, release; default: all but release")
]
Detectors = Annotated[list[str] | None, typer.Option("--detector", metavar="LIST", help="only of these detectors")]
Agents = Annotated[list[str] | None, typer.Option("--agent", metavar="LIST", help="only of runs of these agents")]
Modes = Annotated[list[str] | None, typer.Option("--mode", metavar="LIST", help="enforce, shadow; default: enforce")]
Group = Annotated[str | None, typer.Option("--group", metavar="NAME", envvar="LOOPWARDEN_ENFORCE_GROUP", help="consumer group")]
FromBeginning = Annotated[bool, typer.Option("--from-beginning/--from-now", help="where a group begins that has not read before")]
GiveUpAfter = Annotated[
    float, typer.Option("--give-up-after", min=1, metavar="SECONDS", help="dead-letter a decision after this time of trying")
]
Remember = Annotated[int, typer.Option(min=100, metavar="N", help="decision ids known per partition, to tell copies")]
MetricsPort = Annotated[int | None, typer.Option("--metrics-port", min=0, max=65535, help="serve Prometheus metrics there")]
MetricsHost = Annotated[str, typer.Option("--metrics-host", metavar="ADDRESS", help="address for --metrics-port")]


@app.callback(epilog="Example: loopwarden enforce webhook --url https://gateway.example/loopwarden")
def enforce() -> None:
    """Hand decisions to a receiver, each once, until SIGTERM or Ctrl-C.

    Start more processes of the same group to share the work; another receiver needs another --group.
    """


@app.command(epilog="Example: loopwarden enforce webhook --url https://gateway.example/loopwarden --action abort")
def webhook(
    url: Annotated[
        str, typer.Option("--url", envvar="LOOPWARDEN_WEBHOOK_URL", show_envvar=True, help="where to post to; http or https")
    ],
    secret_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="file with the signing secret [or env: LOOPWARDEN_WEBHOOK_SECRET]")
    ] = None,
    unsigned: Annotated[bool, typer.Option("--unsigned", help="send without signatures")] = False,
    ca_file: Annotated[Path | None, typer.Option(metavar="FILE", help="certificates to trust instead of the system's")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="for each attempt")] = 10.0,
    concurrency: Annotated[int, typer.Option(min=1, metavar="N", help="attempts at a time per partition")] = 8,
    action: Actions = None,
    detector: Detectors = None,
    agent: Agents = None,
    mode: Modes = None,
    group: Group = None,
    from_beginning: FromBeginning = True,
    give_up_after: GiveUpAfter = 300.0,
    remember: Remember = 20_000,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    bootstrap: Bootstrap = None,
    topic_prefix: TopicPrefix = None,
) -> None:
    """Post each decision to a URL: a CloudEvent, signed as Standard Webhooks ask.

    Any 2xx status is an answer. 408, 429, 5xx and failures of the network are retried with back-off, then dead-lettered; other
    statuses are dead-lettered at once. The webhook-id of all attempts is the decision id. LISTs are separated by commas.
    """
    try:
        checked_url(url)
        signer = None if unsigned else WebhookSigner.from_environment_or_file(secret_file)
        receiver = WebhookReceiver(url, signer=signer, timeout=timeout, ssl_context=_trusting(ca_file))
    except (SecretError, WebhookUrlError) as error:
        raise typer.BadParameter(str(error)) from None
    _run(
        receiver,
        target=without_secrets(url),
        settings=settings_with(bootstrap_servers=bootstrap, topic_prefix=topic_prefix),
        group=group,
        chosen=_filter(action, detector, agent, mode),
        limits=EnforcementLimits(concurrency=concurrency, give_up_after=give_up_after, remember=remember),
        from_beginning=from_beginning,
        metrics=(metrics_host, metrics_port),
    )


@app.command(
    epilog="Example: loopwarden enforce command --action abort -- ./stop-run.sh",
    context_settings={"allow_interspersed_args": False},
)
def command(
    words: Annotated[list[str], typer.Argument(metavar="-- CMD [ARGUMENT]...", help="the command, run without a shell")],
    timeout: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="for each run of the command")] = 30.0,
    concurrency: Annotated[int, typer.Option(min=1, metavar="N", help="processes at a time per partition")] = 4,
    action: Actions = None,
    detector: Detectors = None,
    agent: Agents = None,
    mode: Modes = None,
    group: Group = None,
    from_beginning: FromBeginning = True,
    give_up_after: GiveUpAfter = 300.0,
    remember: Remember = 20_000,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    bootstrap: Bootstrap = None,
    topic_prefix: TopicPrefix = None,
) -> None:
    """Run a command for each decision: the decision on standard input, its ids in the environment.

    Exit code 0 means handled; any other, and a time-out, which kills the process group, is retried with back-off, then
    dead-lettered. Variables: LOOPWARDEN_DECISION_ID, _RUN_ID, _SESSION_ID, _AGENT_ID, _ACTION, _LEVEL, _DETECTOR, _TARGET_SCOPE,
    _TARGET_TOOL, _MODE, _ORIGIN. LISTs are separated by commas.
    """
    if shutil.which(words[0]) is None:
        raise typer.BadParameter(f"{words[0]}: no such command, or not executable")
    _run(
        CommandReceiver(words, timeout=timeout),
        target=words[0],  # arguments may hold secrets
        settings=settings_with(bootstrap_servers=bootstrap, topic_prefix=topic_prefix),
        group=group,
        chosen=_filter(action, detector, agent, mode),
        limits=EnforcementLimits(concurrency=concurrency, give_up_after=give_up_after, remember=remember),
        from_beginning=from_beginning,
        metrics=(metrics_host, metrics_port),
    )


def _trusting(ca_file: Path | None) -> ssl.SSLContext | None:
    if ca_file is None:
        return None
    ca_file.open("rb").close()  # a name that is wrong is told as such
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise typer.BadParameter(f"--ca-file {ca_file}: holds no certificate in PEM") from None


def _filter(
    actions: list[str] | None, detectors: list[str] | None, agents: list[str] | None, modes: list[str] | None
) -> DecisionFilter:
    chosen_actions = _chosen("--action", actions, get_args(Action))
    chosen_modes = _chosen("--mode", modes, get_args(Mode))
    return DecisionFilter(
        actions=frozenset(name for name in get_args(Action) if name in chosen_actions) if chosen_actions else DEFAULT_ACTIONS,
        modes=frozenset(name for name in get_args(Mode) if name in (chosen_modes or {"enforce"})),
        detectors=_chosen("--detector", detectors, DETECTOR_NAMES),
        agents=_chosen("--agent", agents, None),
    )


def _chosen(option: str, given: list[str] | None, known: Iterable[str] | None) -> frozenset[str] | None:
    if given is None:
        return None
    names = frozenset(name.strip() for text in given for name in text.split(",")) - {""}
    if not names:
        raise typer.BadParameter(f"{option}: names nothing")
    if known is not None and (unknown := sorted(names - set(known))):
        raise typer.BadParameter(f"{option}: unknown {', '.join(map(repr, unknown))}; known are {', '.join(known)}")
    return names


def _run(
    receiver: Receiver,
    *,
    target: str,
    settings: Settings,
    group: str | None,
    chosen: DecisionFilter,
    limits: EnforcementLimits,
    from_beginning: bool,
    metrics: tuple[str, int | None],
) -> None:
    configure_logs(settings.log_format)
    name = group or f"{settings.group}-enforce-{receiver.kind}"
    if not _GROUP.fullmatch(name):
        raise typer.BadParameter("--group: must be letters, digits, dots, dashes or underscores, at most 200")
    host, port = metrics
    if port is not None:
        try:
            server, _ = start_http_server(port, addr=host)
        except OSError as error:
            raise typer.BadParameter(f"--metrics-port {port} on {host}: {error.strerror or error}") from None
        log.info("metrics on http://%s:%s/metrics", host, server.server_port)
    worker = EnforcementWorker(receiver, settings=settings, group=name, chosen=chosen, limits=limits)
    log.info("decisions go to %s %s; consumer group %s", receiver.kind, target, name)
    if asyncio.run(_until_signal(worker, settings=settings, group=name, from_beginning=from_beginning)) == signal.SIGINT:
        raise typer.Exit(_INTERRUPTED)


async def _until_signal(worker: EnforcementWorker, *, settings: Settings, group: str, from_beginning: bool) -> int | None:
    connection, topics = Connection.from_settings(settings), settings.topics
    wanted = (topics.decisions, topics.deliveries, topics.dead_letters(topics.decisions))
    counts = await partition_counts(connection, wanted)
    if problems := [
        f"{topic}: {count} partitions, but {counts[topics.decisions]} in {topics.decisions}; they must be equal"
        for topic, count in counts.items()
        if count != counts[topics.decisions]
    ]:
        raise TopicsError("\n".join(problems))
    if not from_beginning:
        await begin_at_the_end(connection, topic=topics.decisions, group=group)
    stop = asyncio.Event()
    received: list[int] = []

    def receive(number: int) -> None:
        received.append(number)
        if number == signal.SIGINT:
            worker.stop_within = _INTERRUPT_WITHIN
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, receive, number)
    await worker.run(stop)
    return received[0] if received else None
