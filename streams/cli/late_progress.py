"""A progress bar that shows only when there is something to wait for."""

import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

#: Seconds that work may take in silence.
_PATIENCE = 2.0


class LateProgress:
    """Shows how many bytes of work are done, on stderr's terminal, once the work has taken two seconds; nothing on a pipe.

    `total` of 0 means that nobody knows how much there is.
    """

    def __init__(self, total: int, title: str) -> None:
        self._console = Console(stderr=True)
        self._total = total
        self._title = title
        self._done = 0
        self._began = time.monotonic()
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def advance(self, count: int) -> None:
        """Tell that more bytes are done."""
        self._done += count
        if self._bar is None:
            if not self._console.is_terminal or time.monotonic() - self._began < _PATIENCE:
                return
            columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.add_task(self._title, total=self._total or None)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=self._done)

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
            self._began = float("inf")
