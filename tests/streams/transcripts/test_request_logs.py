import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams.reports.scan_report import RunReport, ScanSummary

ScanPaths = Callable[..., tuple[list[RunReport], ScanSummary]]


def chat_log(calls: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    log = []
    for number in range(calls):
        made = {"id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        answer = {"role": "assistant", "content": None, "tool_calls": [made]}
        log.append({"messages": list(messages), "choices": [{"message": answer}], "usage": {"total_tokens": 10}})
        messages += [answer, {"role": "tool", "tool_call_id": f"c{number}", "content": "x"}]
    return log


def responses_log(calls: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = [{"type": "message", "role": "user", "content": "go"}]
    log = []
    for number in range(calls):
        call = {"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}"}
        log.append({"input": list(items), "output": [call], "usage": {"total_tokens": 10}})
        items += [call, {"type": "function_call_output", "call_id": f"c{number}", "output": "x"}]
    return log


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("make", [chat_log, responses_log])
def test_requests_that_repeat_the_conversation_count_each_call_once_however_they_are_printed(
    make: Callable[[int], list[dict[str, Any]]], indent: int | None, tmp_path: Path, scan: ScanPaths
) -> None:
    file = tmp_path / "log.json"
    file.write_text("\n".join(json.dumps(record, indent=indent) for record in make(12)))
    (run,), summary = scan(file)
    assert (run.spent.calls, run.spent.tokens, run.unanswered) == (12, 120, 1)
    assert [loop.calls for loop in run.loops] == [12]
    assert summary.not_understood.total == 0
