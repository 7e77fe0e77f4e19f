import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from streams.cli.main import app

Scan = Callable[..., Result]
WELL = [{"run": "well", "seq": n, "tool": "exec", "args": {"n": n}, "result": "x"} for n in range(12)]
STUCK = [{"run": "stuck", "seq": n, "tool": "exec", "args": {}, "result": "x"} for n in range(25)]
REPEATED = [{"run": "repeated", "seq": n, "tool": "exec", "args": {}, "result": "x"} for n in range(12)]


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


@pytest.fixture
def scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scan:
    """Run `loopwarden scan` in an empty folder, without any broker."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(app, ["scan", *arguments], input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_healthy_runs_are_no_finding(scan: Scan, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", *WELL)
    result = scan("a.jsonl")
    assert result.exit_code == 0
    assert "1 run, 12 calls: no loops found; 1 run healthy." in result.stdout
    assert result.stderr == ""


def test_loops_are_findings_with_their_places(scan: Scan, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", *WELL, *STUCK)
    result = scan("a.jsonl")
    assert result.exit_code == 1
    assert "from a.jsonl:13 to 37" in result.stdout
    assert "first verdict at a.jsonl:22, critical at a.jsonl:32; after it 15 calls" in result.stdout


def test_warnings_can_be_left_out_of_the_exit_code(scan: Scan, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", *REPEATED)
    assert scan("a.jsonl").exit_code == 1
    assert scan("a.jsonl", "--level", "critical").exit_code == 0
    write(tmp_path / "a.jsonl", *STUCK)
    assert scan("a.jsonl", "--level", "critical").exit_code == 1


def test_programs_get_a_line_for_each_run_and_one_for_all(scan: Scan, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", *WELL, *STUCK)
    result = scan("a.jsonl", "--json")
    *runs, summary = lines(result)
    assert [(run["run_id"], run["verdict"]) for run in runs] == [("well", "healthy"), ("stuck", "stopped")]
    assert (summary["kind"], summary["runs"], summary["loops"], summary["files"]) == ("summary", 2, 1, {"calls": 1})
    assert result.exit_code == 1


def test_standard_input_is_a_dash(scan: Scan) -> None:
    command = [sys.executable, "-m", "streams.cli", "scan", "-", "--json"]
    text = "".join(f"{json.dumps(record)}\n" for record in STUCK)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert json.loads(done.stdout.splitlines()[0])["first"] == "stdin:1"


def test_folders_are_searched_and_what_is_no_log_is_left_out(scan: Scan, tmp_path: Path) -> None:
    for name in ("x", "x/deep"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "log.jsonl", *({**call, "run": name} for call in WELL))
    (tmp_path / "x/package.json").write_text('{"name": "x"}')
    (tmp_path / "x/picture.png").write_bytes(b"\x89PNG\r\n")
    summary = lines(scan("x", "--json"))[-1]
    assert (summary["runs"], summary["files"], summary["left_out"]) == (2, {"calls": 2}, 2)


def test_a_policy_file_sets_the_thresholds_and_the_detectors_are_on_all_the_same(scan: Scan, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", *WELL, *REPEATED[:6])
    (tmp_path / "p.json5").write_text("{tools: {loopDetection: {warningThreshold: 4, criticalThreshold: 5}}}")
    assert scan("a.jsonl").exit_code == 0
    assert [run["verdict"] for run in lines(scan("a.jsonl", "--json", "--policy", "p.json5"))[:-1]] == ["healthy", "stopped"]
    (tmp_path / "p.json5").write_text("{tools: {loopDetection: {enabled: false}}}")
    write(tmp_path / "a.jsonl", *STUCK)
    assert scan("a.jsonl", "--policy", "p.json5").exit_code == 0


def test_each_prompt_can_be_a_run_of_its_own(scan: Scan, tmp_path: Path) -> None:
    call = {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]}
    turn = [{"role": "user", "content": "again"}, call, {"role": "tool", "tool_call_id": "a", "content": "x"}]
    write(tmp_path / "a.jsonl", *turn * 12)
    assert [scan("a.jsonl").exit_code, scan("a.jsonl", "--turns").exit_code] == [1, 0]


def test_a_report_for_a_browser_is_written_beside_the_terminals(scan: Scan, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", *STUCK)
    result = scan("a.jsonl", "--html", "r.html")
    assert result.exit_code == 1
    assert result.stderr.strip() == "Report: r.html"
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert "would have been stopped" in result.stdout


def test_lines_that_are_not_understood_are_told_and_are_not_fatal(scan: Scan, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", *WELL)
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write('{"run": "well"}\n{"run": "we')
    result = scan("a.jsonl")
    assert result.exit_code == 0
    assert "Not understood: 2 lines" in result.stdout
    assert "a call needs run, seq and tool: a.jsonl:13" in result.stdout
    assert "the last line is cut off: a.jsonl:14" in result.stdout


def wrong_uses(folder: Path) -> dict[str, tuple[list[str], str]]:
    write(folder / "well.jsonl", *WELL)
    (folder / "empty.jsonl").write_text("")
    (folder / "notes.txt").write_text("hello\n")
    (folder / "nothing").mkdir()
    claude = {"type": "user", "sessionId": "s", "uuid": "u", "message": {"role": "user", "content": "hi"}}
    write(folder / "mixed.jsonl", *WELL, claude)
    (folder / "bad.json5").write_text("{tools: {loopDetection: {warningTreshold: 3}}}")
    return {
        "missing": (["missing.jsonl"], "missing.jsonl: no such file or directory"),
        "empty": (["empty.jsonl"], "empty.jsonl: the file is empty"),
        "no log": (["notes.txt"], "notes.txt: no JSON is in it"),
        "empty folder": (["nothing"], "nothing: no logs in a known format"),
        "glob": (["*.zip"], "*.zip: no file matches"),
        "mixed": (["mixed.jsonl"], "mixed.jsonl:13: this is of the format claude-code, but the file began as calls"),
        "format": (["well.jsonl", "--format", "cobol"], "--format cobol: there is events, calls"),
        "policy": (["well.jsonl", "--policy", "bad.json5"], "bad.json5:1:26: unknown key"),
        "no policy": (["well.jsonl", "--policy", "none.json5"], "none.json5: no such file"),
        "report": (["well.jsonl", "--html", "nowhere/r.html"], "nowhere/r.html: no such file or directory"),
    }


@pytest.mark.parametrize(
    "case", ["missing", "empty", "no log", "empty folder", "glob", "mixed", "format", "policy", "no policy", "report"]
)
def test_wrong_use_ends_in_one_clear_line_and_exit_code_2(scan: Scan, tmp_path: Path, case: str) -> None:
    arguments, message = wrong_uses(tmp_path)[case]
    result = scan(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
    if case != "format":  # which is told with the usage
        assert len(result.stderr.splitlines()) == 1


def test_a_wrong_file_does_not_keep_the_others_from_being_reported(scan: Scan, tmp_path: Path) -> None:
    write(tmp_path / "stuck.jsonl", *STUCK)
    result = scan("missing.jsonl", "stuck.jsonl", "--json")
    assert result.exit_code == 2
    assert result.stderr.strip() == "loopwarden: missing.jsonl: no such file or directory"
    assert lines(result)[0]["verdict"] == "stopped"
    assert lines(result)[-1]["problems"] == ["missing.jsonl: no such file or directory"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_named(scan: Scan, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", *WELL).chmod(0)
    result = scan("a.jsonl")
    assert (result.exit_code, result.stderr.strip()) == (2, "loopwarden: a.jsonl: permission denied")


def test_ctrl_c_stops_a_scan_that_waits_for_its_input(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [sys.executable, "-m", "streams.cli", "scan", str(pipe)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        with pipe.open("wb", buffering=0) as writer:  # opens when the scan does
            writer.write(f"{json.dumps(STUCK[0])}\n".encode())
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
    finally:
        process.kill()
        process.communicate()
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_the_help_ends_with_an_example(scan: Scan) -> None:
    result = scan("--help")
    assert "Example: loopwarden scan" in result.stdout.strip().splitlines()[-1]
    assert "openclaw" in result.stdout
