"""FPNN frames of TCP, version 1, both ways, and the maps that they carry. Python 3.11.

Written from the protocol's description and captured frames alone; it shares nothing with the Rust code that it is tested
against. It knows nothing of sockets. Its invariant: whatever bytes come in, the outcome is a frame, "not whole yet" or
FrameInvalid, and no length beyond the limit is waited for.

    off size field                                  then (quests) the method, and the payload: one map
    0   4    "FPNN"
    4   1    version, 1
    5   1    flags: 0x80 msgpack, 0x40 JSON
    6   1    mtype: 0 oneway quest, 1 twoway quest, 2 answer
    7   1    quest: length of the method in bytes; answer: status, 0 ok, 1 error
    8   4    length of the payload in bytes, little-endian
    12  4    seq, little-endian; absent in a oneway quest
"""

import json
import struct
from dataclasses import dataclass

import msgpack_codec
from errors import FrameInvalid, PayloadInvalid

MAGIC = b"FPNN"
VERSION = 1
MSGPACK = 0x80
JSON = 0x40
ONEWAY, TWOWAY, ANSWER = 0, 1, 2
# The shortest frame's header; the first read needs no more.
HEAD_BYTES = 12
# A whole frame, method and seq included.
FRAME_BYTES_MAX = 8 * 1024 * 1024
FLAGS = {"msgpack": MSGPACK, "json": JSON}


@dataclass(frozen=True)
class Frame:
    """One frame: `method` is text in quests and "" in answers, `status` 0 or 1 in answers, `seq` None in oneway quests."""

    mtype: int
    payload: bytes
    seq: int | None = None
    method: str = ""
    status: int = 0
    flags: int = MSGPACK
    version: int = VERSION

    def params(self):
        """The map that the payload holds. PayloadInvalid when there is none."""
        return decode_map(self.payload, self.flags)

    def answer(self, params, status=0):
        """The answer to this quest: its header, with mtype, status, payload and seq of its own."""
        payload = encode_map(params, self.flags)
        return Frame(ANSWER, payload, self.seq, status=status, flags=self.flags, version=self.version)

    def error(self, code, ex):
        """The error answer to this quest."""
        return self.answer({"code": code, "ex": ex}, status=1)


def quest(method, params, seq=None, encoding="msgpack"):
    """A quest of the map `params`; oneway without a seq."""
    flags = FLAGS[encoding]
    return Frame(ONEWAY if seq is None else TWOWAY, encode_map(params, flags), seq, method, flags=flags)


def encode_map(params, flags):
    """The payload of a map, in the encoding that the flags name."""
    if not isinstance(params, dict):
        raise PayloadInvalid(f"a payload is a map, not a {type(params).__name__}")
    if flags & MSGPACK:
        return msgpack_codec.encode(params)
    try:
        return json.dumps(params, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise PayloadInvalid(f"JSON has no form for this: {error}") from error


def decode_map(payload, flags):
    """The map of a payload, by the encoding that the flags name."""
    if flags & MSGPACK:
        found = msgpack_codec.decode(payload)
    else:
        try:
            found = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise PayloadInvalid(f"a payload is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise PayloadInvalid(f"a payload is a map, not a {type(found).__name__}")
    return found


def encode(frame):
    """The bytes of a frame. FrameInvalid for one that would break a rule of the protocol."""
    method = frame.method.encode()
    if frame.mtype == ANSWER:
        _require(not method, "an answer has no method")
        ss = frame.status
    else:
        ss = len(method)
        _require(1 <= ss <= 255, f"a method is of 1..255 bytes, not {ss}")
    _require((frame.seq is None) == (frame.mtype == ONEWAY), "a oneway quest has no seq, any other frame has one")
    _check_header(frame.flags, frame.mtype, ss, len(frame.payload))
    head = MAGIC + struct.pack("<BBBBI", frame.version, frame.flags, frame.mtype, ss, len(frame.payload))
    seq = b"" if frame.seq is None else struct.pack("<I", frame.seq)
    whole = head + seq + method + frame.payload
    _require(len(whole) <= FRAME_BYTES_MAX, f"{len(whole)} bytes are more than the limit, {FRAME_BYTES_MAX}")
    return whole


def length(data, limit=FRAME_BYTES_MAX):
    """The bytes of the frame that begins at `data`, known from its first twelve; None before those are there."""
    _require(MAGIC.startswith(bytes(data[:4])), f"frames begin with FPNN, not with {bytes(data[:4])!r}")
    if len(data) < HEAD_BYTES:
        return None
    flags, mtype, ss, psize = struct.unpack_from("<BBBI", data, 5)
    _check_header(flags, mtype, ss, psize)
    whole = (HEAD_BYTES if mtype == ONEWAY else HEAD_BYTES + 4) + (0 if mtype == ANSWER else ss) + psize
    _require(whole <= limit, f"{whole} bytes are more than the limit, {limit}")
    return whole


def decode(data):
    """The frame that `data` holds from its first byte to its last."""
    whole = length(data)
    _require(whole == len(data), f"{len(data)} bytes are not one frame of {whole or 'at least 12'}")
    version, flags, mtype, ss, psize = struct.unpack_from("<BBBBI", data, 4)
    payload = bytes(data[whole - psize :])
    seq = None if mtype == ONEWAY else struct.unpack_from("<I", data, 12)[0]
    if mtype == ANSWER:
        return Frame(mtype, payload, seq, status=ss, flags=flags, version=version)
    try:
        method = bytes(data[whole - psize - ss : whole - psize]).decode()
    except UnicodeDecodeError as error:
        raise FrameInvalid(f"a method is not UTF-8: {error}") from error
    return Frame(mtype, payload, seq, method, flags=flags, version=version)


def _check_header(flags, mtype, ss, psize):
    _require(bool(flags & MSGPACK) != bool(flags & JSON), f"flags name msgpack or JSON, not {flags:#04x}")
    _require(mtype in (ONEWAY, TWOWAY, ANSWER), f"mtype is 0, 1 or 2, not {mtype}")
    _require(ss <= 1 if mtype == ANSWER else ss >= 1, f"ss cannot be {ss} where mtype is {mtype}")
    _require(psize > 0, "a payload is a map, which takes a byte at least")


def _require(holds, otherwise):
    if not holds:
        raise FrameInvalid(otherwise)


class Splitter:
    """Cuts a stream into frames, however its bytes were dealt out."""

    def __init__(self, limit=FRAME_BYTES_MAX):
        self._buffer = bytearray()
        self._limit = limit

    def feed(self, data):
        """Yields the frames, as bytes, that `data` completes. FrameInvalid, then nothing more can be fed."""
        self._buffer += data
        while self._buffer:
            whole = length(self._buffer, self._limit)
            if whole is None or len(self._buffer) < whole:
                break
            frame = bytes(self._buffer[:whole])
            del self._buffer[:whole]
            yield frame
