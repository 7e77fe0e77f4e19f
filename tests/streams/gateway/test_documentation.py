"""The code of docs/gateways.md is code that works."""

import asyncio
import re
import textwrap
from pathlib import Path
from typing import Any

from schemas.settings import Settings
from streams.gateway import EventPublisher, VerdictGate, guard
from tests.streams.gateway.lab import unsent

PAGE = Path(__file__).parents[3] / "docs" / "gateways.md"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_every_block_runs(monkeypatch: Any) -> None:
    monkeypatch.setenv("LOOPWARDEN_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    agent, with_block, by_hand = blocks()
    space: dict[str, Any] = {}
    quick = agent.replace("timeout=5", "timeout=0.1").replace(
        "VerdictGate() as gate", "VerdictGate() as gate, closing(publisher)"
    )
    exec("from contextlib import asynccontextmanager\n" + CLOSING + quick, space)
    asyncio.run(space["main"]())
    publisher, gate = EventPublisher(Settings()), VerdictGate(Settings())
    given = {
        "guard": guard,
        "gate": gate,
        "publisher": publisher,
        "read": lambda path: path,
        "path": "a.txt",
        "call_id": "c",
        "run_id": "r",
        "tool": "read",
        "params": {},
        "call_the_tool": lambda: "text",
    }
    for block in (with_block, by_hand):
        exec(textwrap.dedent(block), dict(given))
    names = [event.event_name.split(".")[-1] for event in unsent(publisher)]
    assert names == ["started", "finished", "started", "finished", "completed", "ended"]


#: No broker is there: what the example has reported is not waited for.
CLOSING = """
@asynccontextmanager
async def closing(publisher):
    yield
    assert publisher.pending == 3
    await publisher.aclose(timeout=0)
"""
