"""Runs faults one after the other and keeps a row of each."""

import asyncio
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.faults import scenarios
from tests.faults.catalogue import FAULTS, Bench, Fault
from tests.faults.making.brokers import Broker, Kind, running
from tests.faults.scene import FaultError
from tests.faults.tally import Row, Tally

assert scenarios  # they are in the catalogue once imported


def run_fault(made: Fault, broker: Broker, *, long: bool = False, quick: bool = False) -> Row:
    """Make one fault on a running broker."""
    tally, began, error = Tally(), time.monotonic(), None
    with tempfile.TemporaryDirectory(prefix="loopwarden-faults-", ignore_cleanup_errors=True) as folder:
        bench = Bench(broker=broker, folder=Path(folder), long=long, quick=quick, tally=tally)
        try:
            asyncio.run(made.scenario(bench))
        except FaultError as failure:
            error = str(failure)
        except Exception:
            error = traceback.format_exc()
    return Row(made.name, broker.kind, tally, time.monotonic() - began, error)


def run_all(
    kinds: Iterable[Kind],
    *,
    long: bool,
    only: str | None = None,
    on_start: Callable[[Fault, Kind], None] = lambda made, kind: None,
) -> Iterator[Row]:
    """Make all faults, or those whose name contains `only`, on each kind of broker."""
    for kind in kinds:
        chosen = [made for made in FAULTS.values() if kind in made.brokers and (only is None or only in made.name)]
        if not chosen:
            continue
        with running(kind) as broker:
            for made in chosen:
                on_start(made, kind)
                yield run_fault(made, broker, long=long)
