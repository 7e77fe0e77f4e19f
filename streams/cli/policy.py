"""`loopwarden policy`: check policy files, publish policies, and see which are published."""

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table

from schemas.cloudevents import InvalidEventError
from schemas.policy import EffectivePolicy, PolicyDocument, read_policy
from schemas.policy.model import DETECTOR_NAMES
from schemas.policy_records import DEFAULT_KEY, MAX_POLICY_BYTES, PublishedPolicies, policy_bytes
from schemas.settings import Settings
from streams.cli.options import Bootstrap, Json, TopicPrefix, settings_with
from streams.cli.outcomes import FINDINGS, WRONG_USE
from streams.cli.terminal import printable
from streams.connection import Connection
from streams.policies_topic import (
    MarkerWatch,
    PolicyNotInForceError,
    PublishedPolicy,
    publish_policy,
    read_policies,
    together,
)

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.callback(epilog="Example: loopwarden policy check openclaw.json")
def policy() -> None:
    """Check policy files, publish policies to the workers, and see which are published."""


@app.command(epilog="Example: loopwarden policy check openclaw.json --agent researcher")
def check(
    file: Annotated[Path, typer.Argument(help="a policy in JSON5, or a whole openclaw.json")],
    agent: Annotated[str | None, typer.Option(metavar="ID", help="what holds for this agent")] = None,
    json: Json = False,
) -> None:
    """Check a policy file and print what holds after overlay and defaults; exit 2 with every problem and its place."""
    effective = read_policy(file).for_agent(agent)
    if json:
        typer.echo(orjson.dumps(_as_json(effective, agent=agent)).decode())
    else:
        _print_table(effective, agent=agent)


Agent = Annotated[
    str | None, typer.Option("--agent", metavar="ID", help="for this agent alone, laid over the policy of all others")
]
Wait = Annotated[
    float,
    typer.Option("--wait", metavar="SECONDS", min=0, help="wait until it is in force in every partition"),
]


@app.command(epilog="Example: loopwarden policy publish policy.json5 --wait 30")
def publish(
    file: Annotated[Path, typer.Argument(help="a policy in JSON5, or a whole openclaw.json")],
    agent: Agent = None,
    wait: Wait = 0.0,
    bootstrap: Bootstrap = None,
    topic_prefix: TopicPrefix = None,
) -> None:
    """Check a policy file and publish it: running workers put it into force without a restart.

    A published policy wins over the policy files of workers. Exit code 2 when the file is wrong (nothing is published then), 1
    when it is not in force after the time to wait.
    """
    settings = settings_with(bootstrap_servers=bootstrap, topic_prefix=topic_prefix)
    document = read_policy(file)
    try:
        asyncio.run(_publish(settings, document, key=_key(agent), wait=wait))
    except InvalidEventError as error:
        typer.echo(f"loopwarden: {file}: {error}", err=True)
        raise typer.Exit(WRONG_USE) from None


@app.command(epilog="Example: loopwarden policy withdraw --agent researcher")
def withdraw(agent: Agent = None, wait: Wait = 0.0, bootstrap: Bootstrap = None, topic_prefix: TopicPrefix = None) -> None:
    """Take a published policy back: the policy of all others holds for the agent again, or the policy files of the workers."""
    settings = settings_with(bootstrap_servers=bootstrap, topic_prefix=topic_prefix)
    asyncio.run(_publish(settings, None, key=_key(agent), wait=wait))


@app.command(epilog="Example: loopwarden policy show --agent researcher")
def show(agent: Agent = None, json: Json = False, bootstrap: Bootstrap = None, topic_prefix: TopicPrefix = None) -> None:
    """Print what the published policies say together; exit code 1 when none is published."""
    settings = settings_with(bootstrap_servers=bootstrap, topic_prefix=topic_prefix)
    published = _together(asyncio.run(read_policies(Connection.from_settings(settings), settings.topics)))
    if not published.by_key:
        typer.echo("no policy is published: each worker goes by its policy file", err=True)
        raise typer.Exit(FINDINGS)
    if DEFAULT_KEY not in published.by_key:
        typer.echo("only agents have a published policy: for all others each worker goes by its policy file", err=True)
    effective = published.combined().for_agent(agent)
    if json:
        typer.echo(orjson.dumps(_as_json(effective, agent=agent)).decode())
    else:
        _print_table(effective, agent=agent)


@app.command(epilog="Example: loopwarden policy history")
def history(json: Json = False, bootstrap: Bootstrap = None, topic_prefix: TopicPrefix = None) -> None:
    """List the policies on the topic, the latest of each agent at least: older ones go when the broker compacts the topic."""
    settings = settings_with(bootstrap_servers=bootstrap, topic_prefix=topic_prefix)
    records = asyncio.run(read_policies(Connection.from_settings(settings), settings.topics))
    if json:
        for record in records:
            typer.echo(orjson.dumps(_history_entry(record)).decode())
        return
    table = Table("offset", "published", "for", "policy", title_justify="left")
    for record in records:
        said = (
            record.policy.version
            if record.policy is not None
            else f"refused: {record.problem}"
            if record.problem
            else "withdrawn"
        )
        whose = "all others" if record.key == DEFAULT_KEY else printable(record.key)
        table.add_row(str(record.offset), _when(record), whose, printable(said))
    Console(highlight=False, markup=False).print(table)


async def _publish(settings: Settings, document: PolicyDocument | None, *, key: str, wait: float) -> None:
    connection, topics = Connection.from_settings(settings), settings.topics
    before = await read_policies(connection, topics)
    after = _together([*before, PublishedPolicy(offset=-1, time=0, key=key, policy=document)])
    size = policy_bytes(after.combined())
    if document is not None and size > MAX_POLICY_BYTES:
        typer.echo(
            f"loopwarden: all policies together would have {size} bytes, at most {MAX_POLICY_BYTES} are possible", err=True
        )
        raise typer.Exit(WRONG_USE)
    async with AsyncExitStack() as stack:
        watch = await stack.enter_async_context(MarkerWatch(connection, topics)) if wait else None
        offset = await publish_policy(connection, topics, document, key=key)
        typer.echo(f"{topics.policies}[0]@{offset}: {_what(document)}")
        if watch is None:
            return
        if DEFAULT_KEY not in after.by_key:
            typer.echo("not waited for: the policy of all others is the file of each worker", err=True)
            return
        try:
            await watch.until_in_force(after.combined().version, patience=wait)
        except PolicyNotInForceError as error:
            typer.echo(f"loopwarden: {error}", err=True)
            raise typer.Exit(FINDINGS) from None
        typer.echo("in force in every partition")


def _key(agent: str | None) -> str:
    if agent is None:
        return DEFAULT_KEY
    if not agent.strip():  # an unset variable in a script must not change the policy of everybody
        raise typer.BadParameter("must not be empty", param_hint="--agent")
    return agent


def _together(records: list[PublishedPolicy]) -> PublishedPolicies:
    return together(records, fallback=PolicyDocument.from_mapping({}))


def _what(document: PolicyDocument | None) -> str:
    return "withdrawn" if document is None else f"policy {document.version} published"


def _when(record: PublishedPolicy) -> str:
    return datetime.fromtimestamp(record.time / 1000, tz=UTC).isoformat(sep=" ", timespec="seconds")


def _history_entry(record: PublishedPolicy) -> dict[str, object]:
    return {
        "offset": record.offset,
        "time": _when(record),
        "key": record.key,
        "version": record.policy.version if record.policy is not None else None,
        "policy": record.policy.to_mapping() if record.policy is not None else None,
        "problem": record.problem,
    }


def _as_json(effective: EffectivePolicy, *, agent: str | None) -> dict[str, object]:
    return {
        "version": effective.version,
        "agent": agent,
        "tools": {"loopDetection": effective.as_loop_detection()},
        "loopwarden": {"mode": effective.mode, "shadow": sorted(effective.shadow_detectors)},
    }


def _print_table(effective: EffectivePolicy, *, agent: str | None) -> None:
    whose = f"agent {printable(agent)}" if agent else "agents without settings of their own"
    typer.echo(f"Policy {effective.version} for {whose}")
    table = Table("setting", "value", title_justify="left")
    runs = {True: "detectors and guard", None: "guard only (enabled is not set)", False: "nothing"}[effective.enabled]
    table.add_row("runs", runs)
    flat: dict[str, object] = {}
    for key, value in effective.as_loop_detection().items():
        flat |= {f"{key}.{name}": inner for name, inner in value.items()} if isinstance(value, dict) else {key: value}
    for key, value in flat.items():
        table.add_row(key, orjson.dumps(value).decode())
    table.add_row("mode", effective.mode)
    table.add_row("shadow", ", ".join(name for name in DETECTOR_NAMES if name in effective.shadow_detectors) or "-")
    Console(highlight=False, markup=False).print(table)
