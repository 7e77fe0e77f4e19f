import json

import pytest

from schemas.fingerprint_vectors import VECTORS_FILE, compute, render
from schemas.fingerprints import load_vectors


def test_the_shipped_file_is_what_the_code_computes() -> None:
    """After a deliberate change: python -m schemas.fingerprint_vectors."""
    assert VECTORS_FILE.read_text(encoding="ascii") == render(compute(load_vectors()))


def test_any_json_parser_can_read_the_file() -> None:
    text = VECTORS_FILE.read_text(encoding="ascii")
    numbers: list[str] = []
    json.loads(text, parse_float=numbers.append, parse_int=numbers.append)
    assert numbers == []
    text.encode().decode("utf-8")
    json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize("rule", ["error", "value", "exec", "poll", "log", "send", "result"])
def test_every_rule_for_outcomes_has_cases(rule: str) -> None:
    hashed = [json.loads(case["hashed"])[0] for case in load_vectors()["outcomes"] if case["hashed"] is not None]
    assert hashed.count(rule) >= 2


def test_cases_that_are_equal_have_equal_hashes_and_others_differ() -> None:
    vectors = load_vectors()
    for kind, text, digest in (("arguments", "canonical", "args_hash"), ("outcomes", "hashed", "outcome_hash")):
        pairs = {(case[text], case[digest]) for case in vectors[kind]}
        assert len(pairs) == len({pair[0] for pair in pairs}) == len({pair[1] for pair in pairs})


def test_titles_are_unique() -> None:
    for kind in ("arguments", "outcomes"):
        titles = [case["title"] for case in load_vectors()[kind]]
        assert len(set(titles)) == len(titles)
