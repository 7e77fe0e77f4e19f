"""Runs one contender on one input, and measures it from outside: its group's committed offsets, and its process."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from aiokafka import AIOKafkaConsumer, TopicPartition

_TICKS = os.sysconf("SC_CLK_TCK")

#: Seconds between two looks at the committed offsets, and until a contender is given up.
_LOOK = 0.02
_PATIENCE = 600.0

#: Lines of its log that a contender that failed is shown with.
_LOG_LINES = 25

#: The part of the input after which a contender counts as warm: connections are up, the JVM has compiled what is hot.
_WARM = 0.25


class ContenderError(RuntimeError):
    """A contender ended by itself, took too long or decided wrongly; the message says which and shows the end of its log."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """What a process has used so far: CPU seconds of all its threads, its memory, and the most that it ever had."""

    cpu: float
    mib: float
    peak_mib: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One process on one input, until its group had committed all of it.

    `wall` and `cpu` are seconds from the start of the process; `commits` the seconds and the events of each commit that was seen.
    """

    wall: float
    cpu: float
    peak_mib: float
    commits: tuple[tuple[float, int], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One round: events per second, CPU microseconds per event without what the start takes, seconds until the first commit.

    On an input that is too small for a steady rate the start is in the events per second.
    """

    events: int
    rate: float
    cpu_us_per_event: float
    start: float
    peak_mib: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """All rounds of a contender."""

    name: str
    detects: bool
    rounds: tuple[Figure, ...]

    @property
    def rate(self) -> float:
        """Median of events per second."""
        return median(figure.rate for figure in self.rounds)

    @property
    def cpu_us(self) -> float:
        """Median of CPU microseconds per event."""
        return median(figure.cpu_us_per_event for figure in self.rounds)

    @property
    def spread(self) -> float:
        """Distance of the slowest and the fastest round, as a part of the median."""
        rates = [figure.rate for figure in self.rounds]
        return (max(rates) - min(rates)) / self.rate

    def as_json(self) -> dict[str, object]:
        """Return every figure."""
        return {
            "name": self.name,
            "detects": self.detects,
            "events_per_second": round(self.rate),
            "spread": round(self.spread, 3),
            "cpu_us_per_event": round(self.cpu_us, 2),
            "rounds": [asdict(figure) for figure in self.rounds],
        }


def figure_of(full: Run, warm_up: Run, *, events: int, warm_up_events: int) -> Figure:
    """Take what the start costs off a run; `warm_up` is the same program on an input of a few events."""
    return Figure(
        events=events,
        rate=_steady_rate(full) or events / full.wall,
        cpu_us_per_event=max(full.cpu - warm_up.cpu, 0.0) / max(events - warm_up_events, 1) * 1e6,
        start=warm_up.wall,
        peak_mib=full.peak_mib,
    )


def _steady_rate(run: Run) -> float | None:
    """Return the events per second between two commits, of a warm process and before the end of the input.

    The last commit is left out: a contender that is through waits for its commit interval with nothing to do. None when there
    were too few commits, on a small input.
    """
    all_events = run.commits[-1][1]
    warm = [commit for commit in run.commits[:-1] if commit[1] >= all_events * _WARM]
    if len(warm) < 2:
        return None
    (began, before), (ended, after) = warm[0], warm[-1]
    return (after - before) / (ended - began)


async def run_until_committed(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    bootstrap: str,
    group: str,
    ends: Mapping[TopicPartition, int],
    log: Path,
) -> Run:
    """Start a process, wait until its group has committed the ends of the input, and end it.

    Raises `ContenderError` when it ends by itself or is not through in time.
    """
    async with offsets_of(bootstrap, group) as client:
        began = time.perf_counter()
        async with running(command, environment, log=log) as process:
            commits = await until_committed(client, ends, process, name=group, log=log)
            used = usage(process.pid)
    return Run(
        wall=commits[-1][0] - began,
        cpu=used.cpu,
        peak_mib=used.peak_mib,
        commits=tuple((at - began, events) for at, events in commits),
    )


@asynccontextmanager
async def offsets_of(bootstrap: str, group: str) -> AsyncIterator[AIOKafkaConsumer]:
    """Give a client that asks for the committed offsets of a group and does not join it: it subscribes to nothing."""
    client = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
    await client.start()
    try:
        yield client
    finally:
        await client.stop()


async def until_committed(
    client: AIOKafkaConsumer,
    ends: Mapping[TopicPartition, int],
    process: asyncio.subprocess.Process,
    *,
    name: str,
    log: Path,
    events: int | None = None,
) -> list[tuple[float, int]]:
    """Wait until everything before `ends`, or that many of its events, is committed.

    Returns when each commit was seen (performance counter) and the events that were committed by then. Raises `ContenderError`
    when the process ends by itself or takes too long.
    """
    began = time.perf_counter()
    total = sum(ends.values()) if events is None else events
    commits: list[tuple[float, int]] = []
    while not commits or commits[-1][1] < total:
        at = time.perf_counter()
        if process.returncode is not None or at - began > _PATIENCE:
            raise ContenderError(await failure(name, log))
        done = await _committed_events(client, ends)
        if done > (commits[-1][1] if commits else 0):
            commits.append((at, done))
        if done < total:
            await asyncio.sleep(_LOOK)
    return commits


@asynccontextmanager
async def running(
    command: Sequence[str], environment: Mapping[str, str], *, log: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a process, its output in `log`; it is killed at the end of the block."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        process = await asyncio.create_subprocess_exec(*command, env=dict(environment), stdout=descriptor, stderr=descriptor)
    finally:
        os.close(descriptor)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.wait()


async def failure(name: str, log: Path) -> str:
    """Return the message about a contender that did not come through."""
    text = await asyncio.to_thread(log.read_text, errors="replace")
    return "\n".join([f"{name}: ended by itself, or not through in {_PATIENCE:.0f} s", *text.splitlines()[-_LOG_LINES:]])


async def _committed_events(client: AIOKafkaConsumer, ends: Mapping[TopicPartition, int]) -> int:
    offsets = await asyncio.gather(*(client.committed(place) for place in ends))
    return sum(min(offset or 0, end) for offset, end in zip(offsets, ends.values(), strict=True))


def usage(pid: int) -> Usage:
    """Return what a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    sizes = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    mib = {name: int(sizes[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")}
    return Usage(cpu=(int(fields[11]) + int(fields[12])) / _TICKS, mib=mib["VmRSS"], peak_mib=mib["VmHWM"])
