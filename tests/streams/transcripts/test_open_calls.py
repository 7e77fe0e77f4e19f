import pytest

from streams.transcripts.items import CallFinished, CallStarted, NotUnderstood, Place, RunRef
from streams.transcripts.open_calls import OpenCalls

RUN = RunRef("run")
PLACE = Place("log", 1)


@pytest.fixture
def calls() -> OpenCalls:
    return OpenCalls()


def start(
    calls: OpenCalls, call_id: object, params: object, tool: object = "ls", run: RunRef = RUN
) -> CallStarted | NotUnderstood:
    return calls.start(run, PLACE, None, call_id=call_id, tool=tool, params=params)


def answered(calls: OpenCalls, call_id: object = None, tool: object = None, run: RunRef = RUN) -> object:
    found = calls.finish(run, PLACE, None, call_id=call_id, tool=tool, result="x")
    return found.params if isinstance(found, CallFinished) else found.reason


def test_an_answer_belongs_to_the_earliest_unanswered_call_with_its_id(calls: OpenCalls) -> None:
    for number in range(3):
        start(calls, "same", number)
    assert [answered(calls, "same") for _ in range(4)] == [0, 1, 2, "the outcome of a call that is not in the log"]


def test_an_answer_without_id_belongs_to_the_earliest_unanswered_call_of_its_tool(calls: OpenCalls) -> None:
    start(calls, None, 0, tool="a")
    start(calls, "id", 1, tool="b")
    start(calls, None, 2, tool="b")
    assert [answered(calls, tool="b"), answered(calls, tool="a"), answered(calls, "id")] == [2, 0, 1]


def test_runs_have_ids_of_their_own(calls: OpenCalls) -> None:
    start(calls, "id", "mine")
    start(calls, "id", "theirs", run=RunRef("other"))
    assert answered(calls, "id", run=RunRef("other")) == "theirs"


@pytest.mark.parametrize("tool", [None, "", "  ", 7])
def test_a_call_needs_the_name_of_its_tool(calls: OpenCalls, tool: object) -> None:
    assert isinstance(start(calls, "id", {}, tool=tool), NotUnderstood)


def test_long_names_and_ids_are_cut_to_what_an_event_may_have_and_stay_different(calls: OpenCalls) -> None:
    made = [start(calls, "i" * 300 + end, {}, tool="t" * 300 + end) for end in "ab"]
    names = {(call.tool, call.call_id) for call in made if isinstance(call, CallStarted)}
    assert len(names) == 2
    assert all(len(tool) == len(str(call_id)) == 256 for tool, call_id in names)
    assert answered(calls, "i" * 300 + "b") == {}


def test_unanswered_calls_are_forgotten_some_day() -> None:
    calls = OpenCalls()
    for number in range(10_001):
        start(calls, f"id{number}", number)
    assert answered(calls, "id0") == "the outcome of a call that is not in the log"
    assert answered(calls, "id1") == 1
