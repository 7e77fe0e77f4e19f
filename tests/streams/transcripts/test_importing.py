"""Imported events are what a gateway would have sent: workers accept them and find the same."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.cloudevents import CloudEvent, parse
from schemas.events import RunEvent, ToolCallFinished, ToolCallStarted, parse_event
from schemas.topics import Topics
from streams.detection.facts import Facts, facts_of
from streams.intake.outgoing import OutgoingEvent
from streams.reports.scan_report import RunReport, ScanSummary
from streams.transcripts.importing import Imported, events_of_items
from streams.transcripts.item_facts import LOG, item_facts
from streams.transcripts.items import CallFinished, CallStarted, Copied, Item, NotUnderstood, Place, PromptGiven, RunRef, Spent
from streams.transcripts.reading import Readings
from streams.transcripts.turns import settle_retries

ScanPaths = Callable[..., tuple[list[RunReport], ScanSummary]]
ReadPaths = Callable[..., tuple[list[Item], Readings]]
SAMPLES = Path(__file__).parent / "samples"
NAMES = sorted(f"{path.parent.name}/{path.name}" for path in SAMPLES.glob("*/*") if path.name != "expected.json")


def imported(items: list[Item], **options: Any) -> list[OutgoingEvent]:
    settings: dict[str, Any] = {"topics": Topics(), "max_event_bytes": 1_000_000, "imported": Imported(), **options}
    return list(events_of_items(settle_retries(items), **settings))


def opened(event: OutgoingEvent) -> tuple[CloudEvent, RunEvent]:
    return parse_event(event.value, key=event.key, max_bytes=1_000_000)


@pytest.mark.parametrize("content", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_workers_accept_the_events_and_see_what_the_scan_sees(name: str, content: bool, read: ReadPaths) -> None:
    items, _ = read(SAMPLES / name)
    events = imported(items, content=content)
    facts: list[Facts] = []
    for number, event in enumerate(events):
        cloud_event, data = opened(event)
        facts.append(facts_of(cloud_event, data, partition=LOG, offset=number, timestamp=0))
        assert event.topic in Topics().inputs
        assert cloud_event.sequence == event.sequence
    judged = [item for item in settle_retries(items) if not isinstance(item, NotUnderstood | Copied | PromptGiven | Spent)]
    expected = [
        item_facts(item, sequence=event.sequence or 0, offset=number, time=0)
        for number, (item, event) in enumerate(zip(judged, events, strict=True))
    ]
    # How another system says that a tool does not exist is known to its reader only, and not to be seen in the content.
    names = [name for name in inspect.signature(Facts).parameters if not (content and name == "unknown_tool")]
    for fact, wanted in zip(facts, expected, strict=True):
        assert [getattr(fact, name) for name in names] == [getattr(wanted, name) for name in names]


@pytest.mark.parametrize("name", NAMES)
def test_sequences_count_from_one_in_each_run(name: str, read: ReadPaths) -> None:
    if name.startswith("events/"):
        pytest.skip("events keep their own")
    sequences: dict[str, list[int | None]] = {}
    for event in imported(read(SAMPLES / name)[0]):
        sequences.setdefault(event.run_id, []).append(event.sequence)
    assert sequences
    for found in sequences.values():
        assert found == list(range(1, len(found) + 1))


def test_content_stays_where_it_is_unless_it_is_asked_for(read: ReadPaths) -> None:
    items, _ = read(SAMPLES / "claude-code" / "loop.jsonl")
    assert not any(b"npm test" in event.value or b"1 failing" in event.value for event in imported(items))
    full = imported(items, content=True)
    assert any(b"npm test" in event.value for event in full)
    assert any(b"1 failing" in event.value for event in full)


def test_importing_again_gives_the_same_events(read: ReadPaths) -> None:
    path = SAMPLES / "openclaw" / "loop.jsonl"
    assert imported(read(path)[0]) == imported(read(path)[0])


def test_events_say_what_hashes_hide(read: ReadPaths) -> None:
    items, _ = read(SAMPLES / "openclaw" / "missing-tool.jsonl")
    finished = [data for _, data in map(opened, imported(items)) if isinstance(data, ToolCallFinished)]
    assert {(data.unknown_tool, data.is_error) for data in finished[:10]} == {("browse_web", True)}
    process = RunRef("r"), Place("log", 1), None, None, "process", {"action": "poll", "id": 1}
    polls = [data for _, data in map(opened, imported([CallStarted(*process)])) if isinstance(data, ToolCallStarted)]
    assert polls[0].poll is True


def test_an_event_that_is_too_large_with_its_content_goes_out_with_hashes() -> None:
    counts = Imported()
    item = CallFinished(RunRef("r"), Place("log", 1), None, None, "cat", {}, result="x" * 5000)
    (event,) = imported([item], content=True, max_event_bytes=2000, imported=counts)
    _, data = opened(event)
    assert isinstance(data, ToolCallFinished)
    assert (data.has_result, data.outcome_hash is not None, counts.reduced) == (False, True, 1)


def test_runs_are_named_as_asked_and_agents_only_where_the_log_names_none(read: ReadPaths) -> None:
    items, _ = read(SAMPLES / "atif" / "sub-agents.json", SAMPLES / "calls" / "errors.jsonl")
    seen = {
        (data.run_id, data.parent_run_id, data.agent_id)
        for _, data in map(opened, imported(items, run_prefix="eu-", agent_id="painter"))
    }
    assert seen == {("eu-main-1", None, "terminus-2"), ("eu-sub-1", "eu-main-1", "terminus-2"), ("eu-r", None, "painter")}


def test_what_no_record_key_can_say_is_counted(read: ReadPaths) -> None:
    counts = Imported()
    item = CallStarted(RunRef("half \ud800"), Place("log", 7), None, None, "ls", {})
    assert imported([item], imported=counts) == []
    assert counts.not_understood.total == 1


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("claude-code/odd")])
def test_a_scan_of_the_events_finds_the_loops_of_the_log(name: str, read: ReadPaths, scan: ScanPaths, tmp_path: Path) -> None:
    events = imported(read(SAMPLES / name)[0])
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"".join(event.value + b"\n" for event in events))

    def found(runs: list[RunReport]) -> list[Any]:
        return [(run.run_id, run.spent.calls, run.verdict, [(loop.detectors, loop.calls) for loop in run.loops]) for run in runs]

    with_items = {event.run_id for event in events}
    before = [run for run in scan(SAMPLES / name)[0] if run.run_id in with_items]
    assert found(scan(file)[0]) == found(before)
    if not name.startswith("events/"):  # which keep the sequences that they were sent with, copies included
        ids = [parse(event.value).id for event in events]
        assert len(set(ids)) == len(ids)
