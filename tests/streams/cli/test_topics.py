from collections.abc import Callable

from typer.testing import Result

from schemas.topics import Topics

Run = Callable[..., Result]


def test_check_names_each_missing_topic_and_the_remedy(loopwarden: Run, topics: Topics) -> None:
    result = loopwarden("topics", "check")
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert len(lines) == 8
    assert f"loopwarden: {topics.decisions}: missing; run `loopwarden topics create`" in lines


def test_created_topics_pass_the_check_and_are_kept_the_second_time(loopwarden: Run, topics: Topics) -> None:
    created = loopwarden("topics", "create", "--partitions", "3")
    assert created.exit_code == 0, created.output
    assert f"{topics.policies}: created" in created.stdout
    assert loopwarden("topics", "check").exit_code == 0
    again = loopwarden("topics", "create", "--partitions", "3")
    assert again.exit_code == 0
    assert again.stdout.count(": kept") == 8


def test_a_topic_with_another_number_of_partitions_is_a_finding(
    loopwarden: Run, topics: Topics, topic_factory: Callable[..., str]
) -> None:
    topic_factory(name=topics.compactions, partitions=2)
    result = loopwarden("topics", "create", "--partitions", "4")
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"loopwarden: {topics.compactions}: 2 partitions, but 4 in ")


def test_a_wrong_cleanup_policy_is_a_finding(loopwarden: Run, topics: Topics, topic_factory: Callable[..., str]) -> None:
    topic_factory(name=topics.policies, partitions=1, config={"cleanup.policy": "delete"})
    result = loopwarden("topics", "create")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"loopwarden: {topics.policies}: cleanup.policy is delete, must be compact")
