"""The client that is awaited: for asyncio.

Answers come into an event loop through a socket that it watches, any number of them with one wake-up. The invariant: a future
is touched in its own loop only, and what stops waiting, cancelled or not, stops the call.
"""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, Self

from millpond import _native
from millpond._endpoint import Endpoint


class AsyncClient(Endpoint):
    """Calls that are awaited, from any number of tasks, and from loops in several threads.

    Connect with `async with AsyncClient(...) as client`, or `await AsyncClient(...).connect()`. A connection that closes later is
    opened again by the next call. A call that is cancelled takes up nothing any more; the server may still have run it.
    """

    async def connect(self) -> Self:
        """Opens every connection; `ConnectError` when one cannot be made. Returns the client."""
        if self._pool is None:
            pool = await _ended(lambda to: _native.Pool.connect(self._options, to))
            if self._pool is None:
                self._pool = pool
            else:
                # Another task was quicker.
                await _ended(lambda to: pool.close(to))
        return self

    async def call(
        self,
        method: str,
        payload: dict[str, Any],
        deadline_ms: float | None = None,
        *,
        hedged: bool = False,
        priority: int | None = None,
    ) -> dict[str, Any]:
        """Calls a method and returns its answer; as `Client.call`."""
        pool = self._connected()
        answer: dict[str, Any] = await _ended(
            lambda to: pool.call(method, payload, deadline_ms, hedged, to, priority=priority)
        )
        return answer

    async def call_raw(
        self,
        method: str,
        payload: bytes,
        deadline_ms: float | None = None,
        *,
        encoding: Literal["msgpack", "json"] = "msgpack",
        hedged: bool = False,
        priority: int | None = None,
    ) -> bytes:
        """Calls a method with one encoded map, and returns the answer's; as `Client.call_raw`."""
        pool = self._connected()
        answer: bytes = await _ended(
            lambda to: pool.call_raw(method, payload, deadline_ms, encoding, hedged, to, priority=priority)
        )
        return answer

    async def oneway(self, method: str, payload: dict[str, Any]) -> None:
        """Queues a call that has no answer; as `Client.oneway`."""
        pool = self._connected()
        await _ended(lambda to: pool.oneway(method, payload, to))

    async def close(self) -> None:
        """Takes no more calls, writes what is queued and closes the connections. Calls under way in other tasks end with `ClosedError`."""
        if (pool := self._pool) is not None:
            await _ended(lambda to: pool.close(to))

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class _Inbox:
    """What one event loop waits for, by numbers of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.arrivals = _native.Arrivals()
        self.numbers = itertools.count()
        self.waiting: dict[int, asyncio.Future[Any]] = {}
        loop.add_reader(self.arrivals.fileno(), self.deliver)

    def deliver(self) -> None:
        """Delivers the calls that have ended. A caller that no longer waits has removed its number."""
        for number, given, error in self.arrivals.take():
            future = self.waiting.pop(number, None)
            if future is None or future.done():
                continue
            if error is None:
                future.set_result(given)
            else:
                future.set_exception(error)


# Gone with their loops.
_inboxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Inbox] = weakref.WeakKeyDictionary()


async def _ended(begin: Callable[[tuple[_native.Arrivals, int]], _native.Ticket]) -> Any:
    """What the work gave that `begin` handed over."""
    loop = asyncio.get_running_loop()
    inbox = _inboxes.get(loop)
    if inbox is None:
        inbox = _inboxes[loop] = _Inbox(loop)
    number = next(inbox.numbers)
    ticket = begin((inbox.arrivals, number))
    future = inbox.waiting[number] = loop.create_future()
    try:
        return await future
    finally:
        inbox.waiting.pop(number, None)
        ticket.abandon()
