"""The client that waits: for threads."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Literal, Self

from millpond import _native
from millpond._endpoint import Endpoint


class Client(Endpoint):
    """Calls that wait for their answer; any number of threads may share one client.

    Connecting happens here: `ConnectError` when it fails. A connection that closes later is opened again by the next call.
    The interpreter is let go while a call waits, and Ctrl-C ends the wait. No call is repeated unless it is `hedged`.
    """

    def _opened(self) -> _native.Pool:
        return _native.Pool.connect(self._options)

    def call(
        self,
        method: str,
        payload: dict[str, Any],
        deadline_ms: float | None = None,
        *,
        hedged: bool = False,
        priority: int | None = None,
    ) -> dict[str, Any]:
        """Calls a method and returns its answer.

        The deadline covers everything, and travels to the server, which drops work that comes too late; without one a call
        waits for as long as its connection lives. `hedged` says that the call may run twice, and has a second attempt made when
        it is slow (the client's `hedge_after_ms`). `priority` is a level from 0 (first) to 9, and 5 without one: while calls wait for a
        model, those of a better level go first. Raises `TypeError` or `ValueError` for a payload that cannot be sent, naming the
        place, and otherwise a `millpond.Error`.
        """
        return self._connected().call(method, payload, deadline_ms, hedged, priority=priority)

    def call_raw(
        self,
        method: str,
        payload: bytes,
        deadline_ms: float | None = None,
        *,
        encoding: Literal["msgpack", "json"] = "msgpack",
        hedged: bool = False,
        priority: int | None = None,
    ) -> bytes:
        """Calls a method with one encoded map, and returns the answer's map in the same encoding."""
        return self._connected().call_raw(method, payload, deadline_ms, encoding, hedged, priority=priority)

    def oneway(self, method: str, payload: dict[str, Any]) -> None:
        """Queues a call that has no answer.

        When this returns it waits to be written, and `close` writes it; the server does not say whether it came. Of calls on one
        connection the server reads the earlier first.
        """
        self._connected().oneway(method, payload)

    def close(self) -> None:
        """Takes no more calls, writes what is queued and closes the connections. Calls under way in other threads end with `ClosedError`."""
        self._connected().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
