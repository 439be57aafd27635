"""WebSocket (RFC 6455) as a channel of FPNN frames: each binary message is one whole frame. Plain Python 3.11.

It knows nothing of sockets. Its invariant: `open` yields whole messages in order, whatever fragments and control frames stood
between, and nothing longer than FPNN's limit is gathered.
"""

import base64
import hashlib
import os
import struct

import frames
from errors import ConnectionLost, FrameInvalid, HandshakeFailed

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
NORMAL_CLOSURE = 1000
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def fresh_key():
    """A random Sec-WebSocket-Key: the base64 of 16 bytes."""
    return base64.b64encode(os.urandom(16)).decode()


def accept_of(key):
    """The Sec-WebSocket-Accept that answers a key (RFC 6455, section 4.2.2)."""
    return base64.b64encode(hashlib.sha1((key + _GUID).encode()).digest()).decode()


def request(host, path, key):
    """The bytes of the client's handshake."""
    return (
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()


def response(key):
    """The bytes of the server's handshake."""
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept_of(key)}\r\n\r\n"
    ).encode()


def headers_of(head):
    """The first line, and the headers by name in small letters, of an HTTP head that ends with an empty line."""
    first, *rest = head.decode("latin-1").split("\r\n")
    pairs = (line.split(":", 1) for line in rest if ":" in line)
    return first, {name.strip().lower(): value.strip() for name, value in pairs}


def check_response(head, key):
    """HandshakeFailed unless `head` is the server's agreement to this key."""
    first, headers = headers_of(head)
    if first.split(" ")[1:2] != ["101"]:
        raise HandshakeFailed(f"the answer to the upgrade is {first!r}, not 101")
    if headers.get("upgrade", "").lower() != "websocket" or "upgrade" not in headers.get("connection", "").lower():
        raise HandshakeFailed("the answer to the upgrade names no websocket")
    if headers.get("sec-websocket-accept") != accept_of(key):
        raise HandshakeFailed(f"Sec-WebSocket-Accept is {headers.get('sec-websocket-accept')!r}, not that of our key")


def write(opcode, payload, masked, fin=True):
    """The bytes of one WebSocket frame; a client's are masked, a server's are not."""
    first = (0x80 if fin else 0) | opcode
    mask_bit = 0x80 if masked else 0
    if len(payload) < 126:
        head = struct.pack(">BB", first, mask_bit | len(payload))
    elif len(payload) < 1 << 16:
        head = struct.pack(">BBH", first, mask_bit | 126, len(payload))
    else:
        head = struct.pack(">BBQ", first, mask_bit | 127, len(payload))
    if not masked:
        return head + payload
    mask = os.urandom(4)
    return head + mask + _masked(payload, mask)


def _masked(payload, mask):
    stretched = (mask * (len(payload) // 4 + 1))[: len(payload)]
    return (int.from_bytes(payload) ^ int.from_bytes(stretched)).to_bytes(len(payload))


class WebSocket:
    """One end of a connection after its handshake. `client` masks and wants no masks, the server's end the other way."""

    def __init__(self, client=True):
        self._client = client
        self._buffer = bytearray()
        # The message whose last fragment has not come, or None.
        self._message = None
        self._replies = bytearray()
        # Payloads of the pongs that came, in order; the caller takes them out.
        self.pongs = []

    def seal(self, frame):
        return write(BINARY, frame, self._client)

    def ping(self, payload):
        """The bytes of a ping."""
        return write(PING, payload, self._client)

    def close(self, code=NORMAL_CLOSURE):
        """The bytes of a close."""
        return write(CLOSE, struct.pack(">H", code), self._client)

    def replies(self):
        taken = bytes(self._replies)
        self._replies.clear()
        return taken

    def open(self, data):
        """Yields the FPNN frames that `data` completes. ConnectionLost at the peer's close, whose echo is then in `replies`."""
        self._buffer += data
        while (one := self._take()) is not None:
            message = self._received(*one)
            if message is not None:
                if frames.length(message) != len(message):
                    raise FrameInvalid(f"a message of {len(message)} bytes is not one frame")
                yield message

    def _take(self):
        """(fin, opcode, payload) of the frame that begins the buffer, taken out of it; None before it is whole."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        fin, opcode, masked, size, at = buffer[0] & 0x80, buffer[0] & 0x0F, buffer[1] & 0x80, buffer[1] & 0x7F, 2
        self._check_head(buffer[0], bool(masked), size)
        if size >= 126:
            form = ">H" if size == 126 else ">Q"
            at += struct.calcsize(form)
            if len(buffer) < at:
                return None
            size = struct.unpack_from(form, buffer, 2)[0]
        gathered = len(self._message or b"") if opcode < CLOSE else 0
        if gathered + size > frames.FRAME_BYTES_MAX:
            raise FrameInvalid(f"a message of {gathered + size} bytes is longer than the limit, {frames.FRAME_BYTES_MAX}")
        at += 4 if masked else 0
        if len(buffer) < at + size:
            return None
        payload = bytes(buffer[at : at + size])
        if masked:
            payload = _masked(payload, bytes(buffer[at - 4 : at]))
        del buffer[: at + size]
        return bool(fin), opcode, payload

    def _check_head(self, first, masked, size):
        if first & 0x70:
            raise FrameInvalid(f"reserved bits are set: {first:#04x}")
        if masked == self._client:
            raise FrameInvalid("a server masks nothing" if masked else "a client masks everything")
        if first & 0x08 and (size > 125 or not first & 0x80):
            raise FrameInvalid("a control frame is whole and of at most 125 bytes")

    def _received(self, fin, opcode, payload):
        """The message that one WebSocket frame completes, or None."""
        if opcode == PING:
            self._replies += write(PONG, payload, self._client)
        elif opcode == PONG:
            self.pongs.append(payload)
        elif opcode == CLOSE:
            self._replies += write(CLOSE, payload[:2], self._client)
            code = struct.unpack(">H", payload[:2])[0] if len(payload) >= 2 else "no code"
            raise ConnectionLost(f"the peer closed the WebSocket: {code}")
        elif opcode in (CONTINUATION, BINARY):
            return self._fragment(fin, opcode, payload)
        else:
            raise FrameInvalid(f"opcode {opcode} carries no FPNN frame")
        return None

    def _fragment(self, fin, opcode, payload):
        if (opcode == CONTINUATION) != (self._message is not None):
            raise FrameInvalid("a continuation without a beginning, or a second beginning")
        self._message = (self._message or bytearray()) + payload
        if not fin:
            return None
        message, self._message = bytes(self._message), None
        return message
