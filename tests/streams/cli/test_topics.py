from collections.abc import Callable

from typer.testing import Result

from schemas.topics import Topics

Run = Callable[..., Result]


def names(topics: Topics) -> set[str]:
    inputs_and_outputs = (topics.tool_calls, topics.compactions, topics.decisions, topics.policies)
    letters = map(topics.dead_letters, inputs_and_outputs)
    return {*inputs_and_outputs, *letters, topics.deliveries, topics.changelog(topics.prefix.rstrip("."))}


def test_check_names_each_missing_topic_and_the_remedy(loopwarden: Run, topics: Topics) -> None:
    result = loopwarden("topics", "check")
    assert result.exit_code == 1
    expected = {f"loopwarden: {name}: missing; run `loopwarden topics create`" for name in names(topics)}
    assert set(result.stderr.splitlines()) == expected


def test_created_topics_pass_the_check_and_are_kept_the_second_time(loopwarden: Run, topics: Topics) -> None:
    created = loopwarden("topics", "create", "--partitions", "3")
    assert created.exit_code == 0, created.output
    assert set(created.stdout.splitlines()) == {f"{name}: created" for name in names(topics)}
    assert loopwarden("topics", "check").exit_code == 0
    again = loopwarden("topics", "create", "--partitions", "3")
    assert again.exit_code == 0
    assert set(again.stdout.splitlines()) == {f"{name}: kept" for name in names(topics)}


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


def test_policies_in_several_partitions_are_a_finding(loopwarden: Run, topics: Topics, topic_factory: Callable[..., str]) -> None:
    topic_factory(name=topics.policies, partitions=3, config={"cleanup.policy": "compact"})
    result = loopwarden("topics", "create", "--partitions", "3")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"loopwarden: {topics.policies}: 3 partitions, must have one")


def test_the_changelog_is_that_of_the_group(loopwarden: Run, topics: Topics, unique_name: Callable[[str], str]) -> None:
    group = unique_name("other")
    assert f"{topics.changelog(group)}: created" in loopwarden("topics", "create", "--group", group).stdout.splitlines()
    assert loopwarden("topics", "check", "--group", group).exit_code == 0
    result = loopwarden("topics", "check")
    assert [line.split(":")[1].strip() for line in result.stderr.splitlines()] == [topics.changelog(topics.prefix.rstrip("."))]


def test_an_absent_broker_is_one_line_with_its_address(loopwarden: Run) -> None:
    result = loopwarden("topics", "check", "--bootstrap", "127.0.0.1:1")
    assert result.exit_code == 2
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("loopwarden: ")]
    assert line.startswith("loopwarden: no broker answers: 127.0.0.1:1: connection refused; ")
