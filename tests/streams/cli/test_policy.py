import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from streams.cli.main import app
from tests.streams.cli.conftest import Run


def check(text: str, *arguments: str, folder: Path) -> tuple[int, str, str]:
    file = folder / "policy.json5"
    file.write_text(text)
    result = CliRunner().invoke(app, ["policy", "check", str(file), *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_json_is_what_holds_for_the_agent(tmp_path: Path) -> None:
    text = """{tools: {loopDetection: {enabled: true, warningThreshold: 3}},
              agents: {list: [{id: "owl", tools: {loopDetection: {warningThreshold: 5}}}]}}"""
    code, out, _ = check(text, "--agent", "Owl", "--json", folder=tmp_path)
    assert code == 0
    assert json.loads(out)["tools"]["loopDetection"]["warningThreshold"] == 5
    _, out, _ = check(text, "--json", folder=tmp_path)
    assert json.loads(out)["tools"]["loopDetection"]["warningThreshold"] == 3


def test_the_table_names_every_setting(tmp_path: Path) -> None:
    code, out, _ = check("{}", folder=tmp_path)
    assert code == 0
    assert "guard only (enabled is not set)" in out
    assert "postCompactionGuard.windowSize" in out


def test_problems_are_lines_with_their_place_and_exit_code_2(tmp_path: Path) -> None:
    code, out, err = check("{tools: {loopDetection: {enabld: true}}}", folder=tmp_path)
    assert (code, out) == (2, "")
    assert f"{tmp_path}/policy.json5:1:26: unknown key enabld" in err


GOOD = '{"tools": {"loopDetection": {"enabled": true, "warningThreshold": 4}}}'


def published(loopwarden: Run, file: Path, text: str, *options: str) -> Result:
    file.write_text(text)
    return loopwarden("policy", "publish", str(file), *options)


@pytest.mark.broker
def test_a_published_policy_is_shown_and_listed_and_can_be_withdrawn(loopwarden: Run, tmp_path: Path) -> None:
    file = tmp_path / "policy.json5"
    assert loopwarden("topics", "create", "--partitions", "2").exit_code == 0
    assert loopwarden("policy", "show").exit_code == 1
    assert published(loopwarden, file, GOOD).exit_code == 0
    owl = GOOD.replace("4", "3")
    assert published(loopwarden, file, owl, "--agent", "owl").exit_code == 0
    for agent, threshold in ((["--agent", "owl"], 3), ([], 4)):
        shown = json.loads(loopwarden("policy", "show", "--json", *agent).stdout)
        assert shown["tools"]["loopDetection"]["warningThreshold"] == threshold
    assert loopwarden("policy", "withdraw", "--agent", "owl").exit_code == 0
    assert (
        json.loads(loopwarden("policy", "show", "--json", "--agent", "owl").stdout)["tools"]["loopDetection"]["warningThreshold"]
        == 4
    )
    entries = [json.loads(line) for line in loopwarden("policy", "history", "--json").stdout.splitlines()]
    assert [(entry["key"], entry["policy"] is None) for entry in entries] == [("*", False), ("owl", False), ("owl", True)]
    assert "withdrawn" in loopwarden("policy", "history").stdout


@pytest.mark.broker
def test_a_bad_policy_is_refused_before_it_is_published(loopwarden: Run, tmp_path: Path) -> None:
    assert loopwarden("topics", "create", "--partitions", "2").exit_code == 0
    file = tmp_path / "policy.json5"
    refused = published(loopwarden, file, GOOD.replace("enabled", "enabld"))
    assert refused.exit_code == 2
    assert f"{file}:1:" in refused.stderr
    nested = published(
        loopwarden, file, '{"agents": {"list": [{"id": "fox", "loopwarden": {"mode": "shadow"}}]}}', "--agent", "owl"
    )
    assert nested.exit_code == 2
    assert loopwarden("policy", "history", "--json").stdout == ""


@pytest.mark.broker
def test_waiting_for_a_policy_without_a_worker_ends_with_a_line_and_exit_code_1(loopwarden: Run, tmp_path: Path) -> None:
    assert loopwarden("topics", "create", "--partitions", "2").exit_code == 0
    late = published(loopwarden, tmp_path / "policy.json5", GOOD, "--wait", "0.3")
    assert late.exit_code == 1
    assert "is a worker running" in late.stderr
