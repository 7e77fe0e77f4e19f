"""A TCP proxy on loopback between workers and a broker: slow, cut or silent, as a network can be."""

import asyncio
import contextlib
from types import TracebackType
from typing import Self

_CHUNK = 64 * 1024


class Proxy:
    """Forwards connections to `target_port`.

    `delay` (seconds) holds each piece of an answer back; `silence()` keeps connections open and lets nothing through; `cut()`
    closes all connections and refuses new ones; `restore()` ends both.
    """

    def __init__(self, target_port: int, *, delay: float = 0.0, bytes_per_second: float | None = None) -> None:
        self.delay = delay
        self.bytes_per_second = bytes_per_second
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._port = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._refusing = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The port to connect to."""
        return self._port

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.cut()
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Close all connections and refuse new ones."""
        self._refusing = True
        for writer in list(self._open):
            writer.transport.abort()

    def silence(self) -> None:
        """Let nothing through, in either direction; connections stay."""
        self._flowing.clear()

    def restore(self) -> None:
        """Let everything through again."""
        self._refusing = False
        self._flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._refusing:
            writer.transport.abort()
            return
        self._open.add(writer)
        try:
            with contextlib.suppress(OSError):
                upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
                self._open.add(upstream_writer)
                try:
                    there = asyncio.ensure_future(self._pump(reader, upstream_writer, 0.0))
                    back = asyncio.ensure_future(self._pump(upstream_reader, writer, self.delay))
                    await asyncio.wait([there, back], return_when=asyncio.FIRST_COMPLETED)
                    there.cancel()
                    back.cancel()
                    await asyncio.gather(there, back, return_exceptions=True)
                finally:
                    self._open.discard(upstream_writer)
                    upstream_writer.transport.abort()
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(_CHUNK):
                if delay:
                    await asyncio.sleep(delay)
                if self.bytes_per_second is not None:
                    await asyncio.sleep(len(piece) / self.bytes_per_second)
                await self._flowing.wait()
                writer.write(piece)
                await writer.drain()
