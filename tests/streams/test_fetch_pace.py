"""How long fetches wait at the broker, and for how much."""

from typing import Any

from aiokafka.protocol.fetch import FetchRequest, FetchRequest_v4

from streams.fetch_pace import COMPANY_BYTES, COMPANY_WAIT_MS, IDLE_WAIT_MS, FetchPace


class Fetcher:
    """Answers fetches as told."""

    def __init__(self) -> None:
        self.brings = True
        self.asked: list[tuple[int, int]] = []

    async def _proc_fetch_request(self, assignment: Any, node: Any, request: Any) -> bool:
        sent = request.build(FetchRequest_v4)
        self.asked.append((sent.max_wait_time, sent.min_bytes))
        return self.brings

    async def fetch(self, node: int = 1, *, brings: bool) -> tuple[int, int]:
        """Fetch from a node and return the wait and the size that were asked for."""
        self.brings = brings
        request = FetchRequest(500, 1, 1_000, 0, [])
        assert await self._proc_fetch_request(None, node, request) is brings
        return self.asked[-1]


async def test_waits_for_company_while_records_come() -> None:
    fetcher = Fetcher()
    FetchPace(fetcher)
    for _ in range(3):
        assert await fetcher.fetch(brings=True) == (COMPANY_WAIT_MS, COMPANY_BYTES)


async def test_waits_for_a_first_record_ever_longer_while_none_comes() -> None:
    fetcher = Fetcher()
    FetchPace(fetcher)
    waits = [await fetcher.fetch(brings=False) for _ in range(2_000)]
    assert waits[:6] == [
        (COMPANY_WAIT_MS, COMPANY_BYTES),
        (2 * COMPANY_WAIT_MS, 1),
        (4 * COMPANY_WAIT_MS, 1),
        (8 * COMPANY_WAIT_MS, 1),
        (IDLE_WAIT_MS, 1),
        (IDLE_WAIT_MS, 1),
    ]
    assert waits[-1] == (IDLE_WAIT_MS, 1)
    assert await fetcher.fetch(brings=True) == (IDLE_WAIT_MS, 1)
    assert await fetcher.fetch(brings=True) == (COMPANY_WAIT_MS, COMPANY_BYTES)


async def test_an_idle_broker_does_not_make_another_wait() -> None:
    fetcher = Fetcher()
    FetchPace(fetcher, idle_wait_ms=50)
    for _ in range(5):
        await fetcher.fetch(1, brings=False)
        assert await fetcher.fetch(2, brings=True) == (COMPANY_WAIT_MS, COMPANY_BYTES)
    assert await fetcher.fetch(1, brings=False) == (50, 1)
