"""What both clients have in common: where they connect to, their limits and their habits."""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

from millpond import _native
from millpond._errors import Error


class HedgeCounts(NamedTuple):
    """What hedging has done since a client was made."""

    #: Second attempts sent.
    sent: int
    #: Of these, those whose answer was used.
    won: int
    #: Second attempts not sent, because they would have been more than `hedge_percent_max`.
    held_back: int


class Endpoint:
    """A server and the limits of a client.

    `address` is "HOST:PORT", "unix:PATH" or "tls://HOST:PORT", or several of them with commas between. `connections` are opened to each
    and shared by all calls, each of which goes to the one with the fewest under way. `connect_timeout_ms` is for each of them to
    be made, `frame_bytes_max` the size of one call or answer, `in_flight_max` how many calls may be under way on one connection.

    A connection that cannot be made is tried again after a random wait, whose ceiling doubles from `backoff_ms_first` to
    `backoff_ms_max`; calls until then fail at once. With `keep_alive_ms` each connection is pinged that often.

    With `hedge_after_ms`, calls made with `hedged=True` are tried a second time elsewhere when there is no answer after so long ("p95":
    the time that 95 of 100 of them took), for at most `hedge_percent_max` of 100 calls.

    Addresses that begin with tls:// need `tls_ca`, a PEM file of the authority that the server's certificate must come from.
    `tls_server_name` is what it must be for, if not the address's host; `tls_certificate` and `tls_key` are shown to a server that asks.

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
        keep_alive_ms: float | None = None,
        backoff_ms_first: float = 50,
        backoff_ms_max: float = 5000,
        hedge_after_ms: float | Literal["p95"] | None = None,
        hedge_percent_max: int = 5,
        tls_ca: str | os.PathLike[str] | None = None,
        tls_server_name: str | None = None,
        tls_certificate: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
    ) -> None:
        self._address = address
        given: _native.Given = {
            "connections": connections,
            "connect_timeout_ms": connect_timeout_ms,
            "frame_bytes_max": frame_bytes_max,
            "in_flight_max": in_flight_max,
            "keep_alive_ms": keep_alive_ms,
            "backoff_ms_first": backoff_ms_first,
            "backoff_ms_max": backoff_ms_max,
            "hedge_after_ms": hedge_after_ms,
            "hedge_percent_max": hedge_percent_max,
            "tls_ca": tls_ca,
            "tls_server_name": tls_server_name,
            "tls_certificate": tls_certificate,
            "tls_key": tls_key,
        }
        self._options = _native.Options(address, given)
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

    @property
    def hedge_counts(self) -> HedgeCounts:
        """What hedging has done since the client was made."""
        return HedgeCounts(*self._connected().hedge_counts())

    def __repr__(self) -> str:
        return f"<millpond.{type(self).__name__} of {self._address}>"
