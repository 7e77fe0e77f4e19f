"""The build's hook, and what keeps a checkout from running what its sources said before."""

import os
import sysconfig
import tomllib
from pathlib import Path

import pytest

import hatch_build
from streams.detection import engine
from streams.detection.compiled import engine_form
from tests.compiled_modules import ROOT, refuse_stale_modules, stale_modules

MODULES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["hooks"]["custom"]["modules"]


def test_every_module_of_the_engine_is_compiled_but_those_that_msgspec_has_to_make() -> None:
    found = {str(path.relative_to(ROOT)) for path in (ROOT / "streams/detection").rglob("*.py")}
    left_out = {f"streams/detection/{name}.py" for name in ("__init__", "compiled", "stored_state")}
    assert found - left_out == {module for module in MODULES if module.startswith("streams/detection/")}
    assert all((ROOT / module).is_file() for module in MODULES)


def test_the_engine_tells_in_which_form_it_runs() -> None:
    assert engine_form() == ("Python" if Path(engine.__file__).suffix == ".py" else "compiled")


def test_a_source_that_was_changed_after_it_was_compiled_is_stale(tmp_path: Path) -> None:
    source = tmp_path / "streams" / "engine.py"
    compiled = source.with_name(f"engine{sysconfig.get_config_var('EXT_SUFFIX')}")
    source.parent.mkdir()
    for path in (source, compiled):
        path.touch()
    os.utime(source, (1, 1))
    assert not list(stale_modules(tmp_path))
    os.utime(source, (2**31, 2**31))
    assert list(stale_modules(tmp_path)) == [Path("streams/engine.py")]
    source.unlink()
    assert list(stale_modules(tmp_path)) == [Path("streams/engine.py")]


def test_stale_modules_are_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.compiled_modules.stale_modules", lambda: iter([Path("streams/x.py")]))
    with pytest.raises(SystemExit, match=r"streams/x\.py: changed since .* `make compiled`"):
        refuse_stale_modules()


def test_the_build_compiles_with_what_the_tests_ran_on() -> None:
    assert set(hatch_build.COMPILER) <= set((ROOT / "constraints.txt").read_text().splitlines())


def test_nothing_is_compiled_when_the_switch_is_off_or_there_is_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert not hatch_build.can_compile()
    monkeypatch.delenv("CC")
    monkeypatch.setenv("LOOPWARDEN_COMPILE", "0")
    assert not hatch_build.can_compile()


def test_a_compiler_that_fails_leaves_python(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert hatch_build.compile_engine(["streams/detection/no_such_module.py"], tmp_path) == []
    assert "the engine is not compiled and runs as Python" in capfd.readouterr().err
