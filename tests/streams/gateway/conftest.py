"""Topics and workers for the tests of the gateway client, each test with names of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.streams.gateway.lab import Lab, lab_settings


@pytest.fixture
def lab(broker_traits: Any, unique_name: Callable[[str], str], tmp_path: Path) -> Iterator[Lab]:
    """Names, settings and workers of this test; the topics are made by `create`."""
    made = Lab(lab_settings(broker_traits, unique_name("gateway"), tmp_path), tmp_path)
    yield made
    made.stop_workers()


@pytest.fixture
async def created(lab: Lab) -> Lab:
    """The lab with its topics."""
    await lab.create()
    return lab
