"""Policy files: what is accepted, and what each fault is called."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.policy import PolicyDocument, PolicyError, parse_policy, read_policy

SAMPLE = """\
// what the team agreed on
{
  models: { providers: { x: { apiKey: 'k' } } },   // not ours
  tools: {
    profile: "coding",
    loopDetection: {
      enabled: true,
      warningThreshold: 0xA, criticalThreshold: 20.0, globalCircuitBreakerThreshold: +30,
      detectors: { pingPong: false, },
      postCompactionGuard: { windowSize: 4 },
    },
  },
  loopwarden: { mode: 'shadow', shadow: ['ping_pong'] },
  agents: {
    defaults: {},
    list: [{ id: 'Night Owl', tools: { loopDetection: { historySize: 50 } }, loopwarden: { mode: 'enforce' } }],
  },
}
"""


def problems(text: str) -> list[str]:
    """The lines that are printed for a text that is refused."""
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, name="policy.json5")
    return str(caught.value).splitlines()


def error_of(text: str) -> PolicyError | None:
    try:
        parse_policy(text, name="policy.json5")
    except PolicyError as error:
        return error
    return None


def loop_detection(block: str) -> str:
    return f"{{tools:{{loopDetection: {{{block}}}}}}}"


def test_a_whole_openclaw_file_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text(SAMPLE, encoding="utf-8")
    policy = read_policy(path)
    owl, other = policy.for_agent("night-owl"), policy.for_agent("main")
    assert (owl.history_size, owl.mode, owl.mode_of("ping_pong")) == (50, "enforce", "shadow")
    assert (other.history_size, other.mode, other.guard_window, other.ping_pong) == (30, "shadow", 4, False)
    assert (other.warning_threshold, other.critical_threshold, other.global_circuit_breaker_threshold) == (10, 20, 30)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{tools: null, agents: null, loopwarden: null}",
        "{tools: {loopDetection: null}, agents: {list: null}}",
        "{tools: {loopDetection: {enabled: null, warningThreshold: null, detectors: null, postCompactionGuard: null}}}",
        "{tools: {loopDetection: {detectors: {pingPong: null}, postCompactionGuard: {windowSize: null}}}}",
        "{loopwarden: {mode: null, shadow: null}, agents: {list: [{id: 'a', tools: null, loopwarden: null}]}}",
    ],
)
def test_null_means_unset_and_nothing_set_is_the_empty_policy(text: str) -> None:
    assert parse_policy(text, name="policy.json5") == PolicyDocument.from_mapping({})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", ["policy.json5:1:1: the document: expected an object, found a list"]),
        ("{tools: []}", ["policy.json5:1:9: tools: expected an object, found a list"]),
        ("{tools: {loopDetection: true}}", ["policy.json5:1:25: tools.loopDetection: expected an object, found true"]),
        ("{agents: {list: {}}}", ["policy.json5:1:17: agents.list: expected a list, found an object"]),
        ("{agents: {list: [\n'a']}}", ['policy.json5:2:1: agents.list[0]: expected an object, found the string "a"']),
        ("{agents: {list: [{}]}}", ["policy.json5:1:18: agents.list[0]: an entry without id applies to no agent; add one"]),
        ("{agents: {list: [{id: null}]}}", ["policy.json5:1:23: agents.list[0].id: expected a string, found null"]),
        ("{agents: {list: [{id: ' '}]}}", ['policy.json5:1:23: agents.list[0].id: expected an agent id, found the string " "']),
        ("{loopwarden: 'shadow'}", ['policy.json5:1:14: loopwarden: expected an object, found the string "shadow"']),
    ],
)
def test_a_container_of_the_wrong_kind_is_named(text: str, expected: list[str]) -> None:
    assert problems(text) == expected


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("0", "0"),
        ("-3", "-3"),
        ("2.5", "2.5"),
        ("'3'", 'the string "3"'),
        ("true", "true"),
        ("[4]", "a list"),
        ("{}", "an object"),
        ("Infinity", "Infinity"),
        ("NaN", "NaN"),
    ],
)
def test_a_number_that_the_detection_would_ignore_is_an_error(value: str, found: str) -> None:
    assert problems(loop_detection(f"historySize: {value}")) == [
        f"policy.json5:1:38: tools.loopDetection.historySize: expected a whole number above 0, found {found}"
    ]


def test_a_number_too_large_for_other_languages_is_an_error() -> None:
    assert problems(loop_detection("historySize: 9007199254740992")) == [
        "policy.json5:1:38: tools.loopDetection.historySize: "
        "expected a whole number of at most 9007199254740991, found 9007199254740992"
    ]


def test_a_flag_that_is_no_bool_is_an_error() -> None:
    assert problems(loop_detection("enabled: 'yes', detectors: {pingPong: 0}")) == [
        'policy.json5:1:34: tools.loopDetection.enabled: expected true or false, found the string "yes"',
        "policy.json5:1:63: tools.loopDetection.detectors.pingPong: expected true or false, found 0",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            loop_detection("warningTreshold: 3"),
            "1:25: unknown key warningTreshold in tools.loopDetection; did you mean warningThreshold?",
        ),
        (
            loop_detection("detectors: {ping_pong: true}"),
            "1:37: unknown key ping_pong in tools.loopDetection.detectors; did you mean pingPong?",
        ),
        (
            loop_detection("postCompactionGuard: {window: 3}"),
            "1:47: unknown key window in tools.loopDetection.postCompactionGuard; did you mean windowSize?",
        ),
        ("{loopwarden: {quux: 1}}", "1:15: unknown key quux in loopwarden; known are mode, shadow"),
        (
            "{agents: {list: [{id: 'a'}, {id: 'b', tools: {loopDetection: {enable: true}}}]}}",
            "1:63: unknown key enable in agents.list[1].tools.loopDetection; did you mean enabled?",
        ),
    ],
)
def test_a_typo_inside_our_blocks_is_named_with_a_suggestion(text: str, expected: str) -> None:
    assert problems(text) == [f"policy.json5:{expected}"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{tools: {loopdetection: {}}}", "1:10: unknown key loopdetection in tools; did you mean loopDetection?"),
        ("{tools: {loopDetecton: {}}}", "1:10: unknown key loopDetecton in tools; did you mean loopDetection?"),
        ("{loopWarden: {}}", "1:2: unknown key loopWarden; did you mean loopwarden?"),
        ("{loopDetection: {}}", "1:2: loopDetection has no effect here; move it into tools"),
        ("{warningThreshold: 3}", "1:2: warningThreshold has no effect here; move it into tools.loopDetection"),
        ("{tools: {historySize: 3}}", "1:10: tools.historySize has no effect here; move it into loopDetection"),
        ("{tools: {loopwarden: {}}}", "1:10: tools.loopwarden has no effect here; move it beside tools"),
        (
            "{agents: {list: [{id: 'a', loopDetection: {}}]}}",
            "1:28: agents.list[0].loopDetection has no effect here; move it into tools",
        ),
    ],
)
def test_a_block_that_would_go_unseen_is_named(text: str, expected: str) -> None:
    assert problems(text) == [f"policy.json5:{expected}"]


def test_keys_outside_our_blocks_are_ignored() -> None:
    text = """{
      tool: 1, agent: {}, tools: {loop: 1, deny: ['x'], deny: []},
      agents: {lists: 1, list: [{id: 'a', idd: 2, tools: {x: 1}}]},
    }"""
    assert parse_policy(text, name="policy.json5") == PolicyDocument.from_mapping({})


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            "warningThreshold: 10, criticalThreshold: 10",
            [
                "1:66: tools.loopDetection.criticalThreshold: "
                "10 is not above warningThreshold: 10; raise it or lower warningThreshold"
            ],
        ),
        (
            "globalCircuitBreakerThreshold: 4, criticalThreshold: 5.0",
            [
                "1:56: tools.loopDetection.globalCircuitBreakerThreshold: "
                "4 is not above criticalThreshold: 5.0; raise it or lower criticalThreshold"
            ],
        ),
        (
            "warningThreshold: 7, criticalThreshold: null, globalCircuitBreakerThreshold: 6",
            [
                "1:102: tools.loopDetection.globalCircuitBreakerThreshold: "
                "6 is not above warningThreshold: 7; raise it or lower warningThreshold"
            ],
        ),
        (
            "warningThreshold: 3, criticalThreshold: 2, globalCircuitBreakerThreshold: 1",
            [
                "1:65: tools.loopDetection.criticalThreshold: "
                "2 is not above warningThreshold: 3; raise it or lower warningThreshold",
                "1:99: tools.loopDetection.globalCircuitBreakerThreshold: "
                "1 is not above criticalThreshold: 2; raise it or lower criticalThreshold",
            ],
        ),
    ],
)
def test_misordered_thresholds_of_one_block_are_named_both(block: str, expected: list[str]) -> None:
    assert problems(loop_detection(block)) == [f"policy.json5:{line}" for line in expected]


def test_misordered_thresholds_of_an_agent_are_named() -> None:
    (line,) = problems(
        "{agents: {list: [{id: 'a'}, {id: 'b', tools: {loopDetection: {warningThreshold: 2, criticalThreshold: 1}}}]}}"
    )
    assert line.startswith("policy.json5:1:103: agents.list[1].tools.loopDetection.criticalThreshold: 1 is not above")


@pytest.mark.parametrize(
    "text",
    [
        loop_detection("criticalThreshold: 5"),
        loop_detection("warningThreshold: 25"),
        "{tools: {loopDetection: {warningThreshold: 9}},"
        " agents: {list: [{id: 'a', tools: {loopDetection: {criticalThreshold: 5}}}]}}",
    ],
)
def test_a_single_threshold_is_raised_and_no_error(text: str) -> None:
    effective = parse_policy(text, name="policy.json5").for_agent("a")
    assert effective.critical_threshold == effective.warning_threshold + 1


def test_a_key_given_twice_is_named_with_both_places() -> None:
    text = (
        "{\n tools: {loopDetection: {historySize: 1,\n  'history\\u0053ize': 2}},\n"
        " tools: {loopDetection: {enabled: true, enabled: false}}\n}"
    )
    assert problems(text) == [
        "policy.json5:4:2: tools: given twice, first at 2:2; keep one",
        "policy.json5:4:41: tools.loopDetection.enabled: given twice, first at 4:26; keep one",
    ]


def test_an_unknown_detector_or_mode_is_named_with_a_suggestion() -> None:
    lines = problems("{loopwarden: {mode: 'shaddow', shadow: ['pingPong', 'unknown_tool', 7, 'zzz']}}")
    assert lines[0] == (
        'policy.json5:1:21: loopwarden.mode: expected enforce or shadow, found the string "shaddow"; did you mean shadow?'
    )
    assert [line.rpartition("; ")[2] for line in lines[1:3]] == ["did you mean ping_pong?", "did you mean unknown_tool_repeat?"]
    assert [line.rpartition(", ")[2] for line in lines[3:]] == ["found 7", 'found the string "zzz"']


def test_all_faults_come_at_once_in_file_order() -> None:
    text = SAMPLE.replace("enabled", "enabeld").replace("windowSize: 4", "windowSize: 0").replace("id: 'Night Owl', ", "")
    assert [line.split(": ")[0] for line in problems(text)] == ["policy.json5:7:7", "policy.json5:10:42", "policy.json5:16:12"]


def test_a_problem_names_the_setting_for_programs() -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy("{agents: {list: [{id: 'a', tools: {loopDetection: {enabled: 1}}}]}}", name="policy.json5")
    (problem,) = caught.value.problems
    assert (problem.line, problem.column, problem.key_path) == (1, 61, "agents.list[0].tools.loopDetection.enabled")


def test_a_message_stays_one_line_whatever_the_key() -> None:
    assert problems(loop_detection("'a\\nb\\u001b': 1"))[0].startswith("policy.json5:1:25: unknown key a\\nb\\x1b in")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    def refusal(path: Path) -> str:
        with pytest.raises(PolicyError) as caught:
            read_policy(path)
        return str(caught.value).removeprefix(str(path))

    def file(content: bytes) -> Path:
        path = tmp_path / "policy.json5"
        path.write_bytes(content)
        return path

    assert refusal(tmp_path / "missing.json5") == ": no such file"
    assert refusal(tmp_path) == ": is a folder; name a file in it"
    assert refusal(file(b"") / "below") == ": cannot be read: Not a directory"
    assert refusal(Path("nul\0")) == ": cannot be read: embedded null byte"
    assert refusal(file(b"")) == ": the file is empty; write {} for a policy without settings"
    assert refusal(file(b"{}\n\xe9")) == ":2:1: not UTF-8 from here on; save the file as UTF-8"
    assert refusal(file("{}".encode("utf-16"))) == ":1:1: not UTF-8 from here on; save the file as UTF-8"
    assert refusal(file(b" " * (4 * 1024 * 1024 + 1))) == ": is larger than 4 MiB; is this a policy file?"


def test_a_byte_order_mark_is_no_fault_and_moves_no_column(tmp_path: Path) -> None:
    path = tmp_path / "policy.json5"
    path.write_text("{tools: {}}", encoding="utf-8-sig")
    assert read_policy(path) == PolicyDocument.from_mapping({})
    path.write_text("{tools: 1}", encoding="utf-8-sig")
    with pytest.raises(PolicyError, match=r":1:9: tools: expected an object"):
        read_policy(path)


MUTATIONS = st.lists(
    st.tuples(
        st.integers(0, len(SAMPLE) - 1),
        st.integers(0, 3),
        st.sampled_from(["", "{", "}", "[", '"', "'", ",", "0", "x", "/*", "\\"]),
    ),
    min_size=1,
    max_size=4,
)


@given(MUTATIONS)
def test_a_damaged_file_is_accepted_or_gets_lines_with_places(mutations: list[tuple[int, int, str]]) -> None:
    text = SAMPLE
    for start, cut, insert in mutations:
        text = text[:start] + insert + text[start + cut :]
    error = error_of(text)
    faults = error.problems if error else []
    assert len(str(error or "").splitlines()) == len(faults)
    assert (error is None) == (faults == [])
    for problem in faults:
        assert problem.line is not None
        assert problem.column is not None
        line = text.split("\n")[problem.line - 1]
        assert 1 <= problem.column <= len(line) + 1


def test_a_large_file_is_read_in_well_under_a_second() -> None:
    entries: list[dict[str, Any]] = [
        {"id": f"agent-{number}", "note": "lorem " * 10, "tools": {"loopDetection": {"enabled": True, "warningThreshold": 5}}}
        for number in range(1000)
    ]
    text = json.dumps({"agents": {"list": entries}}, indent=2)
    assert len(text) > 200_000
    started = time.perf_counter()
    policy = parse_policy(text, name="openclaw.json")
    assert time.perf_counter() - started < 3
    assert policy.for_agent("agent-999").warning_threshold == 5
