from collections.abc import Iterable

from streams.transcripts.items import (
    CallFinished,
    CallStarted,
    Compacted,
    Copied,
    Item,
    NotUnderstood,
    Place,
    PromptGiven,
    RunFinished,
    RunRef,
)
from streams.transcripts.turns import settle_retries, split_turns

RUN, OTHER = RunRef("run", "session", "agent"), RunRef("other")
PLACE = Place("log", 1)


def call(run: RunRef = RUN) -> CallStarted:
    return CallStarted(run, PLACE, None, None, "ls", {})


def answer(run: RunRef = RUN) -> CallFinished:
    return CallFinished(run, PLACE, None, None, "ls", {})


def compaction(run: RunRef = RUN, will_retry: bool | None = None) -> Compacted:
    return Compacted(run, PLACE, None, will_retry)


PROMPT = PromptGiven(RUN, PLACE, None)


def retries(items: Iterable[Item]) -> list[bool | None]:
    return [item.will_retry for item in settle_retries(items) if isinstance(item, Compacted)]


def test_a_compaction_was_followed_by_a_retry_when_the_agent_goes_on() -> None:
    assert retries([compaction(), call()]) == [True]
    assert retries([compaction(), PROMPT, call()]) == [False]
    assert retries([compaction()]) == [False]
    assert retries([compaction(), RunFinished(RUN, PLACE, None)]) == [False]
    assert retries([compaction(), compaction(), call()]) == [False, True]


def test_what_a_log_says_of_a_retry_is_not_changed() -> None:
    assert retries([compaction(will_retry=False), call(), compaction(will_retry=True), PROMPT]) == [False, True]


def test_answers_to_earlier_calls_and_other_runs_do_not_tell() -> None:
    items = [call(), compaction(), answer(), call(OTHER), NotUnderstood(PLACE, "x"), PROMPT]
    settled = list(settle_retries(items))
    assert retries(items) == [False]
    assert [type(item).__name__ for item in settled if getattr(item, "run", None) == RUN] == [
        "CallStarted",
        "Compacted",
        "CallFinished",
        "PromptGiven",
    ]
    assert len(settled) == len(items)


def test_each_prompt_begins_a_turn_of_its_own() -> None:
    items = split_turns([PROMPT, PROMPT, call(), answer(), PROMPT, call(), call(OTHER)])
    turns = [item.run for item in items if not isinstance(item, NotUnderstood | Copied)]
    assert [run.run_id for run in turns] == ["run#1"] * 4 + ["run#2"] * 2 + ["other#1"]
    assert {run.session_id for run in turns} == {"session", "other"}
