"""`loopwarden audit`: verify what was decided, explain it, and try another policy on it."""

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from schemas.policy import read_policy
from streams.audit.explain_text import calls_table, ending, story
from streams.audit.explaining import Explainer, ExplainError
from streams.audit.findings import Finding, Tally
from streams.audit.log_reader import LogError, LogReader
from streams.audit.planning import PATIENCE, Selection, plan
from streams.audit.ranges import RangeError
from streams.audit.resume import ResumeError, ResumeFile
from streams.audit.trying import UnknownPolicyError, WhatIfTask, try_policy
from streams.audit.verify import PartitionResult, verify_partitions
from streams.audit.verify_text import finding_line, tally_lines
from streams.audit.what_if import Difference
from streams.audit.what_if_text import change_line, summary, tables
from streams.cli.options import Bootstrap, Json, TopicPrefix, settings_with
from streams.cli.outcomes import FINDINGS, WRONG_USE
from streams.cli.terminal import printable
from streams.connection import Connection

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

From = Annotated[
    list[str] | None,
    typer.Option("--from", metavar="WHERE", help="first tool call: PARTITION:OFFSET, TOPIC[P]@OFFSET, OFFSET, or a time"),
]
To = Annotated[list[str] | None, typer.Option("--to", metavar="WHERE", help="up to this one, exclusive; by default all there is")]
Partition = Annotated[list[int] | None, typer.Option("--partition", metavar="N", help="only this one; may be repeated")]
Run = Annotated[str | None, typer.Option("--run", metavar="ID", help="only this run")]
Processes = Annotated[int | None, typer.Option("--processes", min=1, help="partitions at a time; by default the cores")]
Group = Annotated[str | None, typer.Option("--group", help="the workers' consumer group [env: LOOPWARDEN_GROUP]")]

#: Seconds that work may take in silence.
_SILENCE = 2.0


@app.callback(epilog="Example: loopwarden audit verify --from 2026-11-30T00:00:00Z")
def audit() -> None:
    """Verify what was decided, explain a decision, or try another policy on the recorded events. Never writes to the cluster."""


@app.command(epilog="Example: loopwarden audit verify --from 2026-11-30T00:00:00Z --to 2026-11-30T12:00:00Z")
def verify(
    start: From = None,
    end: To = None,
    partition: Partition = None,
    run: Run = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", help="what was in force before the first marker that is left (JSON5)")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="FILE", help="keep finished partitions here, and go on from there")
    ] = None,
    processes: Annotated[
        int | None, typer.Option("--processes", min=1, help="partitions at a time; by default the cores")
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", min=0, help="wait for decisions that workers still have to publish")
    ] = PATIENCE,
    group: Group = None,
    json: Json = False,
    bootstrap: Bootstrap = None,
    topic_prefix: TopicPrefix = None,
) -> None:
    """Recompute every decision from the recorded events and compare it with what was published; exit 1 on any difference.

    Times are RFC 3339 or milliseconds since 1970. Ends are fixed at the start, so it works on a live cluster, without a consumer
    group.
    """
    settings = settings_with(bootstrap_servers=bootstrap, topic_prefix=topic_prefix, group=group)
    selection = _selection(start, end, partition, run)
    before = None if policy is None else read_policy(policy)
    total = Tally()
    try:
        tasks = plan(settings, selection, policy=before, patience=wait)
        done: list[PartitionResult] = []
        kept = None
        if resume is not None:
            version = None if before is None else before.version
            kept = ResumeFile(resume, selection=selection, topic_prefix=settings.topic_prefix, policy_version=version)
            tasks, done = kept.load(tasks)
        for earlier in done:
            _print_findings(earlier.findings, json=json)
            total.add(earlier.tally)
        with Progressing("verifying", sum(task.records for task in tasks)) as progress:
            for result in verify_partitions(tasks, processes=processes, on_progress=progress.advance):
                if kept is not None:
                    kept.add(result)
                progress.pause()
                _print_findings(result.findings, json=json)
                total.add(result.tally)
    except (LogError, RangeError, ResumeError) as error:
        raise _wrong_use(error) from None
    if run is not None and not total.events:
        raise _wrong_use(RangeError(f"run {run}: no event of it in the range"))
    _print_tally(total, json=json)
    if total.differences:
        raise typer.Exit(FINDINGS)


@app.command(epilog="Example: loopwarden audit explain 0b5f3e9c51c04f5f8a1f3f3d2d4f6a77 --run session:42")
def explain(
    decision_id: Annotated[str | None, typer.Argument(metavar="[DECISION_ID]", help="by default the run's latest")] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="ID", help="the run; spares the search for the decision")] = None,
    partition: Annotated[int | None, typer.Option("--partition", metavar="N", min=0, help="search this partition only")] = None,
    json: Json = False,
    bootstrap: Bootstrap = None,
    topic_prefix: TopicPrefix = None,
) -> None:
    """Tell why a decision was made: the calls it rests on, the policy behind it, what gateways were told and did.

    Of the events only the run's partition is read, from the run's beginning to the decision and a little further. A decision
    without --run or --partition is searched for in the whole decisions topic.
    """
    if decision_id is None and run is None:
        raise typer.BadParameter("name a decision, or a run with --run")
    settings = settings_with(bootstrap_servers=bootstrap, topic_prefix=topic_prefix)
    try:
        with LogReader(Connection.from_settings(settings)) as reader, Progressing("reading", None) as progress:
            explainer = Explainer(reader, settings, on_progress=progress.advance)
            explained = explainer.explain(decision_id, run_id=run, partition=partition)
    except (ExplainError, LogError) as error:
        raise _wrong_use(error) from None
    if json:
        typer.echo(orjson.dumps(explained.to_json()).decode())
        return
    for line in story(explained):
        typer.echo(printable(line))
    if (table := calls_table(explained)) is not None:
        Console(highlight=False, markup=False, soft_wrap=not sys.stdout.isatty()).print(table)
    for line in ending(explained):
        typer.echo(printable(line))


@app.command("what-if", epilog="Example: loopwarden audit what-if --policy stricter.json5 --from 2026-11-29T00:00:00Z")
def what_if(
    policy: Annotated[Path, typer.Option("--policy", help="the policy to be tried, JSON5")],
    base: Annotated[
        Path | None, typer.Option("--base", help="compare with this policy instead of those that were in force")
    ] = None,
    start: From = None,
    end: To = None,
    partition: Partition = None,
    run: Run = None,
    list_changes: Annotated[bool, typer.Option("--list", help="print every decision that changes")] = False,
    processes: Processes = None,
    json: Json = False,
    bootstrap: Bootstrap = None,
    topic_prefix: TopicPrefix = None,
) -> None:
    """Judge recorded events by another policy: which decisions are gained, lost, earlier or later, and how many calls it saves.

    The events are those that happened: after a refusal an agent would have gone on differently. Changes nothing in the cluster.
    """
    settings = settings_with(bootstrap_servers=bootstrap, topic_prefix=topic_prefix)
    other, compared = read_policy(policy), None if base is None else read_policy(base)
    total = Difference()
    try:
        planned = plan(settings, _selection(start, end, partition, run), patience=0.0)
        tasks = [
            WhatIfTask(partition=one, policy=other.to_mapping(), base=None if compared is None else compared.to_mapping())
            for one in planned
        ]
        with Progressing("trying", sum(task.partition.records for task in tasks)) as progress:
            for result in try_policy(tasks, processes=processes, on_progress=progress.advance):
                progress.pause()
                total.add(result.difference)
                for change in result.changes if json or list_changes else ():
                    typer.echo(orjson.dumps(change.to_json()).decode() if json else printable(change_line(change)))
    except (LogError, RangeError, UnknownPolicyError) as error:
        raise _wrong_use(error) from None
    if json:
        typer.echo(orjson.dumps({"kind": "summary", "policy_version": other.version, **total.to_json()}).decode())
        return
    typer.echo(f"Policy {other.version} on the recorded events:")
    for line in summary(total):
        typer.echo(f"  {line}")
    for table in tables(total):
        Console(highlight=False, markup=False).print(table)


def _selection(start: list[str] | None, end: list[str] | None, partitions: list[int] | None, run: str | None) -> Selection:
    return Selection(start=tuple(start or ()), end=tuple(end or ()), partitions=tuple(partitions or ()), run_id=run)


def _wrong_use(error: Exception) -> typer.Exit:
    typer.echo(f"loopwarden: {printable(str(error))}", err=True)
    return typer.Exit(WRONG_USE)


def _print_findings(findings: list[Finding], *, json: bool) -> None:
    for finding in findings:
        typer.echo(orjson.dumps(finding.to_json()).decode() if json else printable(finding_line(finding)))


def _print_tally(tally: Tally, *, json: bool) -> None:
    if json:
        typer.echo(orjson.dumps({"kind": "summary", "differences": tally.differences, **tally.to_json()}).decode())
        return
    for line in tally_lines(tally):
        typer.echo(printable(line))


class Progressing:
    """Counts records on stderr's terminal once the work has taken two seconds; nothing on a pipe."""

    def __init__(self, title: str, total: int | None) -> None:
        self._console = Console(stderr=True)
        self._title, self._total = title, total
        self._done = 0
        self._began = time.monotonic()
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.pause()

    def advance(self, records: int) -> None:
        """Tell that more records were read."""
        self._done += records
        if self._bar is None:
            if not self._console.is_terminal or time.monotonic() - self._began < _SILENCE:
                return
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("records"))
            self._bar = Progress(*columns, TimeRemainingColumn(), console=self._console, transient=True)
            self._bar.add_task(self._title, total=self._total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=self._done)

    def pause(self) -> None:
        """Take the bar away, so that lines can be printed; it comes back with the next records."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
