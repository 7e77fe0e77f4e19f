"""Recomputed decisions against published ones, without a broker."""

from collections.abc import Callable, Iterable
from typing import Any

import orjson
import pytest

from schemas.decisions import AsOf, Decision, Origin, Target
from streams.audit import InputRecord, Recomputed
from streams.audit.comparison import Comparison
from streams.audit.findings import Finding, Tally
from streams.audit.payloads import differences, payload_of
from streams.audit.published import PublishedDecisions, envelope_checked
from streams.audit.replayer import Cause
from streams.detection.engine import ENGINE_VERSION

END = 1000
Compare = Callable[..., tuple[Tally, list[Finding]]]


def decision(number: int, **changes: Any) -> Decision:
    given: dict[str, Any] = {
        "decision_id": f"{number:032x}",
        "run_id": "r",
        "action": "block",
        "level": "critical",
        "detector": "generic_repeat",
        "target": Target(scope="tool", tool="exec"),
        "count": 20,
        "message": "exec was called 20 times.",
        "warning_key": "key",
        "policy_version": "p",
        "engine_version": ENGINE_VERSION,
        "since": Origin(topic="t", partition=0, offset=100),
        "as_of": AsOf(topic="t", partition=0, offset=100 + number, time=1_800_000_000_000),
    }
    return Decision(**given | changes)


def of_run(number: int, action: str, **changes: Any) -> Decision:
    more = {"reason": "changed"} if action == "release" else {}
    return decision(
        number, action=action, target=Target(scope="run"), detector="compaction_loop_persisted", count=3, **more, **changes
    )


@pytest.fixture
def compare() -> Compare:
    """Compare recomputed and published decisions of a range that ends at 1,000, all settled unless said otherwise."""

    def work(
        recomputed: Iterable[Recomputed | Decision], published: Iterable[Decision], *, settled: tuple[int, int] = (END, END)
    ) -> tuple[Tally, list[Finding]]:
        records = [InputRecord("d", 0, n, n, one.run_id.encode(), one.to_record(source="s")) for n, one in enumerate(published)]
        there = PublishedDecisions(start=50, end=END, log_start=20, before="p")
        for record in records:
            there.take(record)

        def payload(offset: int) -> dict[str, Any]:
            body = orjson.loads(records[offset].value or b"")
            return envelope_checked(body["data"], event_id=body["id"], key=records[offset].key)

        comparison = Comparison(there, settled=settled, read_payload=payload, place_of=lambda offset: f"d[0]@{offset}")
        findings: list[Finding] = []
        for one in recomputed:
            due = one if isinstance(one, Recomputed) else Recomputed(one, "due", Cause(False, one.as_of.offset))
            findings += comparison.take(due)
        findings += comparison.finish()
        findings += comparison.give_up()
        there.close()
        return comparison.tally, findings

    return work


def kinds(findings: list[Finding]) -> list[str]:
    return [finding.kind for finding in findings]


def test_equal_missing_extra_and_different_are_told_apart(compare: Compare) -> None:
    tally, findings = compare([decision(1), decision(2), decision(3)], [decision(1), decision(3, count=4), decision(4)])
    assert (tally.equal, tally.missing, tally.different, tally.extra, tally.differences) == (1, 1, 1, 1, 3)
    assert [(one.kind, one.decision_id) for one in findings] == [
        ("missing", f"{2:032x}"),
        ("different", f"{3:032x}"),
        ("extra", f"{4:032x}"),
    ]
    assert findings[1].fields == ((("count", 4, 20)),)
    assert (findings[1].record, findings[2].record) == ("d[0]@1", "d[0]@2")


def test_the_time_of_the_decision_is_not_compared(compare: Compare) -> None:
    tally, findings = compare([decision(1)], [decision(1, decided_at=5), decision(1, decided_at=9)])
    assert (tally.equal, tally.copies, findings) == (1, 1, [])


def test_what_began_before_the_range_or_has_expired_is_set_aside(compare: Compare) -> None:
    before, expired = (decision(n, since=Origin(topic="t", partition=0, offset=at)) for n, at in ((1, 30), (2, 10)))
    tally, findings = compare([], [before, expired])
    assert (dict(tally.not_reproducible), findings) == ({"beginning": 1, "expired": 1}, [])
    assert tally.examples == {"beginning": "d[0]@0", "expired": "d[0]@1"}


def test_a_doubtful_beginning_is_believed_when_a_decision_tells_of_it(compare: Compare) -> None:
    doubtful = [Recomputed(decision(n), "due", Cause(False, 100 + n), "beginning") for n in (1, 2)]
    tally, findings = compare(doubtful, [])
    assert (tally.not_reproducible["beginning"], findings) == (2, [])
    tally, findings = compare(doubtful, [decision(1)])
    assert (tally.equal, kinds(findings)) == (1, ["missing"])


def test_what_may_be_published_later_is_not_missing(compare: Compare) -> None:
    tally, findings = compare([decision(1), decision(2)], [], settled=(102, 0))
    assert kinds(findings) == ["missing", "not_yet"]
    assert tally.differences == 1
    tally, findings = compare([Recomputed(decision(1), "maybe"), Recomputed(decision(2), "soon")], [decision(2)])
    assert (tally.equal, findings) == (1, [])


def test_an_abort_that_only_one_order_of_the_topics_brings_may_be_there_and_be_withdrawn(compare: Compare) -> None:
    abort, release = of_run(1, "abort"), of_run(2, "release")
    possible = Recomputed(abort, "maybe", Cause(False, 101))
    tally, findings = compare([possible], [abort, release])
    assert (tally.equal, tally.withdrawn, findings) == (1, 1, [])
    assert compare([possible], [])[1] == []
    assert kinds(compare([], [abort, release])[1]) == ["extra", "extra"]  # no order brings it
    assert kinds(compare([possible], [abort.model_copy(update={"count": 9}), release])[1]) == ["different"]
    assert kinds(compare([possible], [release, abort])[1]) == ["extra"]  # withdrawn before it was made
    assert kinds(compare([possible], [abort, release, of_run(3, "release")])[1]) == ["extra"]  # withdrawn twice


def test_an_abort_that_the_replay_makes_and_withdraws_need_not_be_there(compare: Compare) -> None:
    abort, release = of_run(1, "abort"), of_run(2, "release")
    withdrawn = [Recomputed(abort, "due", Cause(False, 101)), Recomputed(release, "due", Cause(True, 7), withdrawal=True)]
    tally, findings = compare(withdrawn, [])
    assert (tally.withdrawn, findings) == (1, [])
    tally, findings = compare(withdrawn, [abort, release])
    assert (tally.equal, tally.withdrawn, findings) == (2, 0, [])
    assert kinds(compare(withdrawn, [release])[1]) == ["missing"]
    assert kinds(compare(withdrawn, [abort])[1]) == ["missing"]


def test_an_abort_that_is_certain_must_be_there_and_be_released(compare: Compare) -> None:
    abort = Recomputed(of_run(1, "abort"), after=5)
    release = Recomputed(of_run(2, "release"), "due", Cause(False, 102), lost=0)
    assert compare([abort, release], [abort.decision, release.decision])[1] == []
    assert kinds(compare([abort, release], [abort.decision])[1]) == ["missing"]
    assert kinds(compare([abort, release], [release.decision])[1]) == ["missing"]
    assert kinds(compare([abort, release], [])[1]) == ["missing", "missing"]
    assert kinds(compare([abort, release], [abort.decision, release.decision, of_run(3, "release")])[1]) == ["extra"]


def test_a_missing_abort_is_a_difference_unless_its_compaction_may_have_come_too_late(compare: Compare) -> None:
    abort, release = of_run(1, "abort"), of_run(2, "release")
    assert kinds(compare([abort], [])[1]) == ["missing"]
    abort_due = Recomputed(abort, "due", Cause(False, 101), after=5)
    over = Recomputed(release, "due", Cause(False, 102), lost=6)
    tally, findings = compare([abort_due, over], [])
    assert (dict(tally.not_reproducible), findings) == ({"overtaken": 1}, [])
    assert kinds(compare([abort_due, over], [abort])[1]) == ["missing"]  # the release: the abort was made
    assert kinds(compare([abort_due, over], [release])[1]) == ["missing"]  # the abort: it was made, for it was released
    assert kinds(compare([abort_due, over._replace(lost=5)], [])[1]) == ["missing", "missing"]


def test_each_of_several_aborts_is_judged_by_its_own_compaction(compare: Compare) -> None:
    """The first one's compaction may have come too late, the second one's did not: it is published."""
    first, second = Recomputed(of_run(1, "abort"), after=5), Recomputed(of_run(2, "abort"), after=50)
    release = Recomputed(of_run(3, "release"), "maybe", lost=20)
    tally, findings = compare([first, second, release], [second.decision])
    assert (tally.equal, dict(tally.not_reproducible), findings) == (1, {"overtaken": 1}, [])
    tally, findings = compare([first, second, release], [first.decision])
    assert (tally.equal, kinds(findings)) == (1, ["missing"])


def test_a_key_or_an_event_id_that_does_not_fit_is_a_difference() -> None:
    there = PublishedDecisions(start=50, end=END, log_start=0, before="p")
    body = orjson.loads(decision(1).to_record(source="s")) | {"id": "another"}
    value = orjson.dumps(body)
    there.take(InputRecord("d", 0, 0, 0, b"not r", value))
    comparison = Comparison(
        there,
        settled=(END, END),
        read_payload=lambda offset: envelope_checked(body["data"], event_id="another", key=b"not r"),
        place_of=str,
    )
    (finding,) = comparison.take(Recomputed(decision(1)))
    assert [field.path for field in finding.fields] == ["(event id)", "(record key)"]


def test_fields_are_named_by_their_path() -> None:
    ours = payload_of(decision(1))
    theirs = {**ours, "as_of": {**ours["as_of"], "offset": 7}, "evidence": [{"sequence": 1}], "new": {}}
    assert [(one.path, one.published, one.recomputed) for one in differences(theirs, ours)] == [
        ("as_of.offset", 7, 101),
        ("evidence", None, []),
        ("evidence[0].sequence", 1, None),
        ("new", {}, None),
    ]


def test_findings_and_numbers_survive_a_file() -> None:
    finding = Finding(kind="different", decision_id="x", fields=differences({"a": 1}, {"a": 2}))
    assert Finding.from_json(orjson.loads(orjson.dumps(finding.to_json()))) == finding
    tally = Tally(events=5, equal=3)
    tally.set_aside("policy", "d[0]@1", 2)
    assert Tally.from_json(orjson.loads(orjson.dumps(tally.to_json()))) == tally
