"""The policies of the conformance vectors, and what the recorded behaviour says they resolve to."""

from dataclasses import replace
from typing import Any

import pytest

from schemas.policy import EffectivePolicy, PolicyDocument

DEFAULTS = EffectivePolicy()
ON = EffectivePolicy(enabled=True)
#: The global block below most agents' blocks, and what it means.
BASE = {"enabled": True, "warningThreshold": 4, "criticalThreshold": 8, "historySize": 20}
ON_BASE = EffectivePolicy(enabled=True, warning_threshold=4, critical_threshold=8, history_size=20)


def block(**settings: Any) -> dict[str, Any]:
    return {"tools": {"loopDetection": settings}}


def with_agents(document: dict[str, Any], *entries: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {**document, "agents": {"list": [{"id": name, **block(**settings)} for name, settings in entries]}}


def on(**settings: Any) -> dict[str, Any]:
    return block(enabled=True, **settings)


CASES: list[tuple[str, dict[str, Any], EffectivePolicy]] = [
    ("off-by-default", {}, DEFAULTS),
    (
        "off-without-flag",
        block(warningThreshold=2, criticalThreshold=4, unknownToolThreshold=2),
        replace(DEFAULTS, warning_threshold=2, critical_threshold=4, unknown_tool_threshold=2),
    ),
    ("off-empty-block", block(), DEFAULTS),
    ("off-tools-without-block", {"tools": {}}, DEFAULTS),
    ("on-with-flag", on(warningThreshold=2, criticalThreshold=4), replace(ON, warning_threshold=2, critical_threshold=4)),
    (
        "guard-off-flag-false",
        block(enabled=False, postCompactionGuard={"windowSize": 1}),
        EffectivePolicy(enabled=False, guard_window=1),
    ),
    (
        "null-flag-is-unset",
        block(enabled=None, warningThreshold=2, criticalThreshold=3),
        replace(DEFAULTS, warning_threshold=2, critical_threshold=3),
    ),
    ("clamp-critical-only", on(criticalThreshold=5), replace(ON, critical_threshold=11)),
    ("clamp-critical-equal", on(warningThreshold=4, criticalThreshold=4), replace(ON, warning_threshold=4, critical_threshold=5)),
    (
        "clamp-warning-only",
        on(warningThreshold=23),
        replace(ON, warning_threshold=23, critical_threshold=24, global_circuit_breaker_threshold=30),
    ),
    (
        "clamp-breaker-only",
        on(globalCircuitBreakerThreshold=4, detectors={"genericRepeat": False}),
        replace(ON, global_circuit_breaker_threshold=21, generic_repeat=False),
    ),
    (
        "clamp-breaker-equal",
        on(warningThreshold=2, criticalThreshold=6, globalCircuitBreakerThreshold=6, detectors={"genericRepeat": False}),
        replace(ON, warning_threshold=2, critical_threshold=6, global_circuit_breaker_threshold=7, generic_repeat=False),
    ),
    (
        "clamp-everything",
        on(warningThreshold=1, criticalThreshold=1, globalCircuitBreakerThreshold=1, detectors={"genericRepeat": False}),
        replace(ON, warning_threshold=1, critical_threshold=2, global_circuit_breaker_threshold=3, generic_repeat=False),
    ),
    ("odd-warning-zero", on(warningThreshold=0), ON),
    ("odd-warning-negative", on(warningThreshold=-3), ON),
    ("odd-warning-fraction", on(warningThreshold=2.5), ON),
    ("odd-warning-string", on(warningThreshold="3"), ON),
    ("odd-warning-null", on(warningThreshold=None), ON),
    ("odd-warning-true", on(warningThreshold=True), ON),
    (
        "odd-warning-float",
        on(warningThreshold=3.0, criticalThreshold=5.0),
        replace(ON, warning_threshold=3, critical_threshold=5),
    ),
    ("odd-critical-list", on(criticalThreshold=[4]), ON),
    (
        "odd-history-zero",
        on(historySize=0, warningThreshold=3, criticalThreshold=6),
        replace(ON, warning_threshold=3, critical_threshold=6),
    ),
    ("odd-history-negative", on(historySize=-1, detectors={"genericRepeat": False}), replace(ON, generic_repeat=False)),
    ("odd-unknown-zero", on(unknownToolThreshold=0), ON),
    ("odd-window-zero", block(postCompactionGuard={"windowSize": 0}), DEFAULTS),
    ("odd-window-fraction", block(postCompactionGuard={"windowSize": 1.5}), DEFAULTS),
    ("odd-window-string", block(postCompactionGuard={"windowSize": "1"}), DEFAULTS),
    ("odd-window-null", block(postCompactionGuard={"windowSize": None}), DEFAULTS),
    (
        "odd-nulls",
        on(detectors=None, postCompactionGuard=None, warningThreshold=2, criticalThreshold=4),
        replace(ON, warning_threshold=2, critical_threshold=4),
    ),
    (
        "odd-unknown-key",
        on(loudness=11, warningThreshold=2, criticalThreshold=4),
        replace(ON, warning_threshold=2, critical_threshold=4),
    ),
    (
        "agent-warning",
        with_agents(on(warningThreshold=12, criticalThreshold=18), ("main", {"warningThreshold": 10})),
        replace(ON, warning_threshold=10, critical_threshold=18),
    ),
    ("agent-critical", with_agents(block(**BASE), ("main", {"criticalThreshold": 6})), replace(ON_BASE, critical_threshold=6)),
    ("agent-history", with_agents(block(**BASE), ("main", {"historySize": 5})), replace(ON_BASE, history_size=5)),
    ("agent-off", with_agents(block(**BASE), ("main", {"enabled": False})), replace(ON_BASE, enabled=False)),
    (
        "agent-on-over-off",
        with_agents(block(enabled=False, warningThreshold=2, criticalThreshold=4), ("main", {"enabled": True})),
        replace(ON, warning_threshold=2, critical_threshold=4),
    ),
    (
        "agent-detector",
        with_agents(on(detectors={"pingPong": False}), ("main", {"detectors": {"genericRepeat": False}})),
        replace(ON, generic_repeat=False, ping_pong=False),
    ),
    (
        "agent-window",
        with_agents(on(postCompactionGuard={"windowSize": 2}), ("main", {"postCompactionGuard": {"windowSize": 4}})),
        replace(ON, guard_window=4),
    ),
    ("agent-empty", with_agents(block(**BASE), ("main", {})), ON_BASE),
    ("agent-other", with_agents(block(**BASE), ("helper", {"enabled": False})), ON_BASE),
    (
        "agent-alone",
        with_agents({}, ("main", {"enabled": True, "warningThreshold": 2, "criticalThreshold": 4})),
        replace(ON, warning_threshold=2, critical_threshold=4),
    ),
    (
        "agent-null-field",
        with_agents(block(**BASE), ("main", {"warningThreshold": None, "criticalThreshold": None})),
        replace(ON, history_size=20),
    ),
    (
        "agent-first-wins",
        with_agents(block(**BASE), ("main", {"criticalThreshold": 5}), ("main", {"criticalThreshold": 7})),
        replace(ON_BASE, critical_threshold=5),
    ),
]


@pytest.mark.parametrize(("policy", "expected"), [pytest.param(policy, expected, id=name) for name, policy, expected in CASES])
def test_a_vector_policy_resolves_as_recorded(policy: dict[str, Any], expected: EffectivePolicy) -> None:
    document = PolicyDocument.from_mapping(policy)
    assert document.for_agent("main") == replace(expected, version=document.version)


@pytest.mark.parametrize("written", ["  Night-Owl ", "night owl", "NIGHT  \t owl", "night/owl"])
def test_agent_ids_match_in_their_compared_form(written: str) -> None:
    document = PolicyDocument.from_mapping(with_agents(block(**BASE), (written, {"criticalThreshold": 5})))
    assert document.for_agent("night-owl").critical_threshold == 5
    assert document.for_agent("Night Owl").critical_threshold == 5
    assert document.for_agent("nightowl").critical_threshold == 8
