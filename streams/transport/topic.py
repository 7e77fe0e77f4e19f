"""Topics whose agents receive whole slices of partitions as one event."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faust.events import Event
from faust.topics import Topic
from faust.types import TP, AppT

from streams.transport.batch import BatchMessage

Hook = Callable[[frozenset[TP]], Awaitable[None]]


@dataclass(slots=True)
class Hooks:
    """What an agent wants to be asked or told about its partitions; shared by a topic and Faust's clones of it."""

    before_release: Hook | None = None
    after_takeover: Hook | None = None


class BatchTopic(Topic):
    """A topic, or several with equal partition counts, whose stream yields tuples of `Batch`.

    topic = BatchTopic(app, topics=["calls", "compactions"])

    @app.agent(topic)
    async def process(stream):
        async for batches in stream: ...

    A batch holds records of one partition of one topic, `max_records` at most. At a low load the batches of one fetch come
    together, one of each partition, so that what has to be done once for each of them can be done once for all. Raw bytes in
    and out: what they mean is the agent's.
    """

    def __init__(
        self, app: AppT, *, topics: Sequence[str], max_records: int = 2000, hooks: Hooks | None = None, **options: Any
    ) -> None:
        self.max_records = max_records
        self.hooks = hooks or Hooks()
        raw = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw", "value_serializer": "raw"}
        super().__init__(app, topics=topics, **{**options, **raw})

    def before_release(self, hook: Hook) -> Hook:
        """Set the hook that is awaited before partitions are given back: write what is pending, mark it done.

        It runs when the agent is through with its current batch, before the last commit of a revocation or a graceful stop. A
        `StaleBatch` out of it is no fault: what it did not mark done is delivered again. (Decorator.)
        """
        self.hooks.before_release = hook
        return hook

    def after_takeover(self, hook: Hook) -> Hook:
        """Set the hook that is awaited when delivery starts over at the committed offsets: forget decoded states.

        That is after every rebalance, once the tables are recovered, and after a lease that ended without one. All
        batches delivered before are void; others may have written the tables. It gets all assigned partitions.
        (Decorator.)
        """
        self.hooks.after_takeover = hook
        return hook

    def _clone_args(self) -> Mapping[str, Any]:
        return {**super()._clone_args(), "max_records": self.max_records, "hooks": self.hooks}

    def _compile_decode(self) -> None:
        # Faust replaces `decode` on each instance, so a method of that name would not be called.
        app = self.app

        async def decode(message: BatchMessage, *, propagate: bool = False) -> Event:
            return Event(app, None, message.batches, None, message)

        self.decode = decode  # type: ignore[assignment]  # narrower than Faust's: only our consumer feeds this topic
