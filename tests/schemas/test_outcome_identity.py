from typing import Any

import pytest

from schemas.outcome_identity import SEND_ACTIONS, error_text, result_identity


def result(*texts: Any, **details: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in texts], "details": details}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("jammed", "jammed"),
        ("", ""),
        (" Jammed\n", " Jammed\n"),
        ({"$error": {"name": "PaperError", "message": "jammed"}}, "jammed"),
        ({"$error": {"message": "jammed"}}, "jammed"),
        ({"$error": {"name": "PaperError"}}, '{"$error":{"name":"PaperError"}}'),
        ({"$error": "jammed"}, '{"$error":"jammed"}'),
        ({"$error": {"message": "jammed"}, "code": 1}, '{"$error":{"message":"jammed"},"code":1}'),
        ({"message": "jammed"}, '{"message":"jammed"}'),
        ({"name": "PaperError", "message": "jammed"}, '{"message":"jammed","name":"PaperError"}'),
        (5.0, "5"),
        (True, "true"),
        (["a", 1e21, "\ud83e"], '["a",1e+21,"\\ud83e"]'),
    ],
)
def test_error_texts(error: Any, text: str) -> None:
    assert error_text(error) == text


@pytest.mark.parametrize("value", [None, True, 0, 1.5, "", "x", [], [{"details": {}}]])
def test_a_result_that_is_no_object_is_its_value(value: Any) -> None:
    assert result_identity("exec", {}, value) == ["value", value]


@pytest.mark.parametrize("tool", ["read", "exec", "process", "message"])
def test_the_refusal_of_a_loop_has_no_identity(tool: str) -> None:
    refusal = result("held back", status="blocked", deniedReason="tool-loop")
    assert result_identity(tool, {"action": "poll"}, refusal) is None
    refusal["details"]["deniedReason"] = "policy"
    assert result_identity(tool, {"action": "poll"}, refusal) is not None


@pytest.mark.parametrize("details", [None, [], "x", 5])
def test_details_that_are_no_object_are_empty(details: Any) -> None:
    assert result_identity("read", {}, {"details": details}) == ["result", {"details": {}, "text": ""}]


def test_texts_are_joined_by_line_ends_and_trimmed_as_javascript_trims() -> None:
    content = [
        {"type": "text", "text": "\ufeff\u00a0a "},
        None,
        {"text": "no type"},
        {"type": "text", "text": 5},
        {"type": 5, "text": "x"},
        {"type": "image", "text": ""},
        {"type": "text", "text": "b\u001c\n"},
    ]
    assert result_identity("read", {}, {"content": content}) == ["result", {"details": {}, "text": "a \n\nb\u001c"}]


@pytest.mark.parametrize("content", [None, "text", {"type": "text", "text": "x"}, 5])
def test_content_that_is_no_array_has_no_text(content: Any) -> None:
    assert result_identity("read", {}, {"content": content}) == ["result", {"details": {}, "text": ""}]


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_a_finished_command_is_status_exit_code_time_out_and_output(status: str) -> None:
    value = result("shown", status=status, exitCode=2, timedOut=True, aggregated=" out\n", durationMs=5, pid=7, cwd="/srv")
    assert result_identity("exec", {}, value) == [
        "exec",
        {"status": status, "exitCode": 2, "timedOut": True, "output": "out"},
    ]


@pytest.mark.parametrize("exit_code", [None, "0", True, [0]])
@pytest.mark.parametrize("timed_out", [None, 1, "true", False])
@pytest.mark.parametrize("aggregated", [None, 5, "", " \n\ufeff"])
def test_odd_members_of_a_finished_command_count_as_missing(exit_code: Any, timed_out: Any, aggregated: Any) -> None:
    odd = result(" shown", status="failed", exitCode=exit_code, timedOut=timed_out, aggregated=aggregated)
    assert result_identity("exec", {}, odd) == result_identity("exec", {}, result("shown", status="failed"))


def test_a_running_command_is_its_tail_as_it_is() -> None:
    assert result_identity("exec", {}, result("x", status="running", tail=" t", pid=3)) == [
        "exec",
        {"status": "running", "tail": " t"},
    ]
    for tail in ({}, {"tail": None}, {"tail": 7}, {"tail": ""}):
        assert result_identity("exec", {}, result("x", status="running", **tail)) == ["exec", {"status": "running", "tail": ""}]


@pytest.mark.parametrize("status", ["approval-pending", "approval-unavailable"])
def test_a_command_that_waits_for_approval_is_what_is_asked(status: str) -> None:
    asked = {"reason": "policy", "host": "node", "command": "ls", "warningText": "careful"}
    assert result_identity("exec", {}, result("x", status=status, **asked, approvalId="z")) == [
        "exec",
        {"status": status, **asked},
    ]
    nothing = {"status": status, "reason": None, "host": None, "command": "", "warningText": ""}
    assert result_identity("exec", {}, result("x", status=status, command=None)) == ["exec", nothing]


@pytest.mark.parametrize("status", ["killed", "Completed", "", 5, None, ["completed"], {}])
def test_a_command_with_another_status_counts_in_full(status: Any) -> None:
    value = result("x", status=status, pid=1)
    assert result_identity("exec", {}, value) == ["result", {"details": {"status": status, "pid": 1}, "text": "x"}]


def test_a_poll_is_status_exit_output_and_text() -> None:
    value = result("t", status="s", exitCode=1, exitSignal="TERM", aggregated="x", pid=1, totalLines=4)
    expected = {"status": "s", "exitCode": 1, "exitSignal": "TERM", "aggregated": "x", "text": "t"}
    assert result_identity("process", {"action": "poll"}, value) == ["poll", expected]


def test_a_log_is_status_counters_exit_and_text() -> None:
    value = result("t", status="s", totalLines=3, totalChars=9, truncated=False, aggregated="x", exitCode=1, exitSignal=None)
    expected = {
        "status": "s",
        "totalLines": 3,
        "totalChars": 9,
        "truncated": False,
        "exitCode": 1,
        "exitSignal": None,
        "text": "t",
    }
    assert result_identity("process", {"action": "log"}, value) == ["log", expected]


@pytest.mark.parametrize("action", ["poll", "log"])
def test_of_a_poll_only_the_status_tells_missing_from_null(action: str) -> None:
    params = {"action": action}
    nulls = dict.fromkeys(("exitCode", "exitSignal", "aggregated", "totalLines", "totalChars", "truncated"))
    assert result_identity("process", params, result("t", **nulls)) == result_identity("process", params, result("t"))
    assert result_identity("process", params, result("t", status=None)) != result_identity("process", params, result("t"))


@pytest.mark.parametrize(
    ("tool", "params"),
    [("sessions_send", None), *(("message", {"action": action, "to": "ops"}) for action in sorted(SEND_ACTIONS))],
)
def test_a_send_is_its_details_without_volatile_members(tool: str, params: Any) -> None:
    assert result_identity(tool, params, result("sent 1", ok=True, messageId="m1")) == ["send", {"ok": True}]
    assert result_identity(tool, params, {"content": "x"}) == ["send", {}]


@pytest.mark.parametrize(
    "params", [{"action": "Send"}, {"action": " send"}, {"action": ["send"]}, {"action": "read"}, {}, None, "send"]
)
def test_other_messages_count_in_full(params: Any) -> None:
    assert result_identity("message", params, result("t", messageId="m")) == [
        "result",
        {"details": {"messageId": "m"}, "text": "t"},
    ]


def test_the_tool_does_not_enter_an_ordinary_outcome() -> None:
    value = result("t", status="completed", exitCode=0)
    assert result_identity("read", {}, value) == result_identity("process", {"action": "kill"}, value)
