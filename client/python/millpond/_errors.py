"""How a call can end without an answer: one class for each case that a caller handles differently.

The native half raises them by name and sets the attributes. Their text says what, where, and a hint.
"""

import builtins


class Error(Exception):
    """What every error of a client is. Raised itself for a client of another process (after a fork) or one that never connected."""

    #: Whether the call may have been worked on. Where it is false, repeating the call is safe whatever it does.
    may_have_run: bool = False


class ConnectError(Error, ConnectionError):
    """No connection could be made. The call was not sent."""

    address: str
    #: How long no connection to it is tried; calls until then fail at once. 0: the next call tries.
    retry_after_ms: float


class TlsError(Error, ConnectionError):
    """The TLS options cannot be used, or one side does not take the other's certificate or speaks no TLS 1.3. The call was not sent."""

    address: str
    #: As of `ConnectError`.
    retry_after_ms: float


class ClosedError(Error, ConnectionError):
    """The connection closed before the answer, and the call may have run or not; or the client itself was closed before the call."""

    address: str


class TimeoutError(Error, builtins.TimeoutError):
    """The deadline passed first. The call may have run or not."""

    address: str
    method: str
    deadline_ms: float


class StatusError(Error):
    """The server answered with an error; docs/methods.md has the table of codes."""

    code: int
    #: The code's name: "Overloaded".
    name: str
    #: The server's words.
    message: str
    #: Whether the same call may succeed later, here or elsewhere.
    retryable: bool


class ProtocolError(Error):
    """The server sent what no server of this protocol sends."""

    address: str


class TooManyInFlightError(Error):
    """Every connection has as many calls under way as it may have. The call was not sent."""

    address: str


class UnsendableError(Error):
    """The call cannot be written as a frame: it is too large, or its method's name is. It was not sent."""

    method: str


class ConfigError(Error, ValueError):
    """A configuration cannot be used: a key, a value, or what it names. Nothing was started."""


class TableError(Error, ValueError):
    """A feature table cannot be built: an option, a row, or what is on the disk. No version appeared."""


class InputError(Error, ValueError):
    """The inputs of a call are not what its pipeline reads. Nothing else is wrong with it."""


class ModelError(Error):
    """A model or a backend failed: it raised, gave something else than it should, or cannot run on these inputs."""

    #: Its name in the configuration; that of its stage where it has none.
    model: str
    #: Of what a Python backend raised; empty otherwise.
    traceback: str


class OverloadedError(Error):
    """A model has as much waiting as it may, or would answer after the deadline. The call did not run; offer less, or try later."""

    model: str
