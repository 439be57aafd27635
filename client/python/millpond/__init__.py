"""Inference pipelines in this process, and calls to a Millpond server, over one core in Rust.

    >>> import millpond
    >>> @millpond.backend
    ... def shout(batch):
    ...     return [text.upper() for text in batch]
    >>> with millpond.Pipeline({"stages": {"shout": {"backend": shout}}}) as pipe:
    ...     pipe({"data": "calm"})
    {'shout': b'CALM'}

    >>> user = {"id": "246", "age": "18-24", "gender": "M", "occupation": "student"}
    >>> with millpond.Client("127.0.0.1:13500") as client:
    ...     client.call("rank", {"user": user, "items": ["50", "181"]}, deadline_ms=50)
    {'items': ['50', '181'], 'scores': [0.81, 0.43], 'model': 'ranker', 'versions': {'embeddings': 1}}

`Pipeline` runs models, functions and stages on this process's threads. `Client` waits for a server, `AsyncClient` is awaited; both pool their
connections, pipeline their calls and keep deadlines. docs/python.md is the guide to both halves, docs/methods.md lists a server's methods.
"""

from millpond._asyncio import AsyncClient
from millpond._backend import backend
from millpond._client import Client
from millpond._endpoint import HedgeCounts
from millpond._errors import (
    ClosedError,
    ConfigError,
    ConnectError,
    Error,
    InputError,
    ModelError,
    OverloadedError,
    ProtocolError,
    StatusError,
    TableError,
    TimeoutError,
    TlsError,
    TooManyInFlightError,
    UnsendableError,
)
from millpond._native import VERSION as __version__
from millpond._native import Server, Tensor
from millpond._pipeline import Future, Pipeline, serve
from millpond._tables import BuiltTable, build_table

__all__ = [
    "AsyncClient",
    "BuiltTable",
    "Client",
    "ClosedError",
    "ConfigError",
    "ConnectError",
    "Error",
    "Future",
    "HedgeCounts",
    "InputError",
    "ModelError",
    "OverloadedError",
    "Pipeline",
    "ProtocolError",
    "Server",
    "StatusError",
    "TableError",
    "Tensor",
    "TimeoutError",
    "TlsError",
    "TooManyInFlightError",
    "UnsendableError",
    "__version__",
    "backend",
    "build_table",
    "serve",
]
