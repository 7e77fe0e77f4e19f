"""The end of the done prefix is the offset to commit."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from streams.transport.progress import Delivery, Progress


def test_a_later_delivery_waits_for_an_earlier_one() -> None:
    progress: Progress[str] = Progress()
    first = progress.deliver("p", end=10, generation=1)
    second = progress.deliver("p", end=25, generation=1)
    progress.mark_done(second)
    assert progress.committable("p") is None
    progress.mark_done(first)
    assert progress.committable("p") == 25


def test_partitions_do_not_wait_for_each_other() -> None:
    progress: Progress[str] = Progress()
    progress.deliver("p", end=10, generation=1)
    progress.mark_done(progress.deliver("q", end=5, generation=1))
    assert progress.committable("q") == 5
    assert progress.committable("p") is None


def test_the_answer_stays_until_a_later_one() -> None:
    """A commit that failed is tried again."""
    progress: Progress[str] = Progress()
    progress.mark_done(progress.deliver("p", end=10, generation=1))
    assert progress.committable("p") == progress.committable("p") == 10


def test_being_done_with_what_was_taken_back_moves_nothing() -> None:
    progress: Progress[str] = Progress()
    old = progress.deliver("p", end=10, generation=1)
    progress.take_back("p")
    assert not old.valid
    new = progress.deliver("p", end=10, generation=2)
    progress.mark_done(old)
    assert progress.committable("p") is None
    assert progress.unprocessed == 1
    progress.mark_done(new)
    assert progress.committable("p") == 10


@dataclass(eq=False)
class Expected:
    """What the model knows of one delivery."""

    partition: int
    delivery: Delivery
    processed: bool = False
    done: bool = False
    valid: bool = field(default=True)


class ProgressMachine(RuleBasedStateMachine):
    """Any order of delivering, processing, finishing and taking back agrees with a plain list of deliveries."""

    deliveries = Bundle("deliveries")

    def __init__(self) -> None:
        super().__init__()
        self.progress: Progress[int] = Progress()
        self.model: list[Expected] = []
        self.end = 0

    @rule(target=deliveries, partition=st.integers(0, 2), size=st.integers(1, 50))
    def deliver(self, partition: int, size: int) -> Expected:
        self.end += size
        expected = Expected(partition, self.progress.deliver(partition, end=self.end, generation=1))
        self.model.append(expected)
        return expected

    @rule(expected=deliveries)
    def process(self, expected: Expected) -> None:
        self.progress.mark_processed(expected.delivery)
        expected.processed = True

    @rule(expected=consumes(deliveries))
    def finish(self, expected: Expected) -> None:
        self.progress.mark_done(expected.delivery)
        expected.processed = expected.done = True

    @rule(target=deliveries, partition=st.integers(0, 2))
    def take_back(self, partition: int) -> object:
        self.progress.take_back(partition)
        for expected in self.model:
            if expected.partition == partition:
                expected.valid = False
        return multiple()

    @invariant()
    def agrees(self) -> None:
        valid = [expected for expected in self.model if expected.valid]
        assert self.progress.unprocessed == sum(not expected.processed for expected in valid)
        for partition in range(3):
            end = None
            for expected in valid:
                if expected.partition == partition:
                    if not expected.done:
                        break
                    end = expected.delivery.end
            assert self.progress.committable(partition) == end


ProgressMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestProgressMachine = ProgressMachine.TestCase
