"""`python -m tests.faults`: make the faults, print one table, write build/faults.json."""

import argparse
import json
import logging
import statistics
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.brokers.kafka_jars import KafkaUnavailableError
from tests.faults.catalogue import FAULTS
from tests.faults.making.brokers import Kind
from tests.faults.run import run_all
from tests.faults.tally import Row

FINDINGS, WRONG_USE = 1, 2


def _table(rows: list[Row]) -> Table:
    table = Table(title="Faults")
    for name in ("fault", "broker"):
        table.add_column(name)
    for name in ("times", "missing", "extra", "wrong", "copies", "recovery s (median / worst)", "took s"):
        table.add_column(name, justify="right")
    table.add_column("measured")
    for row in rows:
        found, recoveries = row.tally.differences, row.tally.recoveries
        recovery = f"{statistics.median(recoveries):.1f} / {max(recoveries):.1f}" if recoveries else "-"
        cells = [row.fault, row.broker, str(row.tally.times), str(found.missing), str(found.extra), str(found.wrong)]
        notes = [*row.tally.notes, *([f"copies mislead about {found.misled} targets"] if found.misled else [])]
        said = row.error.splitlines()[0] if row.error else "; ".join(notes)
        style = None if row.good else "bold red"
        table.add_row(*cells, str(found.copies), recovery, f"{row.took:.0f}", said, style=style)
    return table


def main() -> int:
    """Return the exit code: 0 when all middle columns are zero, 1 when one is not, 2 for wrong use."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults",
        description="Make faults to real workers on real brokers, and compare what comes out with an undisturbed run.",
        epilog="Example: python -m tests.faults --broker kafka --only SIGTERM",
    )
    parser.add_argument("--long", action="store_true", help="hundreds of kills, a million records (hours) instead of minutes")
    parser.add_argument("--broker", choices=["embedded", "kafka", "both"], default="both", help="which brokers (default: both)")
    parser.add_argument("--only", metavar="TEXT", help="only faults whose name contains this")
    parser.add_argument("--output", type=Path, default=Path("build/faults.json"), help="where the rows go (default: %(default)s)")
    given = parser.parse_args()
    kinds: list[Kind] = ["embedded", "kafka"] if given.broker == "both" else [given.broker]
    if given.only is not None and not any(given.only in name for name in FAULTS):
        print(f"no fault is named like {given.only!r}; there are:\n  " + "\n  ".join(FAULTS), file=sys.stderr)
        return WRONG_USE
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what goes wrong is told by the rows
    said = Console(stderr=True)
    rows: list[Row] = []
    started = lambda made, kind: said.print(f"[dim]{kind}: {made.name} ...[/dim]")  # noqa: E731  (a line to follow)
    try:
        for row in run_all(kinds, long=given.long, only=given.only, on_start=started):
            _keep(row, rows, given.output, said)
    except KafkaUnavailableError as error:
        said.print(f"no Apache Kafka here: {error}; with --broker embedded the rest can be run")
        return WRONG_USE
    Console(width=None if sys.stdout.isatty() else 180).print(_table(rows))
    return 0 if all(row.good for row in rows) else FINDINGS


def _keep(row: Row, rows: list[Row], output: Path, said: Console) -> None:
    """Add a row, write all of them, and say what is wrong with this one."""
    rows.append(row)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps([each.as_json() for each in rows], indent=1) + "\n")
    if not row.good:
        said.print(f"{row.fault} on {row.broker}:", style="bold red")
        lines = row.error.splitlines() if row.error else [example[:400] for example in row.tally.differences.examples[:20]]
        said.print("\n".join(lines), markup=False, highlight=False)


if __name__ == "__main__":
    sys.exit(main())
