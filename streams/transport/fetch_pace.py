"""How long fetches wait at the broker: for the first record when there is nothing to do, for company while records come.

At a low load most of a worker's time goes into rounds, not into records: a fetch, its decoding, a hop between threads, a batch,
an acknowledged write. The broker is the place to wait for company: a client that waits by itself has asked too early, and what
came in the meantime lies in its buffer for another round.
"""

from typing import Any

#: Milliseconds a fetch waits for a first record. Faust asks for 1500; aiokafka keeps one fetch in flight per broker, so a fetch
#: that waits on idle partitions holds up the busy ones all that time.
IDLE_WAIT_MS = 100

#: Milliseconds a fetch waits for more while records come, and the bytes that are company enough: about 200 events.
COMPANY_WAIT_MS = 8
COMPANY_BYTES = 64 * 1024


class FetchPace:
    """Sets waits and sizes of an aiokafka `Fetcher`'s requests, broker by broker, by what the one before brought."""

    def __init__(self, fetcher: Any) -> None:
        self._send = fetcher._proc_fetch_request
        self._busy: set[Any] = set()
        fetcher._proc_fetch_request = self._fetch

    async def _fetch(self, assignment: Any, node: Any, request: Any) -> bool:
        busy = node in self._busy
        request._max_wait_ms = COMPANY_WAIT_MS if busy else IDLE_WAIT_MS
        request._min_bytes = COMPANY_BYTES if busy else 1
        brought = bool(await self._send(assignment, node, request))
        (self._busy.add if brought else self._busy.discard)(node)
        return brought
