import json
from pathlib import Path

from typer.testing import CliRunner

from streams.cli.main import app


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
