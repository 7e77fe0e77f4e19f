"""Node and the packages of the example gateway, installed once for each content of its package.json."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent

#: Set (to anything but 0) where a machine without Node or npm's registry is a failure, not a reason to skip.
REQUIRED = "LOOPWARDEN_REQUIRE_NODE"

Node = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest) -> Node:
    """Run a script of this folder: `node("vectors.mjs", "file", timeout=60, input="...")`; never raises for its exit code."""
    folder = _installed(request.config)

    def run(script: str, *arguments: str, timeout: float = 60, input: str | None = None) -> "subprocess.CompletedProcess[str]":  # noqa: A002 - subprocess's name for it
        command = ["node", script, *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout, input=input, check=False)

    return run


def _installed(config: pytest.Config) -> Path:
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            _give_up(f"there is no {program} here")
    manifest = (SOURCES / "package.json").read_bytes()
    folder = config.cache.mkdir(f"node-gateway-{hashlib.sha256(manifest).hexdigest()[:12]}")
    done = folder / "installed"
    if not done.exists():
        (folder / "package.json").write_bytes(manifest)
        # Without a lock the packages below these are the newest that fit; scripts of packages are not run.
        install = ["npm", "install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        result = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        if result.returncode:
            _give_up(f"npm cannot install the packages: {result.stderr.strip()[-300:]}")
        done.touch()
    for script in SOURCES.glob("*.mjs"):
        shutil.copy(script, folder)
    return folder


def _give_up(reason: str) -> None:
    if os.environ.get(REQUIRED, "0") != "0":
        pytest.fail(f"{REQUIRED} is set, but {reason}", pytrace=False)
    pytest.skip(reason)
