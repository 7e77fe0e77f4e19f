"""What a comparison came to: a table for people, a document for programs."""

import os
import platform
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from tests.bench.measuring import Result

#: The line of the table that the ratios are about, and the rivals that they compare it with.
OURS = "Loopwarden, memory"
RIVALS = {
    "vs_bare_aiokafka": "bare aiokafka, msgspec",
    "vs_bare_aiokafka_pydantic": "bare aiokafka, pydantic",
    "vs_kafka_streams": "Kafka Streams",
    "vs_quix": "Quix Streams",
    "vs_stock_faust": "stock Faust",
}

#: Columns of a table that goes to a file.
_WIDTH = 130


def ratios(results: list[Result]) -> dict[str, float]:
    """Return how many times as fast as each rival the worker with the memory store is, by events per second."""
    return _compared({result.name: result.rate for result in results})


def cpu_ratios(results: list[Result]) -> dict[str, float]:
    """Return the same by events per CPU second, which a busy machine disturbs less."""
    return _compared({result.name: 1 / max(result.cpu_us, 1e-3) for result in results})


def _compared(speeds: dict[str, float]) -> dict[str, float]:
    ours = speeds.get(OURS)
    return {} if ours is None else {key: round(ours / speeds[name], 3) for key, name in RIVALS.items() if name in speeds}


def show(results: list[Result], *, title: str) -> None:
    """Print the table."""
    columns = ("contender", "job", "events/s", "spread", "CPU us/event", "start s", "peak MiB", "Loopwarden is", "by CPU")
    table = Table(*columns, title=title, title_justify="left")
    by_wall, by_cpu = ratios(results), cpu_ratios(results)
    keys = {name: key for key, name in RIVALS.items()}
    for result in results:
        key = keys.get(result.name)
        compared = [f"{found[key]:.2f}x" if key in found else "" for found in (by_wall, by_cpu)]
        table.add_row(
            result.name,
            "detects" if result.detects else "bare",
            f"{result.rate:,.0f}",
            f"{result.spread:.0%}",
            f"{result.cpu_us:.1f}",
            f"{result.rounds[-1].start:.1f}",
            f"{result.rounds[-1].peak_mib:.0f}",
            *compared,
        )
    printing().print(table)


def printing() -> Console:
    """Return a console that does not squeeze tables when it is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH)


def write(path: Path, document: dict[str, object]) -> None:
    """Write a document, with what it was measured on."""
    machine = {
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "system": platform.platform(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps({"machine": machine, **document}, option=orjson.OPT_INDENT_2))
