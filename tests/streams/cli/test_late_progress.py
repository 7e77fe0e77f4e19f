import io

import pytest
from rich.console import Console

from streams.cli import late_progress
from streams.cli.late_progress import LateProgress


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    file = io.StringIO()
    monkeypatch.setattr(late_progress, "Console", lambda stderr: Console(file=file, force_terminal=True, width=80))
    return file


def test_work_that_is_done_soon_shows_nothing(terminal: io.StringIO) -> None:
    with LateProgress(100, "scanning") as progress:
        progress.advance(50)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("total", [100_000, 0])
def test_work_that_takes_long_shows_how_far_it_is(terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch, total: int) -> None:
    monkeypatch.setattr(late_progress, "_PATIENCE", 0.0)
    with LateProgress(total, "scanning") as progress:
        progress.advance(50_000)
        progress.stop()
        progress.advance(1)  # what comes after the bar is gone does not bring it back
    assert "scanning" in terminal.getvalue()
    assert "50.0" in terminal.getvalue()


def test_a_pipe_is_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(late_progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(late_progress, "Console", lambda stderr: Console(file=file))
    with LateProgress(100, "scanning") as progress:
        progress.advance(50)
    assert file.getvalue() == ""
