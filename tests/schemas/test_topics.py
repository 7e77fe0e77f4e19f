"""Topic names, settings and partitions."""

from aiokafka.partitioner import DefaultPartitioner
from hypothesis import given
from hypothesis import strategies as st

from schemas.topics import Topics, partition_of


def test_a_prefix_stands_before_every_name():
    assert all(spec.name.startswith("eu.agent.") for spec in Topics(prefix="eu.").specs(partitions=4, max_event_bytes=1000))


def test_inputs_decisions_and_dead_letters_have_equal_partition_counts_and_every_setting_is_explicit():
    specs = {spec.name: spec for spec in Topics().specs(partitions=7, max_event_bytes=1000)}
    assert {spec.partitions for name, spec in specs.items() if "policies" not in name} == {7}
    assert all({"cleanup.policy", "retention.ms", "max.message.bytes"} <= spec.config.keys() for spec in specs.values())
    assert specs["agent.policies.v1"].config["cleanup.policy"] == "compact"


@given(st.text(min_size=1, max_size=40).filter(lambda text: text.isprintable()), st.integers(1, 300))
def test_a_run_lies_where_the_java_clients_partitioner_puts_it(run_id: str, partitions: int):
    numbers = list(range(partitions))
    assert partition_of(run_id, partitions) == DefaultPartitioner()(run_id.encode(), numbers, numbers)
