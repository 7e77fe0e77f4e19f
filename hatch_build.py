"""Compiles the engine while the package is built, where a C compiler is; without one the same modules run as Python.

`python hatch_build.py` compiles into this folder, which is also what an editable installation does; `make pure` takes it back.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent

#: Set to 0 to have the engine run as Python.
SWITCH = "LOOPWARDEN_COMPILE"

#: What mypyc compiles with; the versions are those of constraints.txt.
COMPILER = ["mypy==2.4.1", "setuptools==84.2.1"]

#: mypyc as setuptools sees it.
_SETUP = """
from mypyc.build import mypycify
from setuptools import setup
setup(name="engine", ext_modules=mypycify(["--config-file=types.ini", *{modules!r}], opt_level="3", group_name="loopwarden"))
"""

#: Other packages count as not there, so that an isolated build and this folder give the same code (mypy in strict mode, with all
#: of them, is a check of its own). What is wrong for want of them matters in the compiled modules only.
_TYPES = "[mypy]\nno_site_packages = True\nignore_missing_imports = True\nignore_errors = True\n"
_OF_COMPILED = "[mypy-{name}]\nignore_errors = False\n"


class CustomBuildHook(BuildHookInterface[Any]):
    """Hatchling's hook: adds the compiled modules to a wheel, or puts them beside their sources for an editable installation."""

    def dependencies(self) -> list[str]:
        """Return what the build needs: nothing when nothing is compiled."""
        return COMPILER if can_compile() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; a compiler that fails leaves a package that runs as Python."""
        if self.target_name != "wheel" or not can_compile():
            return
        with tempfile.TemporaryDirectory() as folder:
            built = compile_engine(self.config["modules"], Path(folder))
            if version == "editable":
                put_beside_sources(built, Path(folder))
                return
            kept = Path(self.directory, "compiled")
            shutil.rmtree(kept, ignore_errors=True)
            for path in built:
                (kept / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(Path(folder, path), kept / path)
                build_data["force_include"][str(kept / path)] = str(path)
        if built:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True


def can_compile() -> bool:
    """Whether there is a C compiler, Python's headers, and nobody who said that nothing is to be compiled."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    headers = Path(sysconfig.get_path("include"), "Python.h")
    return os.environ.get(SWITCH) != "0" and shutil.which(compiler) is not None and headers.exists()


def compile_engine(modules: list[str], folder: Path) -> list[Path]:
    """Compile into a folder and return the files, relative to it; none, and a word on stderr, when it cannot be done."""
    script = _SETUP.format(modules=modules)
    command = [sys.executable, "-c", script, "build_ext", "--build-lib", str(folder), "--build-temp", f"{folder}/temporary"]
    environment = {**os.environ, "MYPY_CACHE_DIR": f"{folder}/cache"}
    with tempfile.TemporaryDirectory() as work:
        for package in {Path(module).parts[0] for module in modules} | {"schemas"}:
            shutil.copytree(ROOT / package, Path(work, package), ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        names = [module.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for module in modules]
        Path(work, "types.ini").write_text(_TYPES + "".join(_OF_COMPILED.format(name=name) for name in names))
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)  # noqa: S603  (our own script)
    if done.returncode:
        complain(f"the engine is not compiled and runs as Python:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return []
    return [path.relative_to(folder) for path in sorted(folder.rglob("*.so")) if "temporary" not in path.parts]


def complain(text: str) -> None:
    """Say something to whoever builds."""
    sys.stderr.write(f"loopwarden: {text}\n")


def put_beside_sources(built: list[Path], folder: Path) -> None:
    """Replace what was compiled into this folder before."""
    remove_compiled()
    for path in built:
        shutil.copy2(folder / path, ROOT / path)


def remove_compiled() -> None:
    """Take away what was compiled into this folder."""
    for path in [*ROOT.glob("loopwarden__mypyc.*"), *ROOT.glob("streams/**/*.so"), *ROOT.glob("schemas/**/*.so")]:
        path.unlink()


def main() -> int:
    """Compile into this folder, or with `--pure` remove what is there."""
    if "--pure" in sys.argv[1:]:
        remove_compiled()
        return 0
    if not can_compile() or importlib.util.find_spec("mypyc") is None:
        complain("no C compiler, no Python headers or no mypy here: the engine runs as Python")
        return 0
    hook = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["hooks"]["custom"]
    with tempfile.TemporaryDirectory() as folder:
        built = compile_engine(hook["modules"], Path(folder))
        put_beside_sources(built, Path(folder))
    return 0 if built else 1


if __name__ == "__main__":
    sys.exit(main())
