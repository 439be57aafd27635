"""What can go wrong between this client and its peer, as exceptions. Plain Python 3.11.

Every failure that the other side can cause is one of these; anything else that is raised is a fault of the caller.
"""


class FpnnFailed(Exception):
    """The root of all of them."""


class PayloadInvalid(FpnnFailed):
    """Bytes that are not msgpack, or a value that cannot be written as such."""


class FrameInvalid(FpnnFailed):
    """Bytes that are not a frame, or a frame that cannot be written."""


class KeyInvalid(FpnnFailed):
    """A public or private key that is not one of its curve."""


class HandshakeFailed(FpnnFailed):
    """The peer did not agree to speak WebSocket."""


class PeerInvalid(FpnnFailed):
    """Well-formed frames that make no sense: an answer to a quest that is not open."""


class ConnectionLost(FpnnFailed):
    """The peer closed, or cannot be reached."""


class TimedOut(FpnnFailed):
    """Nothing came within the time allowed. The quest is given up; its late answer will be dropped."""


class AnswerError(FpnnFailed):
    """The peer answered with status 1. `code` is an int, `ex` the text, `answer` the whole map."""

    def __init__(self, code, ex, answer=None):
        super().__init__(f"{code}: {ex}")
        self.code = code
        self.ex = ex
        self.answer = answer if answer is not None else {"code": code, "ex": ex}
