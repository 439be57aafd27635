"""What both clients have in common: where they connect to, and their limits."""

from __future__ import annotations

from millpond import _native
from millpond._errors import Error


class Endpoint:
    """A server and the limits of a client.

    `address` is "HOST:PORT". `connections` are opened together and shared by all calls, each of which goes to the one with the
    fewest under way. `connect_timeout_ms` is for each of them to be made, `frame_bytes_max` the size of one call or answer,
    `in_flight_max` how many calls may be under way on one connection.

    Raises `ValueError` for an option that is out of range.
    """

    def __init__(
        self,
        address: str,
        *,
        connections: int = 1,
        connect_timeout_ms: float = 5000,
        frame_bytes_max: int = 8 * 1024 * 1024,
        in_flight_max: int = 4096,
    ) -> None:
        self._address = address
        self._options = _native.Options(
            address,
            connections=connections,
            connect_timeout_ms=connect_timeout_ms,
            frame_bytes_max=frame_bytes_max,
            in_flight_max=in_flight_max,
        )
        # None until it is connected.
        self._pool = self._opened()

    def _opened(self) -> _native.Pool | None:
        """What the client starts with."""
        return None

    def _connected(self) -> _native.Pool:
        if self._pool is None:
            raise Error(f"this client of {self._address} is not connected yet; use `async with`, or await connect() first")
        return self._pool

    @property
    def late_answers(self) -> int:
        """Answers that came after their caller had gone (its deadline passed, or it was cancelled). They are dropped."""
        return self._connected().late_answers()

    def __repr__(self) -> str:
        return f"<millpond.{type(self).__name__} of {self._address}>"
