"""How fast logs are scanned, and whether memory stays flat: writes made-up logs of several formats and scans them in one process.

    python tests/bench/scan_speed.py [--megabytes 200] [--formats openclaw,claude-code] [--folder DIR] [--json]

A log holds a healthy session of many interleaved kinds of calls with results of a few KB, as coding agents have them. The figures
are calls and MB per second of processor time (a scan uses one processor; on a machine that is shared the clock says little), the
time on the clock, and the highest resident memory, each of a scan in a process of its own.
"""

import argparse
import json
import multiprocessing
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from schemas.policy import PolicyDocument
from streams.reports.scan_report import ScanSummary
from streams.transcripts.scanning import Scan
from streams.transcripts.sources import expand

Line = dict[str, Any]
#: calls of one session; a log has as many sessions as it takes
_SESSION_CALLS = 400


def _calls(seed: int) -> Iterator[tuple[str, str, dict[str, Any], str]]:
    """Yield id, tool, arguments and result of calls without end: reads, edits and test runs in a mix that does not loop."""
    source = random.Random(seed)
    words = ["def", "return", "self", "import", "value", "\n    ", "# note", "for item in items:\n", '"quoted"', "naïve"]
    number = 0
    while True:
        number += 1
        tool = source.choice(["read", "edit", "bash", "grep"])
        text = " ".join(source.choices(words, k=source.randrange(20, 600)))
        yield f"call_{number:010d}", tool, {"path": f"src/module_{source.randrange(500)}.py", "n": number % 97}, text


def _openclaw(session: int) -> Iterator[Line]:
    yield {"type": "session", "version": 3, "id": f"session-{session}", "timestamp": "2026-03-02T09:00:00Z", "cwd": "/x"}
    parent: str | None = None
    for number, (call_id, tool, arguments, result) in zip(range(_SESSION_CALLS), _calls(session), strict=False):
        usage = {"input": 900, "output": 80, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 980, "cost": {"total": 0.01}}
        call = {"type": "toolCall", "id": call_id, "name": tool, "arguments": arguments}
        answer = {"role": "toolResult", "toolCallId": call_id, "toolName": tool, "content": [{"type": "text", "text": result}]}
        for part, message in (
            ("a", {"role": "assistant", "content": [call], "usage": usage, "stopReason": "toolUse"}),
            ("b", {**answer, "isError": False}),
        ):
            entry = f"{session:04x}{number:03x}{part}"
            yield {"type": "message", "id": entry, "parentId": parent, "timestamp": "2026-03-02T09:00:01Z", "message": message}
            parent = entry


def _claude_code(session: int) -> Iterator[Line]:
    for number, (call_id, tool, arguments, result) in zip(range(_SESSION_CALLS), _calls(session), strict=False):
        shared = {"sessionId": f"session-{session}", "isSidechain": False, "timestamp": "2026-03-02T09:00:01Z", "cwd": "/x"}
        use = {"type": "tool_use", "id": call_id, "name": tool, "input": arguments}
        usage = {"input_tokens": 3, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 9, "output_tokens": 80}
        message = {"id": f"msg-{session}-{number}", "role": "assistant", "content": [use], "usage": usage}
        yield {**shared, "type": "assistant", "uuid": f"{session}-{number}-a", "message": message}
        answer = {"type": "tool_result", "tool_use_id": call_id, "content": result}
        yield {**shared, "type": "user", "uuid": f"{session}-{number}-b", "message": {"role": "user", "content": [answer]}}


def _codex(session: int) -> Iterator[Line]:
    def line(kind: str, payload: Line) -> Line:
        return {"timestamp": "2026-03-02T09:00:01Z", "type": kind, "payload": payload}

    yield line("session_meta", {"id": f"thread-{session}", "cwd": "/x"})
    for _, (call_id, tool, arguments, result) in zip(range(_SESSION_CALLS), _calls(session), strict=False):
        named = f"{call_id}-{session:06d}"
        call = {"type": "function_call", "name": tool, "arguments": json.dumps(arguments), "call_id": named}
        yield line("response_item", call)
        yield line("response_item", {"type": "function_call_output", "call_id": named, "output": result})


def _calls_list(session: int) -> Iterator[Line]:
    for number, (call_id, tool, arguments, result) in zip(range(_SESSION_CALLS), _calls(session), strict=False):
        yield {"run": f"run-{session}", "seq": number, "tool": tool, "args": arguments, "result": result, "call_id": call_id}


def _atif_steps(session: int) -> Iterator[Line]:
    for number, (call_id, tool, arguments, result) in zip(range(_SESSION_CALLS), _calls(session), strict=False):
        call = {"tool_call_id": call_id, "function_name": tool, "arguments": arguments}
        observation = {"results": [{"source_call_id": call_id, "content": result}]}
        yield {"step_id": number + 1, "source": "agent", "message": "", "tool_calls": [call], "observation": observation}


_LINES: dict[str, Callable[[int], Iterator[Line]]] = {
    "openclaw": _openclaw,
    "claude-code": _claude_code,
    "codex": _codex,
    "calls": _calls_list,
    "atif": _atif_steps,
}


def write_log(path: Path, format_name: str, megabytes: float) -> None:
    """Write a log of a size: lines, for ATIF one document that is a single run."""
    sessions = 0
    with path.open("w", encoding="utf-8") as file:
        if format_name == "atif":
            file.write('{"schema_version": "ATIF-v1.6", "session_id": "s", "agent": {"name": "a"}, "steps": [')
        separator = ""
        while file.tell() < megabytes * 1e6:
            for line in _LINES[format_name](sessions):
                text = json.dumps(line, ensure_ascii=False, indent=1 if format_name == "atif" else None)
                file.write(f"{separator}{text}" if format_name == "atif" else f"{text}\n")
                separator = ",\n"
            sessions += 1
        if format_name == "atif":
            file.write("]}\n")


def _measure(path: str, answers: "multiprocessing.Queue[Line]") -> None:
    policy = PolicyDocument.from_mapping({"tools": {"loopDetection": {"enabled": True}}})
    summary = ScanSummary()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, used = time.perf_counter(), time.process_time()
    for _ in Scan(policy).run(expand([path]), summary=summary):
        pass
    seconds, processor = time.perf_counter() - began, time.process_time() - used
    answers.put(
        {
            "format": next(iter(summary.files), "?"),
            "megabytes": round(Path(path).stat().st_size / 1e6, 1),
            "runs": summary.runs,
            "calls": summary.spent.calls,
            "seconds": round(seconds, 2),
            "processor_seconds": round(processor, 2),
            "calls_per_second": round(summary.spent.calls / processor),
            "megabytes_per_second": round(Path(path).stat().st_size / 1e6 / processor, 1),
            "memory_before_mb": round(before / 1024, 1),
            "memory_highest_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        }
    )


def main() -> None:
    """Write, scan and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=50)
    parser.add_argument("--formats", default=",".join(_LINES))
    parser.add_argument("--folder", default=None, help="where the logs are written; default: a temporary folder")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    for format_name in given.formats.split(","):
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            path = Path(folder, "log.json")
            write_log(path, format_name, given.megabytes)
            answers: multiprocessing.Queue[Line] = context.Queue()
            process = context.Process(target=_measure, args=(str(path), answers))
            process.start()
            found = answers.get(timeout=3600)
            process.join()
        if given.json:
            print(json.dumps(found), flush=True)
        else:
            print(
                f"{found['format']:<12} {found['megabytes']:>8,.1f} MB {found['runs']:>6,} runs {found['calls']:>9,} calls"
                f" {found['seconds']:>7.2f} s on the clock, {found['processor_seconds']:>6.2f} s used:"
                f" {found['calls_per_second']:>7,} calls/s, {found['megabytes_per_second']:>5.1f} MB/s;"
                f" memory {found['memory_before_mb']:.0f} to {found['memory_highest_mb']:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
