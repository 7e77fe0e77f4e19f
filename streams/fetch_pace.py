"""How long fetches wait at the broker: for the first record when there is nothing to do, for company while records come.

At a low load most of a worker's time goes into rounds, not into records: a fetch, its decoding, a hop between threads, a batch,
an acknowledged write. The broker is the place to wait for company: a client that waits by itself has asked too early, and what
came in the meantime lies in its buffer for another round.
"""

from typing import Any

#: Milliseconds a fetch waits for more while records come, and the bytes that are company enough: about 200 events. Apache Kafka
#: answers two or three milliseconds after the time is up.
COMPANY_WAIT_MS = 8
COMPANY_BYTES = 64 * 1024

#: Milliseconds a fetch waits for a first record at most; twice as long as the one before that brought nothing. Faust asks for
#: 1500; aiokafka keeps one fetch in flight per broker, so one that waits on idle partitions holds up those just resumed.
IDLE_WAIT_MS = 100


class FetchPace:
    """Sets waits and sizes of an aiokafka `Fetcher`'s requests, broker by broker, by what those before have brought.

    `idle_wait_ms` is the longest wait for a first record, `company_bytes` what is waited for while records come; 1 means that
    each is sent at once, and the embedded broker, which looks for records when a wait begins, is half over and ends, looks often.
    """

    def __init__(self, fetcher: Any, *, idle_wait_ms: int = IDLE_WAIT_MS, company_bytes: int = COMPANY_BYTES) -> None:
        self._send = fetcher._proc_fetch_request
        self._idle_wait_ms = idle_wait_ms
        self._company_bytes = company_bytes
        #: How many answers in a row were empty.
        self._empty: dict[Any, int] = {}
        fetcher._proc_fetch_request = self._fetch

    async def _fetch(self, assignment: Any, node: Any, request: Any) -> bool:
        empty = self._empty.get(node, 0)
        request._max_wait_ms = min(self._idle_wait_ms, COMPANY_WAIT_MS << min(empty, 10))
        request._min_bytes = 1 if empty else self._company_bytes
        brought = bool(await self._send(assignment, node, request))
        self._empty[node] = 0 if brought else empty + 1
        return brought
