"""Partitions do not depend on each other: several are worked on at a time, each in a process of its own."""

import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

#: Records below which one process is faster: where another has to be started afresh it takes about a second.
WORTH_A_PROCESS = 100_000

#: Allocations between two garbage collections. Runs are many small objects that live long, and Python's 700 has them looked
#: through all the time: a third of the whole work (measured).
GC_THRESHOLD = 100_000

_LOOK_INTERVAL = 0.2

#: Told how many records were read since the last time.
OnProgress = Callable[[int], None]

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_processes(
    work: Callable[[Task, OnProgress], Result],
    tasks: Sequence[Task],
    *,
    records: Sequence[int],
    processes: int | None,
    on_progress: OnProgress,
) -> Iterator[Result]:
    """Do the work of every task and yield the results as they come; `work` is a function of a module.

    `records` says how much each task has to read: the biggest are begun first. `processes` is by default the number of cores, or
    one when there is little to read.
    """
    number = min(processes or os.cpu_count() or 1, len(tasks))
    if number <= 1 or (processes is None and sum(records) < WORTH_A_PROCESS):
        with _rare_collections():
            for task in tasks:
                yield work(task, on_progress)
        return
    context = multiprocessing.get_context(start_method())
    counter = context.Value("q", 0)
    biggest_first = [task for _, task in sorted(zip(records, tasks, strict=True), key=lambda pair: -pair[0])]
    with ProcessPoolExecutor(number, context, initializer=_begin_process, initargs=(counter,)) as pool:
        try:
            with _interrupts_put_off():
                running: set[Future[Result]] = {pool.submit(_work_in_process, work, task) for task in biggest_first}
            reported = 0
            while running:
                done, running = wait(running, timeout=_LOOK_INTERVAL, return_when=FIRST_COMPLETED)
                on_progress(counter.value - reported)
                reported = counter.value
                for future in done:
                    yield future.result()
        except BaseException:
            # Ctrl-C, an error or a caller that has enough: nothing of it is to go on.
            for process in multiprocessing.active_children():
                process.terminate()
            # Waits for the pool's own thread, which ends with its processes: at exit the two would be in each other's way.
            pool.shutdown(cancel_futures=True)
            raise


def start_method() -> str:
    """Return how processes are started: as copies of this one, which takes no time, where that is safe.

    A copy has no other threads, but what they hold stays locked in it; so only a process without any is copied.
    """
    threads = Path("/proc/self/task")
    return "fork" if sys.platform == "linux" and len(list(threads.iterdir())) == 1 else "spawn"


_counter: Any = None


def _begin_process(counter: Any) -> None:
    global _counter
    _counter = counter
    gc.freeze()  # what a copy has from its parent is not looked through
    gc.set_threshold(GC_THRESHOLD)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends at once and without a traceback; the parent says what there is to say
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _work_in_process(work: Callable[[Task, OnProgress], Result], task: Task) -> Result:
    def report(records: int) -> None:
        with _counter.get_lock():
            _counter.value += records

    return work(task, report)


@contextmanager
def _interrupts_put_off() -> Iterator[None]:
    """Have Ctrl-C wait until processes are started: half started ones would leave tracebacks. They inherit the mask."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _rare_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
