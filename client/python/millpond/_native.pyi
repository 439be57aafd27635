"""The native half, client/python/src. The package's own: its users call `millpond`, which has its classes Tensor and Server."""

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, overload

VERSION: str

class Tensor:
    """A typed array, which never changes while somebody holds it: what pipelines take and give.

    Made of an array of numbers (numpy's, or anything with the buffer protocol or `__dlpack__`), whose memory it shares; of a number, str,
    bytes, or a list of str and bytes. `memoryview`, `numpy.asarray`, `numpy.from_dlpack` and `torch.from_dlpack` read it in place.
    """

    def __init__(self, object: Any) -> None: ...
    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
    @property
    def type(self) -> str:
        """The elements' type: "f32", "bytes"."""
    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
    def numpy(self) -> Any:
        """An array of numpy that shares the elements and cannot be written."""
    def tolist(self) -> Any:
        """The elements as Python's own, in lists as deep as there are dimensions."""
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any: ...
    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Given(TypedDict):
    connections: int
    connect_timeout_ms: float
    frame_bytes_max: int
    in_flight_max: int
    keep_alive_ms: float | None
    backoff_ms_first: float
    backoff_ms_max: float
    hedge_after_ms: float | Literal["p95"] | None
    hedge_percent_max: int
    tls_ca: str | os.PathLike[str] | None
    tls_server_name: str | None
    tls_certificate: str | os.PathLike[str] | None
    tls_key: str | os.PathLike[str] | None

class Options:
    def __init__(self, address: str, given: Given) -> None: ...

class Errand:
    def abandon(self) -> None: ...

class Pipeline:
    def __init__(self, config: dict[str, Any] | str | os.PathLike[str], *, pipeline: str | None = None) -> None: ...
    @overload
    def __call__(
        self, inputs: dict[str, Any], *, deadline_ms: float | None = None, priority: int | None = None
    ) -> dict[str, Any]:
        """Runs it for a dict of values by name and returns a dict of outputs, or for a list of such dicts, together, and returns the
        list of theirs.

        A call that waits past its `deadline_ms` raises a `TimeoutError`; a call whose own thread runs the backend gets its answer, late
        as it may be. `priority` is 0 (first) to 9, 5 when
        left out. The caller must not write to an array that it passed in until the call has ended.
        """
    @overload
    def __call__(
        self, inputs: list[dict[str, Any]], *, deadline_ms: float | None = None, priority: int | None = None
    ) -> list[dict[str, Any]]: ...
    def begin(
        self, inputs: dict[str, Any], deadline_ms: float | None, to: _To, *, priority: int | None = None
    ) -> Errand: ...
    @staticmethod
    def of_torchpipe(
        config: dict[str, Any] | str | os.PathLike[str],
        registered: set[str],
        make: Callable[..., tuple[type, int]],
    ) -> tuple[dict[str, Pipeline], list[str], dict[str, bool]]: ...
    def stats(self) -> dict[str, Any]:
        """What its models and stages have done since it was opened.

        `{"pipeline": name, "models": {name: {"accepted": …, "answered": …, …}}, "stages": {name: {"answered": …, "failed": …,
        "skipped": …, "work_s": …, "wait_s": …}}}`. Models have the counts that `*infos` has: `refused` with its causes, `failed`,
        `batches`, `rows`, `holds` and others. Times are seconds of answered calls together; a stage without a queue has no `wait_s`.
        """
    def close(self) -> None:
        """Refuses new calls and waits up to 10 s for running ones; raises `Error` with the names of what has not ended. Closing
        twice is closing once.
        """

class Server:
    """A server in this process; `millpond.serve` starts it, and the end of a `with` stops it."""

    def __init__(self, config: dict[str, Any] | str | os.PathLike[str], port: int | None = None) -> None: ...
    @property
    def address(self) -> str:
        """"HOST:PORT", where clients connect."""
    @property
    def admin_address(self) -> str | None:
        """"HOST:PORT" of health and metrics."""
    def stop(self) -> None:
        """Finishes what was accepted, and ends. Stopping twice is stopping once."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

def forget_process() -> list[int]: ...
def end_interpreter() -> None: ...
def end_with_server() -> int: ...
def serve_plugin() -> None: ...

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
    def call(
        self,
        method: str,
        payload: dict[str, Any],
        deadline_ms: float | None,
        hedged: bool,
        *,
        priority: int | None = None,
    ) -> dict[str, Any]: ...
    @overload
    def call(
        self,
        method: str,
        payload: dict[str, Any],
        deadline_ms: float | None,
        hedged: bool,
        to: _To,
        *,
        priority: int | None = None,
    ) -> Ticket: ...
    @overload
    def call_raw(
        self,
        method: str,
        payload: bytes,
        deadline_ms: float | None,
        encoding: Literal["msgpack", "json"],
        hedged: bool,
        *,
        priority: int | None = None,
    ) -> bytes: ...
    @overload
    def call_raw(
        self,
        method: str,
        payload: bytes,
        deadline_ms: float | None,
        encoding: Literal["msgpack", "json"],
        hedged: bool,
        to: _To,
        *,
        priority: int | None = None,
    ) -> Ticket: ...
    @overload
    def oneway(self, method: str, payload: dict[str, Any]) -> None: ...
    @overload
    def oneway(self, method: str, payload: dict[str, Any], to: _To) -> Ticket: ...
    def late_answers(self) -> int: ...
    def hedge_counts(self) -> tuple[int, int, int]: ...
    @overload
    def close(self) -> None: ...
    @overload
    def close(self, to: _To) -> Ticket: ...


def build_table(
    rows: Any, remove: Any, options: dict[str, Any], /
) -> tuple[os.PathLike[str], str, int, int, int, int, int]: ...
