"""`loopwarden schema` needs no broker."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from streams.cli.main import app


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["schema", *arguments])


def test_export_writes_the_files_and_the_check_then_finds_no_difference(tmp_path: Path) -> None:
    first = run("export", str(tmp_path / "contract"))
    assert first.exit_code == 0, first.output
    assert json.loads((tmp_path / "contract/asyncapi.json").read_text())["asyncapi"] == "3.1.0"
    assert (tmp_path / "contract/jsonschema/decision.v1.json").exists()
    assert run("export", "--check", str(tmp_path / "contract")).exit_code == 0


def test_check_names_the_files_that_differ_and_changes_nothing(tmp_path: Path) -> None:
    run("export", str(tmp_path))
    edited = tmp_path / "jsonschema/decision.v1.json"
    edited.write_text("{}")
    result = run("export", "--check", str(tmp_path))
    assert result.exit_code == 1
    assert result.stderr == f"loopwarden: {edited}: not what the models say\n"
    assert edited.read_text() == "{}"


@pytest.mark.parametrize("arguments", [["export", "--check"], ["compare"]])
def test_a_folder_that_is_not_there_is_wrong_use(arguments: list[str], tmp_path: Path) -> None:
    result = run(*arguments, str(tmp_path / "missing"))
    assert result.exit_code == 2
    assert "missing: no" in "".join(result.stderr.split("\n")).replace("│", "")


def test_compare_names_a_break(tmp_path: Path) -> None:
    run("export", str(tmp_path / "old"))
    run("export", str(tmp_path / "new"))
    assert run("compare", str(tmp_path / "old/jsonschema"), str(tmp_path / "new/jsonschema")).exit_code == 0
    file = tmp_path / "new/jsonschema/tool-call.started.v1.json"
    schema = json.loads(file.read_text())
    schema["$defs"]["ToolCallStarted"]["required"].append("call_id")
    file.write_text(json.dumps(schema))
    result = run("compare", str(tmp_path / "old/jsonschema"), str(tmp_path / "new/jsonschema"))
    assert result.exit_code == 1
    assert result.stderr == "loopwarden: tool-call.started.v1.json.data.call_id: required from now on\n"
