"""Compares Loopwarden's worker with what its users would pick instead: `python -m tests.bench --help`."""

import argparse
import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from streams.detection.compiled import engine_form
from tests.bench.brokers import fresh_broker
from tests.bench.comparing import Plan, compare
from tests.bench.field import BUILD, FIELD, Contender, NotHereError
from tests.bench.measuring import ContenderError
from tests.bench.report import cpu_ratios, ratios, show, write
from tests.bench.workload import Workload
from tests.compiled_modules import refuse_stale_modules


def prepared(broker: str, only: list[str]) -> list[Contender]:
    """Return the contenders that can run here, and say which cannot."""
    field = []
    for contender in FIELD:
        wanted = not only or any(part.lower() in contender.name.lower() for part in only)
        if broker not in contender.brokers or not wanted:
            continue
        try:
            contender.setting_up()
        except (NotHereError, OSError, subprocess.CalledProcessError) as error:
            print(f"left out: {contender.name}: {error}", file=sys.stderr)
            continue
        field.append(contender)
    return field


def main() -> int:
    """Run the comparison, print the table and write build/bench.json."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__, epilog="Example: python -m tests.bench --broker kafka --only bare"
    )
    parser.add_argument("--broker", choices=["embedded", "kafka"], default="embedded", help="started anew (default: embedded)")
    parser.add_argument("--events", type=int, default=1_000_000, help="events of the input (default: 1000000)")
    parser.add_argument("--runs", type=int, default=1_000, help="runs that they belong to (default: 1000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: 3)")
    parser.add_argument("--raw", action="store_true", help="events with arguments and results in place of their hashes")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="contenders whose name has this in it; may be repeated"
    )
    parser.add_argument("--output", type=Path, default=BUILD / "bench.json", help="where the figures go (default: %(default)s)")
    given = parser.parse_args()
    if min(given.events, given.runs, given.rounds) < 1:
        parser.error("--events, --runs and --rounds are at least 1")
    refuse_stale_modules()
    field = prepared(given.broker, given.only)
    if not field:
        parser.error(f"nobody is left; the contenders are {', '.join(contender.name for contender in FIELD)}")
    plan = Plan(workload=Workload(events=given.events, runs=given.runs, raw=given.raw), rounds=given.rounds)
    try:
        with fresh_broker(given.broker) as broker, tempfile.TemporaryDirectory() as folder:
            results = asyncio.run(compare(broker, plan, field, Path(folder)))
    except ContenderError as error:
        print(error, file=sys.stderr)
        return 1
    title = (
        f"{given.events:,} {'raw' if given.raw else 'hash-only'} events of {given.runs:,} runs, {given.rounds} rounds,"
        f" {given.broker} broker on the same cores, engine: {engine_form()}"
    )
    show(results, title=title)
    document: dict[str, object] = {
        "options": {name: str(value) if isinstance(value, Path) else value for name, value in vars(given).items()},
        "ratios": ratios(results),
        "cpu_ratios": cpu_ratios(results),
        "engine": engine_form(),
        "contenders": [result.as_json() for result in results],
    }
    write(given.output, document)
    print(f"written: {given.output}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
