"""The example receiver against the real worker."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from schemas.decisions import Decision
from tests.streams.enforcement.conftest import SECRET, Scene, until

EXAMPLE = Path(__file__).parents[3] / "examples" / "webhook_receiver.py"


async def test_the_example_prints_each_decision_once_and_refuses_what_is_not_signed(
    scene: Scene, decision_factory: Callable[..., Decision], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPWARDEN_WEBHOOK_SECRET", SECRET)
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        receiver = await asyncio.create_subprocess_exec(sys.executable, str(EXAMPLE), "--port", "0", stdout=stdout, stderr=stderr)
    try:
        await until(lambda: b"listening on" in err.read_bytes(), what="the example listening")
        url = err.read_text().split()[-1]
        made = [decision_factory(run="r") for _ in range(3)]
        await scene.publish(*made)
        scene.process("webhook", "--url", url)
        await until(lambda: out.read_bytes().count(b"\n") == 3)
        await scene.delivered(3)
        scene.group += "-again"  # another group sends all of it again
        scene.process("webhook", "--url", url)
        await scene.delivered(6)
        forged = {"webhook-id": made[0].decision_id, "webhook-timestamp": "1", "webhook-signature": "v1"}
        async with aiohttp.ClientSession() as session:
            for headers in ({}, forged):
                async with session.post(url, data=b"\xff", headers=headers) as answer:
                    assert answer.status == 401
    finally:
        receiver.kill()
        await receiver.wait()
    assert [json.loads(line)["run_id"] for line in out.read_text().splitlines()] == ["r"] * 3
