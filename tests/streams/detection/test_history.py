"""The counts that a history keeps are those of counting anew."""

from hypothesis import given
from hypothesis import strategies as st

from streams.detection.history import Call, History, Outcome, SignatureKey

KEYS = [("a", b"1"), ("a", b"2"), ("b", b"1")]

steps = st.lists(
    st.tuples(
        st.sampled_from(["start", "finish", "trim"]),
        st.sampled_from(KEYS),
        st.sampled_from([b"x", b"y"]),
        st.sampled_from([None, "n"]),
        st.integers(1, 6),
    ),
    max_size=60,
)


def streak_by_counting(calls: list[Call], key: SignatureKey) -> int:
    digests = [c.outcome.digest for c in reversed(calls) if c.signature.key == key and c.outcome is not None]
    count = 0
    while count < len(digests) and digests[count] == digests[0]:
        count += 1
    return count


def alternation_by_counting(calls: list[Call]) -> int:
    keys = [c.signature.key for c in reversed(calls)]
    if len(keys) < 2 or keys[0] == keys[1]:
        return 0
    length = 2
    while length < len(keys) and keys[length] == keys[length - 2]:
        length += 1
    return length


def missing_by_counting(calls: list[Call]) -> int:
    marks = [(c.signature.key[0], c.outcome.unknown_tool if c.outcome else None) for c in reversed(calls)]
    if not marks or marks[0][1] is None:
        return 0
    return next((n for n, mark in enumerate(marks) if mark != marks[0]), len(marks))


@given(steps)
def test_streaks_alternations_and_missing_tools_are_those_of_counting_anew(steps: list) -> None:
    history = History()
    for kind, key, digest, missing, size in steps:
        if kind == "start":
            history.append(key, poll=False, sequence=None, call_id=None)
        elif kind == "finish":
            call = history.pending_call(key, None)
            if call is not None:
                history.settle(call, Outcome(digest, None, 0, 0, missing))
        else:
            history.trim(size)
        calls = history.calls
        for each in KEYS:
            signature = history.signatures.get(each)
            assert (signature.count if signature else 0) == sum(c.signature.key == each for c in calls)
            assert (signature.streak if signature else 0) == streak_by_counting(calls, each)
        alternation, missing_tool = history.alternation(), history.missing_tool()
        assert (alternation.length if alternation else 0) == alternation_by_counting(calls)
        assert (missing_tool.length if missing_tool else 0) == missing_by_counting(calls)
