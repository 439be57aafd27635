"""The native half, client/python/src. The package's own: its users call `millpond`."""

from typing import Any, Literal, overload

VERSION: str

class Options:
    def __init__(
        self,
        address: str,
        *,
        connections: int,
        connect_timeout_ms: float,
        frame_bytes_max: int,
        in_flight_max: int,
    ) -> None: ...

class Arrivals:
    def __init__(self) -> None: ...
    def fileno(self) -> int: ...
    def take(self) -> list[tuple[int, Any, BaseException | None]]: ...

class Ticket:
    def abandon(self) -> None: ...

_To = tuple[Arrivals, int]

class Pool:
    @overload
    @staticmethod
    def connect(options: Options) -> Pool: ...
    @overload
    @staticmethod
    def connect(options: Options, to: _To) -> Ticket: ...
    @overload
    def call(self, method: str, payload: dict[str, Any], deadline_ms: float | None) -> dict[str, Any]: ...
    @overload
    def call(self, method: str, payload: dict[str, Any], deadline_ms: float | None, to: _To) -> Ticket: ...
    @overload
    def call_raw(
        self, method: str, payload: bytes, deadline_ms: float | None, encoding: Literal["msgpack", "json"]
    ) -> bytes: ...
    @overload
    def call_raw(
        self, method: str, payload: bytes, deadline_ms: float | None, encoding: Literal["msgpack", "json"], to: _To
    ) -> Ticket: ...
    @overload
    def oneway(self, method: str, payload: dict[str, Any]) -> None: ...
    @overload
    def oneway(self, method: str, payload: dict[str, Any], to: _To) -> Ticket: ...
    def late_answers(self) -> int: ...
    def close(self) -> None: ...
