"""Recomputed decisions against published ones, without a broker."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import orjson
import pytest

from schemas.made_decisions import AsOf, EvidenceCall, MadeDecision, Origin, Target
from streams.audit import InputRecord, Recomputed, decision_index
from streams.audit.comparison import Comparison
from streams.audit.findings import Finding, Tally
from streams.audit.payloads import differences, payload_of
from streams.audit.published import PublishedDecisions, payload_of_record
from streams.audit.replayer import Cause
from streams.detection.engine import ENGINE_VERSION

END = 1000
Compare = Callable[..., tuple[Tally, list[Finding]]]


def decision(number: int, **changes: Any) -> MadeDecision:
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
        "late": False,
        "mode": "enforce",
        "policy_version": "p",
        "engine_version": ENGINE_VERSION,
        "since": Origin(topic="t", partition=0, offset=100),
        "as_of": AsOf(topic="t", partition=0, offset=100 + number, time=1_800_000_000_000),
        "evidence": (),
    }
    return MadeDecision(**given | changes)


def of_run(number: int, action: str, **changes: Any) -> MadeDecision:
    more = {"reason": "changed"} if action == "release" else {}
    return decision(
        number, action=action, target=Target(scope="run"), detector="compaction_loop_persisted", count=3, **more, **changes
    )


@pytest.fixture(params=[decision_index.LATEST, 0, 2], ids=["few", "all in the database", "some in the database"])
def compare(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Compare:
    """Compare recomputed and published decisions of a range that ends at 1,000, all settled unless said otherwise."""
    monkeypatch.setattr(decision_index, "LATEST", request.param)

    def work(
        recomputed: Iterable[Recomputed | MadeDecision],
        published: Iterable[MadeDecision | bytes],
        *,
        settled: tuple[int, int] = (END, END),
    ) -> tuple[Tally, list[Finding]]:
        values = [one if isinstance(one, bytes) else one.to_record(source="s", decided_at=1) for one in published]
        records = [InputRecord("d", 0, number, number, b"r", value) for number, value in enumerate(values)]
        there = PublishedDecisions("d", 0, start=50, end=END, log_start=20, before="p")
        for record in records:
            there.take(record)
        comparison = Comparison(
            there,
            settled=settled,
            read_payload=lambda offset: payload_of_record(records[offset]),
            place_of=lambda offset: f"d[0]@{offset}",
        )
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
    copies = [decision(1).to_record(source=worker, decided_at=at) for worker, at in (("s", 5), ("other", 9), ("s", None))]
    tally, findings = compare([decision(1)], copies)
    assert (tally.equal, tally.copies, findings) == (1, 2, [])


def rewritten(one: MadeDecision, change: Callable[[Any], Any] = lambda body: body, **options: Any) -> bytes:
    """The record of a decision, read, changed and written as JSON again."""
    return json.dumps(change(json.loads(one.to_record(source="s", decided_at=5))), **options).encode()


def turned_round(body: Any) -> Any:
    """The same objects with their keys in the opposite order."""
    if isinstance(body, dict):
        return {name: turned_round(body[name]) for name in reversed(body)}
    return [turned_round(inner) for inner in body] if isinstance(body, list) else body


FORMS: dict[str, Callable[[MadeDecision], bytes]] = {
    "keys in another order": lambda one: rewritten(one, turned_round, separators=(",", ":")),
    "white space": lambda one: rewritten(one, indent=1),
    "nulls": lambda one: rewritten(one, lambda body: body | {"data": body["data"] | {"reason": None, "agent_id": None}}),
    "escapes": lambda one: one.to_record(source="s", decided_at=5).replace(b"exec was", b"\\u0065xec was"),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_says_the_same_in_another_form_is_equal(compare: Compare, form: str) -> None:
    full = decision(1, evidence=(EvidenceCall(sequence=4, call_id="c"), EvidenceCall(sequence=5)))
    tally, findings = compare([full], [FORMS[form](full)])
    assert (tally.equal, tally.copies, findings) == (1, 0, [])
    tally, findings = compare([full], [full, FORMS[form](full), full])
    assert (tally.equal, tally.copies, findings) == (1, 2, [])


@pytest.mark.parametrize("form", FORMS)
def test_an_added_decision_is_named_once_in_however_many_forms_it_is_there(compare: Compare, form: str) -> None:
    tally, findings = compare([], [decision(1), FORMS[form](decision(1)), decision(1), decision(2)])
    assert [(one.kind, one.decision_id) for one in findings] == [("extra", f"{1:032x}"), ("extra", f"{2:032x}")]
    assert tally.copies == 2


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, name))
    else:
        yield path


FULL = decision(
    1,
    session_id="s",
    agent_id="a",
    target=Target(scope="call", tool="exec", args_hash="0" * 32),
    paired_tool="read",
    reason="used",
    as_of=AsOf(topic="t", partition=0, offset=101, sequence=7, call_id="c", time=1_800_000_000_000),
    evidence=(EvidenceCall(sequence=4, call_id="c"), EvidenceCall(sequence=5, call_id="d")),
)

#: Fields by which a decision is found and which say what it belongs to: without them it is another one.
FINDING = {("decision_id",), ("since", "offset"), ("as_of", "offset"), ("policy_version",), ("engine_version",)}


@pytest.mark.parametrize(
    "path", [path for path in leaves(FULL.to_data()) if path not in FINDING], ids=lambda path: ".".join(map(str, path))
)
@pytest.mark.parametrize("how", ["another", "gone", "another type"])
def test_a_change_of_any_field_is_found_and_named(compare: Compare, path: tuple[str | int, ...], how: str) -> None:
    def change(body: Any) -> Any:
        at = body["data"]
        for name in path[:-1]:
            at = at[name]
        if how == "gone":
            del at[path[-1]]
        else:
            before = at[path[-1]]
            another = f"{before}x" if isinstance(before, str) else (not before if isinstance(before, bool) else before + 1)
            at[path[-1]] = another if how == "another" else float(before) if isinstance(before, int) else [before]
        return body

    tally, findings = compare([FULL], [rewritten(FULL, change, separators=(",", ":"))])
    assert tally.equal == 0
    if "unreadable" in kinds(findings):
        # A field without which it is no decision at all; then the one that should be there is missing.
        assert (how, sorted(kinds(findings))) == ("another type", ["missing", "unreadable"]) or how == "gone"
        return
    (finding,) = findings
    assert (finding.kind, finding.decision_id) == ("different", FULL.decision_id)
    dotted = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)[1:]
    assert any(field.path.startswith(dotted) for field in finding.fields), finding.fields


@pytest.mark.parametrize("path", sorted(FINDING))
def test_a_decision_that_is_found_no_more_is_missing(compare: Compare, path: tuple[str, ...]) -> None:
    """With another id it is extra, too; with other places or versions it is so, or said to be beyond what can be told."""

    def change(body: Any) -> Any:
        at = body["data"] if len(path) == 1 else body["data"][path[0]]
        at[path[-1]] = 60 if isinstance(at[path[-1]], int) else "f" * 32
        return body

    tally, findings = compare([FULL], [rewritten(FULL, change, separators=(",", ":"))])
    assert tally.equal == 0
    assert findings or tally.not_reproducible


@pytest.mark.parametrize(
    "change",
    [{"specversion": "2.0"}, {"specversion": 1}, {"source": ""}, {"source": None}, {"time": "yesterday"}, {"id": "another"}],
    ids=str,
)
def test_an_envelope_that_gates_cannot_read_is_a_difference(compare: Compare, change: dict[str, Any]) -> None:
    value = rewritten(FULL, lambda body: body | change, separators=(",", ":"))
    tally, (finding,) = compare([FULL], [value])
    assert (tally.equal, finding.kind) == (0, "different")
    assert {field.path for field in finding.fields} <= {"(event)", "(event id)"}


def test_text_that_is_no_utf_8_is_unreadable(compare: Compare) -> None:
    value = FULL.to_record(source="s", decided_at=5).replace(b"20 times", b"20 \xff times")
    tally, findings = compare([FULL], [value])
    assert sorted(kinds(findings)) == ["missing", "unreadable"]
    assert tally.equal == 0


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
    assert kinds(compare([possible], [msgspec.structs.replace(abort, count=9), release])[1]) == ["different"]
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
    there = PublishedDecisions("d", 0, start=50, end=END, log_start=0, before="p")
    body = orjson.loads(decision(1).to_record(source="s")) | {"id": "another"}
    value = orjson.dumps(body)
    record = InputRecord("d", 0, 0, 0, b"not r", value)
    there.take(record)
    comparison = Comparison(there, settled=(END, END), read_payload=lambda offset: payload_of_record(record), place_of=str)
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
