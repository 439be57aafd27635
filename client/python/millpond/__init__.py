"""Calls to a Millpond server, from threads and from asyncio, over one core in Rust.

    >>> import millpond
    >>> user = {"id": "246", "age": "18-24", "gender": "M", "occupation": "student"}
    >>> with millpond.Client("127.0.0.1:13500") as client:
    ...     client.call("rank", {"user": user, "items": ["50", "181"]}, deadline_ms=50)
    {'items': ['50', '181'], 'scores': [0.81, 0.43], 'model': 'ranker', 'versions': {'embeddings': 1}}

`Client` waits, `AsyncClient` is awaited; both pool their connections, pipeline their calls and keep deadlines. Which methods
there are and what they take is docs/methods.md; how payloads look in Python, errors, threads and forks are docs/python.md.
"""

from millpond._asyncio import AsyncClient
from millpond._client import Client
from millpond._endpoint import HedgeCounts
from millpond._errors import (
    ClosedError,
    ConnectError,
    Error,
    ProtocolError,
    StatusError,
    TimeoutError,
    TlsError,
    TooManyInFlightError,
    UnsendableError,
)
from millpond._native import VERSION as __version__
from millpond._native import Tensor

__all__ = [
    "AsyncClient",
    "Client",
    "ClosedError",
    "ConnectError",
    "Error",
    "HedgeCounts",
    "ProtocolError",
    "StatusError",
    "Tensor",
    "TimeoutError",
    "TlsError",
    "TooManyInFlightError",
    "UnsendableError",
    "__version__",
]
