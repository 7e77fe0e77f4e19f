"""No release breaks what was written against the one before; and the checker sees a break when there is one."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import schemas
from schemas.contract import documents
from schemas.contract.compatibility import compare, compare_folders
from schemas.contract.messages import MESSAGES

COMMITTED = Path(schemas.__file__).parent / "jsonschema"
RELEASES = sorted(path for path in (Path(__file__).parent / "baseline").iterdir() if path.is_dir())
BY_NAME = {message.name: message for message in MESSAGES}

Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_nothing_in_the_contract_breaks_a_program_of_an_earlier_release(release: Path) -> None:
    assert [str(found) for found in compare_folders(release, COMMITTED, views=documents.VIEWS)] == []


def found(name: str, change: Change) -> list[str]:
    """Return the breaks after a change to the schema of a message's data."""
    message = BY_NAME[name]
    old = message.schema
    new = copy.deepcopy(old)
    change(new["$defs"][message.model.__name__])
    return [str(found) for found in compare(old, new, view=message.view, place=name)]


def member(name: str, **changes: Any) -> Change:
    """Change keywords of a member; None removes a keyword."""

    def change(data: dict[str, Any]) -> None:
        for keyword, value in changes.items():
            data["properties"][name][keyword] = value
            if value is None:
                del data["properties"][name][keyword]

    return change


NEW_MEMBER: Change = lambda data: data["properties"].update(lost_calls={"type": "integer"})  # noqa: E731 - one of a table of changes
BREAKS_OF_EVENTS: list[tuple[str, Change, str]] = [
    ("tool-call.finished", lambda data: data["properties"].pop("is_error"), "data.is_error: removed"),
    ("tool-call.finished", lambda data: data["required"].append("call_id"), "data.call_id: required from now on"),
    ("tool-call.started", member("tool", maxLength=100), "data.tool: no longer accepted: maxLength 256, against 100"),
    ("tool-call.started", member("tool", pattern="^[a-z]+$"), "data.tool: no longer accepted: pattern is another"),
    ("tool-call.started", member("agent_id", type="string"), "data.agent_id: no longer accepted: type null"),
    ("tool-call.started", member("params", type="object"), "data.params: no longer accepted: type array, boolean"),
    ("tool-call.blocked", member("reason", enum=["loop", "policy"]), 'data.reason: no longer accepted: "approval", "other"'),
    ("compaction.completed", member("tokens_before", minimum=1), "data.tokens_before: no longer accepted: minimum 0, against 1"),
    ("tool-call.started", lambda data: data.update(additionalProperties=False), "data: no longer accepted: members that are not"),
    ("tool-call.started", member("round", anyOf=[{"type": "string"}]), 'data.round: no longer accepted: {"type": "integer"}'),
    ("tool-call.started", lambda data: data["anyOf"].pop(0), 'data: no longer accepted: {"required": ["params"]}'),
    ("run.ended", lambda data: data.update({"not": {"required": ["status"]}}), "data: no longer accepted: not is another"),
]
BREAKS_OF_DECISIONS: list[tuple[str, Change, str]] = [
    ("decision", lambda data: data["properties"].pop("paired_tool"), "data.paired_tool: removed"),
    ("decision", lambda data: data["required"].remove("message"), "data.message: not always there now"),
    ("decision", member("action", enum=["block", "warn", "release", "abort", "pause"]), 'was not written before: "pause"'),
    ("decision", member("count", minimum=None), "data.count: was not written before: minimum none, against 0"),
    ("decision", member("count", type="number"), "data.count: was not written before: type number"),
    ("decision", member("agent_id", type=["string", "null"]), "data.agent_id: was not written before: type null"),
    ("decision", member("run_id", maxLength=4096), "data.run_id: was not written before: maxLength 4096, against 1024"),
    ("policy.applied", lambda data: data["required"].remove("policy"), "data.policy: not always there now"),
]
COMPATIBLE: list[tuple[str, Change]] = [
    ("tool-call.started", NEW_MEMBER),
    ("decision", NEW_MEMBER),
    ("tool-call.started", member("tool", maxLength=1000)),
    ("tool-call.blocked", member("reason", enum=["loop", "policy", "approval", "other", "quota"])),
    ("tool-call.started", lambda data: data["required"].remove("tool")),
    ("tool-call.started", lambda data: data.pop("anyOf")),
    ("tool-call.started", member("args_hash", pattern=None)),
    ("decision", member("run_id", maxLength=100)),
    ("decision", member("action", enum=["block", "warn"])),
    ("decision", lambda data: data["required"].append("decided_at")),
    ("decision", member("message", description="Said otherwise.")),
]


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [*BREAKS_OF_EVENTS, *BREAKS_OF_DECISIONS],
    ids=lambda value: value[:60] if isinstance(value, str) else None,
)
def test_a_break_is_found_and_named(name: str, change: Change, said: str) -> None:
    breaks = found(name, change)
    assert any(said in line for line in breaks), breaks


@pytest.mark.parametrize(("name", "change"), COMPATIBLE, ids=lambda value: value[:60] if isinstance(value, str) else None)
def test_a_compatible_change_is_none(name: str, change: Change) -> None:
    assert found(name, change) == []


def test_a_new_optional_member_of_a_block_that_refuses_unknown_ones_is_compatible() -> None:
    old = documents.policy_file_schema()
    new = copy.deepcopy(old)
    new["$defs"]["Detectors"]["properties"]["longCycle"] = {"type": ["boolean", "null"]}
    assert compare(old, new, view="read") == []
    back = [str(found) for found in compare(new, old, view="read", place="policy")]
    assert "policy.tools.loopDetection.detectors.longCycle: removed" in back
    assert "policy.agents.list[].tools.loopDetection.detectors.longCycle: removed" in back


def test_a_break_deep_in_what_others_share_is_found_at_each_place() -> None:
    old = BY_NAME["decision"].schema
    new = copy.deepcopy(old)
    new["$defs"]["Target"]["properties"]["scope"]["enum"].append("session")
    assert [str(found) for found in compare(old, new, view="written", place="d")] == [
        'd.data.target.scope: was not written before: "session"'
    ]


def test_another_version_in_the_type_is_another_message(tmp_path: Path) -> None:
    """Whoever reads only the old type gets nothing: the old schema has to stay beside the new one."""
    old, new = tmp_path / "old", tmp_path / "new"
    documents.write(old)
    documents.write(new)
    (new / "jsonschema/decision.v1.json").rename(new / "jsonschema/decision.v2.json")
    breaks = compare_folders(old / "jsonschema", new / "jsonschema", views=documents.VIEWS)
    assert [str(found) for found in breaks] == ["decision.v1.json: removed"]
