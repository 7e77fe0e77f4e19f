"""Work on several partitions at a time."""

import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from streams.audit.processes import in_processes


def _square(task: int, on_progress: Callable[[int], None]) -> tuple[int, int]:
    if task < 0:
        raise ValueError("below zero")
    on_progress(task)
    return task * task, os.getpid()


def _fail_or_wait(task: int, on_progress: Callable[[int], None]) -> int:
    if task:
        raise ValueError("no good")
    time.sleep(600)  # must be ended, not waited for
    return task


@pytest.mark.parametrize("processes", [1, 2])
def test_every_task_is_done_and_its_progress_told(processes: int) -> None:
    told: list[int] = []
    found = list(in_processes(_square, [1, 2, 3], records=[1, 2, 3], processes=processes, on_progress=told.append))
    assert sorted(square for square, _ in found) == [1, 4, 9]
    assert sum(told) == 6
    assert (os.getpid() in {pid for _, pid in found}) == (processes == 1)


def test_little_work_is_done_here() -> None:
    found = list(in_processes(_square, [1, 2], records=[10, 10], processes=None, on_progress=lambda count: None))
    assert {pid for _, pid in found} == {os.getpid()}


def test_an_error_ends_all_of_it() -> None:
    begin = time.monotonic()
    with pytest.raises(ValueError, match="no good"):
        list(in_processes(_fail_or_wait, [0, 1], records=[2, 1], processes=2, on_progress=lambda count: None))
    assert time.monotonic() - begin < 300


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes are always started afresh")
def test_a_process_is_copied_only_while_it_has_no_other_thread() -> None:
    """What another thread holds would stay locked in the copy."""
    script = (
        "import threading\n"
        "from streams.audit.processes import start_method\n"
        "over = threading.Event()\n"
        "print(start_method())\n"
        "thread = threading.Thread(target=over.wait)\n"
        "thread.start()\n"
        "print(start_method())\n"
        "over.set()\n"
        "thread.join()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["fork", "spawn"]
