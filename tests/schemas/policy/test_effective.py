"""Effective policies: what follows from their values."""

import pytest

from schemas.policy import EffectivePolicy


@pytest.mark.parametrize(
    ("enabled", "detectors_on", "records_calls", "guard_on"),
    [(True, True, True, True), (None, False, True, True), (False, False, False, False)],
)
def test_only_true_switches_detectors_on_and_only_false_switches_the_rest_off(
    enabled: bool | None, detectors_on: bool, records_calls: bool, guard_on: bool
) -> None:
    policy = EffectivePolicy(enabled=enabled)
    assert (policy.detectors_on, policy.records_calls, policy.guard_on) == (detectors_on, records_calls, guard_on)


def test_a_detector_is_in_shadow_when_it_or_everything_is() -> None:
    one = EffectivePolicy(shadow_detectors=frozenset({"ping_pong"}))
    assert one.mode_of("ping_pong") == "shadow"
    assert one.mode_of("generic_repeat") == "enforce"
    assert EffectivePolicy(mode="shadow").mode_of("generic_repeat") == "shadow"


def test_the_breaker_is_raised_above_a_raised_critical_threshold() -> None:
    policy = EffectivePolicy.resolve(loop_detection={"warningThreshold": 40}, loopwarden={})
    assert (policy.critical_threshold, policy.global_circuit_breaker_threshold) == (41, 42)


def test_an_unset_flag_is_written_as_null() -> None:
    assert EffectivePolicy().as_loop_detection()["enabled"] is None
