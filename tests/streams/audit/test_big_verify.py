"""The big verification in a small size; see `big_verify` for the long one."""

import asyncio
from pathlib import Path

import pytest

from schemas.settings import Settings
from tests.streams.audit import big_verify
from tests.streams.processor.conftest import Lab, lab

__all__ = ["lab"]

pytestmark = pytest.mark.broker


async def test_kills_duplicates_and_a_change_of_policy_leave_no_difference(lab: Lab, tmp_path: Path) -> None:

    settings: Settings = lab.settings
    assert await big_verify.make(settings, 12_000, kills=2, folder=tmp_path) == 2
    tally, findings = await asyncio.to_thread(big_verify.verify, settings)
    assert findings == []
    assert tally.events == 12_000
    assert tally.equal == len({decision.decision_id for decision in await lab.decisions()}) > 500
    assert set(tally.not_reproducible) <= {"overtaken"}
