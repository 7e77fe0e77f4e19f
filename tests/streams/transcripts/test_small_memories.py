"""What readers remember is bounded, and right as long as it is remembered."""

import time

from streams.transcripts.growing import GrowingConversations
from streams.transcripts.run_shelf import RunShelf
from streams.transcripts.seen import SeenKeys


def test_a_key_is_new_once() -> None:
    seen = SeenKeys(limit=4)
    assert [seen.add("a", key) for key in (1, 2, 1, 3, 2)] == [True, True, False, True, False]
    assert [seen.add("a", key) for key in (4, 5, 6)] == [True, True, True]
    assert seen.add("a", 1)  # forgotten by now
    assert not seen.add("a", 6)


def test_remembering_more_and_more_keys_does_not_take_longer_and_longer() -> None:
    def seconds(seen: SeenKeys, keys: range) -> float:
        began = time.process_time()
        for key in keys:
            seen.add(key)
        return time.process_time() - began

    seen = SeenKeys(limit=20_000)
    first = seconds(seen, range(20_000))
    assert seconds(seen, range(100_000, 160_000)) < 60 * first


def test_a_key_belongs_to_whoever_named_it_first() -> None:
    seen = SeenKeys()
    assert [seen.belongs_to(owner, "call") for owner in ("red", "green", "red")] == [True, False, True]


def message(text: str, **more: str) -> dict[str, str]:
    return {"role": "user", "content": text, **more}


def test_a_conversation_goes_on_from_the_longest_beginning_that_is_known() -> None:
    conversations = GrowingConversations(("role", "content"))
    first = [message("a"), message("b")]
    run, known, digest = conversations.resume(first)
    assert (run, known) == (None, 0)
    conversations.ended("run-1", digest, [message("c", refusal="none")])
    assert conversations.resume([*first, message("c"), message("d")])[:2] == ("run-1", 3)
    assert conversations.resume([message("b"), message("c")])[:2] == (None, 0)
    assert conversations.resume([*first, message("x")])[:2] == (None, 0)


def test_runs_come_back_from_the_shelf_as_they_were_and_in_their_order() -> None:
    shelf: RunShelf[dict[str, int]] = RunShelf(at_hand=4)
    for number in range(50):
        shelf.put(f"run-{number} \ud800", {"number": number})
    for number in (3, 40, 3, 7):
        run = shelf.get(f"run-{number} \ud800")
        assert run is not None
        run["seen"] = run.get("seen", 0) + 1
    assert shelf.get("never came") is None
    drained = list(shelf.drain())
    assert [run["number"] for run in drained] == list(range(50))
    assert [run["number"] for run in drained if run.get("seen")] == [3, 7, 40]
    assert drained[3]["seen"] == 2
