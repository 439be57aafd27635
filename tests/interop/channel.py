"""What stands between frames and the bytes of a connection: nothing, or FPNN's encryption in one of two modes. Python 3.11.

A channel knows nothing of sockets: `seal` gives the bytes to send for a frame, `open` yields the frames that arrived bytes
complete, and is read to its end before anything else arrives; `replies` is what must be sent back unasked. Its invariant: `open`
yields whole frames, as bytes, in order, and raises FrameInvalid where the stream makes no sense.

The encryption has no authentication, and package mode begins every frame with the same stream: it is spoken here because
FPNN's clients speak it, not because it is good.
"""

import hashlib
import struct
from dataclasses import dataclass

from cryptography.hazmat.decrepit.ciphers.modes import CFB
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES

import frames
from curves import CURVES, KeyPair
from errors import FrameInvalid
from msgpack_codec import text_of

KEY_METHOD = "*key"


def cipher(key, iv):
    """AES in the mode CFB128, with a key of 16 or 32 bytes."""
    return Cipher(AES(key), CFB(iv))


class Plain:
    """Frames as they are."""

    def __init__(self):
        self._splitter = frames.Splitter()

    def seal(self, frame):
        return frame

    def open(self, data):
        return self._splitter.feed(data)

    def replies(self):
        return b""


class Stream(Plain):
    """One CFB stream a direction, both from the same key and iv, over frames as they are."""

    def __init__(self, key, iv):
        super().__init__()
        self._sealing, self._opening = cipher(key, iv).encryptor(), cipher(key, iv).decryptor()

    def seal(self, frame):
        return self._sealing.update(frame)

    def open(self, data):
        return super().open(self._opening.update(data))


class Package(Plain):
    """A u32 little-endian length, then one frame, encrypted from the same key and iv each time."""

    def __init__(self, key, iv):
        super().__init__()
        self._cipher = cipher(key, iv)
        self._buffer = bytearray()

    def seal(self, frame):
        return struct.pack("<I", len(frame)) + self._cipher.encryptor().update(frame)

    def open(self, data):
        self._buffer += data
        while len(self._buffer) >= 4:
            size = struct.unpack_from("<I", self._buffer)[0]
            if not frames.HEAD_BYTES < size <= frames.FRAME_BYTES_MAX:
                raise FrameInvalid(f"no package is of {size} bytes")
            if len(self._buffer) < 4 + size:
                break
            frame = self._cipher.decryptor().update(bytes(self._buffer[4 : 4 + size]))
            if frames.length(frame) != size:
                raise FrameInvalid(f"a package of {size} bytes holds a frame of {frames.length(frame)}")
            del self._buffer[: 4 + size]
            yield frame


def key_and_iv(secret, bits):
    """The key, of 16 or 32 bytes, and the iv, of 16, that a shared secret stands for."""
    if bits == 128:
        key = secret[:16]
    elif bits == 256:
        key = secret if len(secret) == 32 else hashlib.sha256(secret).digest()
    else:
        raise ValueError(f"bits are 128 or 256, not {bits}")
    return key, hashlib.md5(secret).digest()


def of_secret(secret, bits, stream_mode):
    """The channel of a shared secret, at either end."""
    return (Stream if stream_mode else Package)(*key_and_iv(secret, bits))


@dataclass
class Encryption:
    """What a client must know and choose to encrypt: the server's curve and public key (X || Y), bits, mode, its own pair."""

    curve: str
    server_public: bytes
    bits: int = 128
    stream_mode: bool = False
    pair: KeyPair | None = None

    def __post_init__(self):
        self.pair = self.pair or KeyPair.fresh(CURVES[self.curve])

    def params(self):
        """The map of the `*key` quest, which travels in clear."""
        return {"publicKey": text_of(self.pair.public), "streamMode": self.stream_mode, "bits": self.bits}

    def channel(self):
        """What the connection speaks from the answer to `*key` on, that answer included."""
        return of_secret(self.pair.secret(self.server_public), self.bits, self.stream_mode)
