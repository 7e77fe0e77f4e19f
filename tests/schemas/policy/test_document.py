"""Policy documents: what is kept, their version, the overlay, and the laws of both."""

import json
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.policy import PolicyDocument, PolicyError, parse_policy
from schemas.policy.document import normalise_agent_id
from schemas.policy.effective import MAX_HISTORY_SIZE
from schemas.policy.model import DETECTOR_NAMES, LoopDetection, Loopwarden

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.just({}),
    st.just({"windowSize": 2, "pingPong": False}),
)
COUNT = st.integers(min_value=1, max_value=60)


def blocks(counts: st.SearchStrategy[Any], flags: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    nested = {
        "detectors": st.fixed_dictionaries(
            {}, optional=dict.fromkeys(("genericRepeat", "knownPollNoProgress", "pingPong"), flags)
        ),
        "postCompactionGuard": st.fixed_dictionaries({}, optional={"windowSize": counts}),
    }
    numbers = {key: counts for key in LoopDetection.key_names() if key.endswith(("Threshold", "Size"))}
    return st.fixed_dictionaries({}, optional={"enabled": flags, **numbers, **nested})


VALID_BLOCKS = blocks(COUNT | st.none(), st.booleans() | st.none())
ODD_BLOCKS = blocks(COUNT | ODD, st.booleans() | ODD) | ODD
OURS = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["enforce", "shadow", None]),
        "shadow": st.lists(st.sampled_from(DETECTOR_NAMES), max_size=2),
    },
)
AGENT_IDS = st.sampled_from(["main", "helper", " Main ", "night owl", "night-owl", "ä"])


def documents(tools: st.SearchStrategy[Any], ours: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    settings_of = {"tools": st.fixed_dictionaries({}, optional={"loopDetection": tools}), "loopwarden": ours}
    entry = st.fixed_dictionaries({"id": AGENT_IDS}, optional=settings_of)
    agents = st.fixed_dictionaries({}, optional={"list": st.lists(entry, max_size=3)})
    return st.fixed_dictionaries({}, optional={**settings_of, "agents": agents})


VALID_DOCUMENTS = documents(VALID_BLOCKS, OURS)
ODD_DOCUMENTS = documents(ODD_BLOCKS, OURS | ODD)
JSON_OBJECTS = st.dictionaries(
    st.sampled_from(["tools", "agents", "loopwarden", "list", "loopDetection", "id", "mode", "shadow"]),
    st.recursive(
        ODD,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["list", "loopDetection", "id", "tools", "shadow", "detectors"]), inner, max_size=4)
        ),
        max_leaves=12,
    ),
    max_size=4,
)


def one_agent(
    block: dict[str, Any], *, below: dict[str, Any] | None = None, ours: dict[str, Any] | None = None
) -> PolicyDocument:
    entry = {"id": "main", "tools": {"loopDetection": block}, "loopwarden": ours or {}}
    return PolicyDocument.from_mapping({"tools": {"loopDetection": below or {}}, "agents": {"list": [entry]}})


@given(JSON_OBJECTS | ODD_DOCUMENTS)
def test_any_json_object_is_a_policy_whose_thresholds_rise(document: dict[str, Any]) -> None:
    policy = PolicyDocument.from_mapping(document)
    for agent_id in ("main", "", None):
        effective = policy.for_agent(agent_id)
        assert 1 <= effective.warning_threshold < effective.critical_threshold < effective.global_circuit_breaker_threshold
        assert min(effective.history_size, effective.unknown_tool_threshold, effective.guard_window) >= 1
        assert type(effective.history_size) is int
        assert effective.enabled in (True, False, None)
        assert effective.version == policy.version


@given(JSON_OBJECTS | ODD_DOCUMENTS)
def test_what_is_kept_of_a_document_is_kept_of_itself(document: dict[str, Any]) -> None:
    policy = PolicyDocument.from_mapping(document)
    again = PolicyDocument.from_mapping(orjson.loads(orjson.dumps(policy.to_mapping())))
    assert again == policy
    assert again.version == policy.version
    assert again.to_mapping() == policy.to_mapping()
    for agent_id in ("main", "helper", "night-owl", None):
        assert again.for_agent(agent_id) == policy.for_agent(agent_id)


@given(ODD_DOCUMENTS, ODD_DOCUMENTS)
def test_settings_written_out_as_a_block_resolve_to_themselves(document: dict[str, Any], other: dict[str, Any]) -> None:
    """On its own, and as an agent's block over whatever else is set."""
    effective = PolicyDocument.from_mapping(document).for_agent("main")
    block = {"tools": {"loopDetection": effective.as_loop_detection()}}
    alone = PolicyDocument.from_mapping(block).for_agent(None)
    assert alone.as_loop_detection() == effective.as_loop_detection()
    entry = {"id": "copy", **block, "loopwarden": {"mode": effective.mode, "shadow": sorted(effective.shadow_detectors)}}
    overlaid = PolicyDocument.from_mapping({**other, "agents": {"list": [entry]}}).for_agent("copy")
    assert replace(overlaid, version=effective.version) == effective


@given(VALID_BLOCKS, VALID_BLOCKS)
def test_each_field_comes_from_the_agents_block_if_it_is_there_else_from_the_global_one(
    below: dict[str, Any], above: dict[str, Any]
) -> None:
    def flat(block: dict[str, Any]) -> dict[tuple[str, ...], Any]:
        nested = {
            (key, inner): value for key in ("detectors", "postCompactionGuard") for inner, value in block.get(key, {}).items()
        }
        return nested | {(key,): value for key, value in block.items() if not isinstance(value, dict)}

    merged: dict[str, Any] = {}
    for path, value in (flat(below) | flat(above)).items():
        inner = merged if len(path) == 1 else merged.setdefault(path[0], {})
        inner[path[-1]] = value
    expected = PolicyDocument.from_mapping({"tools": {"loopDetection": merged}}).for_agent(None)
    effective = one_agent(above, below=below).for_agent("main")
    assert replace(effective, version=expected.version) == expected


@given(VALID_DOCUMENTS)
def test_a_file_that_is_accepted_means_what_the_detection_makes_of_it(document: dict[str, Any]) -> None:
    lenient = PolicyDocument.from_mapping(document)
    try:
        strict, faults = parse_policy(json.dumps(document), name="policy.json5"), []
    except PolicyError as error:
        strict, faults = lenient, error.problems
    assert strict == lenient
    assert all("is not above" in fault.message for fault in faults)


@given(st.text())
def test_normalising_an_agent_id_twice_changes_nothing(agent_id: str) -> None:
    once = normalise_agent_id(agent_id)
    assert normalise_agent_id(once) == once
    assert set(once) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")


def test_white_space_of_an_agent_id_is_javascripts() -> None:
    assert normalise_agent_id("\ufeff\u00a0main\u2028") == "main"
    assert normalise_agent_id("\x1cmain") == "-main"


def test_versions_differ_with_the_settings_and_not_with_what_has_no_effect() -> None:
    def version(document: dict[str, Any]) -> str:
        return PolicyDocument.from_mapping(document).version

    empty = version({})
    assert len(empty) == 16
    assert int(empty, 16) >= 0
    same: list[dict[str, Any]] = [
        {"tools": {"loopDetection": {}}},
        {"agents": {"list": [{"id": "a"}]}},
        {"models": 1},
        {"tools": None},
    ]
    assert {version(document) for document in same} == {empty}
    on = version({"tools": {"loopDetection": {"enabled": True, "historySize": 5}}})
    assert on != empty
    assert version({"tools": {"loopDetection": {"historySize": 5.0, "enabled": True, "warningThreshold": None}}}) == on
    assert version({"tools": {"loopDetection": {"historySize": 6, "enabled": True}}}) != on
    assert version({"loopwarden": {"mode": "shadow"}}) != empty


def test_the_version_of_the_empty_policy_is_the_same_in_every_release() -> None:
    """Run states and decisions name it, so it must not change."""
    assert PolicyDocument.from_mapping({}).version == "dc7048f8f8747f56"


def test_only_our_blocks_are_kept() -> None:
    document = {
        "models": {"key": "secret"},
        "tools": {"profile": "coding", "loopDetection": {"enabled": True}},
        "agents": {
            "defaults": {},
            "list": [{"id": "Night Owl", "name": "x", "tools": {"deny": [], "loopDetection": {"enabled": False}}}],
        },
        "loopwarden": {"mode": "shadow"},
    }
    assert PolicyDocument.from_mapping(document).to_mapping() == {
        "tools": {"loopDetection": {"enabled": True}},
        "agents": {"list": [{"id": "night-owl", "tools": {"loopDetection": {"enabled": False}}}]},
        "loopwarden": {"mode": "shadow"},
    }


def test_changing_the_mapping_does_not_change_the_document() -> None:
    policy = PolicyDocument.from_mapping({"tools": {"loopDetection": {"enabled": True}}})
    policy.to_mapping()["tools"]["loopDetection"]["enabled"] = False
    assert policy.for_agent(None).enabled is True
    assert policy.to_mapping() == {"tools": {"loopDetection": {"enabled": True}}}


def test_an_entry_without_settings_hides_a_later_one_of_the_same_agent() -> None:
    entries = [{"id": "main"}, {"id": "MAIN", "tools": {"loopDetection": {"enabled": True}}}]
    assert PolicyDocument.from_mapping({"agents": {"list": entries}}).for_agent("main").enabled is None


def test_entries_that_are_none_do_not_disturb_the_others() -> None:
    entries: list[Any] = [None, 3, [], {"tools": {}}, {"id": 5}, {"id": "main", "tools": {"loopDetection": {"enabled": True}}}]
    assert PolicyDocument.from_mapping({"agents": {"list": entries}}).for_agent("main").enabled is True


def test_an_agent_without_id_gets_the_global_blocks() -> None:
    policy = one_agent({"enabled": True})
    assert policy.for_agent(None).enabled is None
    assert policy.for_agent("").enabled is None
    assert policy.for_agent("  ").enabled is None


@pytest.mark.parametrize("nested", ["detectors", "postCompactionGuard"])
def test_a_null_nested_block_of_an_agent_hides_nothing(nested: str) -> None:
    below = {"detectors": {"pingPong": False}, "postCompactionGuard": {"windowSize": 7}}
    effective = one_agent({nested: None}, below=below).for_agent("main")
    assert (effective.ping_pong, effective.guard_window) == (False, 7)


def test_a_null_inside_a_nested_block_of_an_agent_hides_the_global_value() -> None:
    below = {"detectors": {"pingPong": False}, "postCompactionGuard": {"windowSize": 7}}
    effective = one_agent({"detectors": {"pingPong": None}, "postCompactionGuard": {"windowSize": None}}, below=below).for_agent(
        "main"
    )
    assert (effective.ping_pong, effective.guard_window) == (True, 3)


def test_our_own_block_is_overlaid_field_by_field_too() -> None:
    document = {
        "loopwarden": {"mode": "shadow", "shadow": ["ping_pong"]},
        "agents": {"list": [{"id": "a", "loopwarden": {"mode": "enforce"}}, {"id": "b", "loopwarden": {"shadow": None}}]},
    }
    policy = PolicyDocument.from_mapping(document)
    assert (policy.for_agent("a").mode, policy.for_agent("a").shadow_detectors) == ("enforce", frozenset({"ping_pong"}))
    assert (policy.for_agent("b").mode, policy.for_agent("b").shadow_detectors) == ("shadow", frozenset())


def test_a_detector_or_mode_of_a_newer_release_is_passed_over() -> None:
    document = {"loopwarden": {"mode": "dream", "shadow": ["argument_churn", "ping_pong"], "profile": "strict"}}
    effective = PolicyDocument.from_mapping(document).for_agent(None)
    assert (effective.mode, effective.shadow_detectors) == ("enforce", frozenset({"ping_pong"}))


def test_a_number_beyond_all_bounds_is_kept_within_64_bits() -> None:
    effective = PolicyDocument.from_mapping(
        {"tools": {"loopDetection": {"criticalThreshold": 10**30, "historySize": 1e300}}}
    ).for_agent(None)
    assert effective.critical_threshold == 2**53 - 1
    assert effective.history_size == MAX_HISTORY_SIZE, "a state has to fit into one record"
    assert effective.global_circuit_breaker_threshold == 2**53


def test_documents_of_equal_content_are_equal() -> None:
    document = {"tools": {"loopDetection": {"enabled": True}}}
    assert PolicyDocument.from_mapping(document) == PolicyDocument.from_mapping({**document, "x": 1})
    assert PolicyDocument.from_mapping(document) != PolicyDocument.from_mapping({})
    assert len({PolicyDocument.from_mapping(document), PolicyDocument.from_mapping(document)}) == 1


def test_our_block_has_the_keys_that_its_documentation_names() -> None:
    assert Loopwarden.key_names() == ("mode", "shadow")
