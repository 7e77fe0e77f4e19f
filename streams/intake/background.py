"""Iterate over something that blocks, such as lines typed at a terminal, without blocking the event loop."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

Item = TypeVar("Item")

#: Items read ahead of the consumer.
_READ_AHEAD = 1000


async def in_background(items: Iterable[Item]) -> AsyncIterator[Item]:
    """Yield the items, which a thread of their own produces; an error of theirs is raised here.

    The thread is a daemon: a read that never returns keeps nobody from ending the program.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[tuple[Item] | BaseException | None] = asyncio.Queue()
    room = threading.Semaphore(_READ_AHEAD)
    abandoned = threading.Event()

    def produce() -> None:
        last: BaseException | None = None
        try:
            for item in items:
                room.acquire()
                if abandoned.is_set():
                    return
                loop.call_soon_threadsafe(queue.put_nowait, (item,))
        except Exception as error:  # raised again where the items are wanted
            last = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(queue.put_nowait, last)

    threading.Thread(target=produce, name="reader", daemon=True).start()
    try:
        while isinstance(got := await queue.get(), tuple):
            room.release()
            yield got[0]
        if got is not None:
            raise got
    finally:
        abandoned.set()
        room.release()
