"""The figures in the guide for gateways in other languages are right."""

import json
import re
from pathlib import Path

import pytest
from aiokafka.partitioner import murmur2

from schemas.contract.messages import MESSAGES
from schemas.topics import partition_of

GUIDE = (Path(__file__).parents[3] / "docs/gateway-in-another-language.md").read_text("utf-8")


@pytest.mark.parametrize("row", re.findall(r"^\| `(.+)` \| (\d+) \| (\d+) \| (\d+) \|$", GUIDE, re.MULTILINE))
def test_the_partitions_in_the_table_are_right(row: tuple[str, str, str, str]) -> None:
    key, hashed, of_twelve, of_three = row
    assert murmur2(key.encode()) & 0xFFFFFFFF == int(hashed)
    assert (partition_of(key, 12), partition_of(key, 3)) == (int(of_twelve), int(of_three))


def test_the_table_has_keys_whose_hash_is_negative_for_java() -> None:
    hashes = [int(row[1]) for row in re.findall(r"^\| `(.+)` \| (\d+) \| (\d+) \| (\d+) \|$", GUIDE, re.MULTILINE)]
    assert len(hashes) >= 5
    assert sum(number >= 2**31 for number in hashes) >= 2


def test_the_event_in_the_guide_is_the_example_of_the_contract() -> None:
    (shown,) = re.findall(r"```json\n(.+?)```", GUIDE, re.DOTALL)
    (started,) = (message for message in MESSAGES if message.name == "tool-call.started")
    assert json.loads(shown) == started.examples["hashed"]
