"""Runs one contender on one input, and measures it from outside: its group's committed offsets, and its process."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from aiokafka import AIOKafkaConsumer, TopicPartition

_TICKS = os.sysconf("SC_CLK_TCK")

#: Seconds between two looks at the committed offsets, and until a contender is given up.
_LOOK = 0.02
_PATIENCE = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Seconds from the start of a process until its group has committed all of the input, its CPU seconds and memory."""

    wall: float
    cpu: float
    peak_mib: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One round: events per second of wall time and of CPU time, both without what the start takes."""

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
            "cpu_us_per_event": round(self.cpu_us, 2),
            "rounds": [asdict(figure) for figure in self.rounds],
        }


def figure_of(full: Run, warm_up: Run, *, events: int) -> Figure:
    """Take what the start costs off a run: the same process on an input of a few events."""
    return Figure(
        events=events,
        rate=events / max(full.wall - warm_up.wall, 1e-3),
        cpu_us_per_event=(full.cpu - warm_up.cpu) / events * 1e6,
        start=warm_up.wall,
        peak_mib=full.peak_mib,
    )


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

    Raises `RuntimeError` with the last lines of its log when it ends by itself or is not through in time.
    """
    # Only asks for offsets: without a subscription it does not join the group.
    client = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
    await client.start()
    began = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=dict(environment), stdout=output, stderr=output, start_new_session=True)
    try:
        while not await _all_committed(client, ends):
            if process.poll() is not None or time.perf_counter() - began > _PATIENCE:
                raise RuntimeError(f"{group}: not through\n" + "\n".join(log.read_text(errors="replace").splitlines()[-15:]))
            await asyncio.sleep(_LOOK)
        wall = time.perf_counter() - began
        cpu, peak = _cpu_seconds(process.pid), _peak_mib(process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        await client.stop()
    return Run(wall=wall, cpu=cpu, peak_mib=peak)


async def _all_committed(client: AIOKafkaConsumer, ends: Mapping[TopicPartition, int]) -> bool:
    for place, end in ends.items():
        if end and (await client.committed(place) or 0) < end:
            return False
    return True


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _peak_mib(pid: int) -> float:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024
