"""What a gate answers from the decisions read so far."""

from schemas.decisions import AsOf, Decision, Origin, Target
from streams.gateway.verdict_map import VerdictMap

HASH = "0" * 32


def decision(action: str, target: Target, sequence: int = 1) -> Decision:
    return Decision(
        decision_id=f"{sequence:032x}",
        run_id="r",
        action=action,
        level="critical",
        detector="d",
        target=target,
        count=3,
        message="m",
        warning_key="k",
        policy_version="p",
        engine_version="1",
        since=Origin(topic="t", partition=0, offset=0),
        as_of=AsOf(topic="t", partition=0, offset=0, sequence=sequence, time=0),
    )


CALL, TOOL, RUN = Target(scope="call", tool="read", args_hash=HASH), Target(scope="tool", tool="read"), Target(scope="run")


def test_the_widest_verdict_answers():
    gate = VerdictMap()
    for target in (CALL, TOOL, RUN):
        gate.fold(decision("block", target))
        found = gate.lookup("r", "read", HASH)
        assert found is not None
        assert found.target == (target.tool, target.args_hash)
    assert gate.lookup("other", "read", HASH) is None


def test_a_release_takes_the_verdict_away():
    gate = VerdictMap()
    gate.fold(decision("block", CALL))
    gate.fold(decision("release", CALL, 2))
    assert gate.lookup("r", "read", HASH) is None


def test_a_warning_is_given_once():
    gate = VerdictMap()
    warning = decision("warn", CALL)
    gate.fold(warning)
    standing = gate.lookup("r", "read", HASH)
    assert standing is not None
    gate.take_warning("r", standing)
    assert gate.lookup("r", "read", HASH) is None
    gate.take_warning("r", standing)
