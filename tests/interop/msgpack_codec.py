"""msgpack, both ways, from its specification (github.com/msgpack/msgpack/blob/master/spec.md). Plain Python 3.11.

It knows nothing of frames. Its invariant: whatever bytes come in, the outcome is a value or PayloadInvalid, and nothing is
allocated for a length that the bytes do not hold. Values are written in their shortest form.

| msgpack | Python |
|---|---|
| nil, bool, int | None, bool, int of -2^63 .. 2^64 - 1 |
| float 64, float 32 | float, Float32 |
| str | str, or RawText where the bytes are not UTF-8 (FPNN sends public keys so) |
| bin | bytes; bytearray and memoryview are written too |
| array, map | list (tuples are written too), dict with keys of str, RawText or int |
| ext | Ext, carried through unread |
"""

import struct
from typing import NamedTuple

from errors import PayloadInvalid

# Nesting that is followed, so that a few bytes of input cannot exhaust the stack.
DEPTH_MAX = 100


class RawText(bytes):
    """A str of msgpack whose bytes are not, or need not be, UTF-8."""


class Float32(float):
    """A float that travels in four bytes; it was rounded to them."""

    def __new__(cls, value):
        return super().__new__(cls, struct.unpack(">f", struct.pack(">f", value))[0])


class Ext(NamedTuple):
    """An extension: `code` in -128..127 and its bytes."""

    code: int
    data: bytes


def encode(value):
    """The bytes of `value`. PayloadInvalid for what msgpack has no form for."""
    out = bytearray()
    _write(out, value, 0)
    return bytes(out)


def decode(data):
    """The one value that `data` holds from its first byte to its last. PayloadInvalid otherwise."""
    reader = _Reader(data)
    value = reader.value(0)
    if reader.at != len(reader.data):
        raise PayloadInvalid(f"{len(reader.data) - reader.at} bytes follow the value that ends at {reader.at}")
    return value


def _write(out, value, depth):
    if depth > DEPTH_MAX:
        raise PayloadInvalid(f"nested deeper than {DEPTH_MAX}")
    if value is None:
        out.append(0xC0)
    elif isinstance(value, bool):
        out.append(0xC3 if value else 0xC2)
    elif isinstance(value, int):
        _write_int(out, value)
    elif isinstance(value, float):
        out += struct.pack(">Bf", 0xCA, value) if isinstance(value, Float32) else struct.pack(">Bd", 0xCB, value)
    elif isinstance(value, str):
        _write_text(out, _utf8(value))
    elif isinstance(value, RawText):
        _write_text(out, value)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        block = bytes(value)
        _write_length(out, len(block), (0xC4, 0xC5, 0xC6))
        out += block
    elif isinstance(value, Ext):
        _write_ext(out, value)
    elif isinstance(value, dict):
        _write_map(out, value, depth)
    elif isinstance(value, (list, tuple)):
        _write_short_or_length(out, len(value), 0x90, 15, (None, 0xDC, 0xDD))
        for item in value:
            _write(out, item, depth + 1)
    else:
        raise PayloadInvalid(f"msgpack has no form for a {type(value).__name__}")


def _write_int(out, value):
    if -32 <= value < 128:
        out.append(value & 0xFF)
        return
    forms = (
        ((0xCC, ">BB", 0xFF), (0xCD, ">BH", 0xFFFF), (0xCE, ">BI", 0xFFFF_FFFF), (0xCF, ">BQ", 0xFFFF_FFFF_FFFF_FFFF))
        if value >= 0
        else ((0xD0, ">Bb", -0x80), (0xD1, ">Bh", -0x8000), (0xD2, ">Bi", -0x8000_0000), (0xD3, ">Bq", -(1 << 63)))
    )
    for first, form, end in forms:
        if 0 <= value <= end or end <= value < 0:
            out += struct.pack(form, first, value)
            return
    raise PayloadInvalid(f"{value} is outside -2^63 .. 2^64 - 1")


def _utf8(text):
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise PayloadInvalid(f"a text is not UTF-8: {error}") from error


def _write_text(out, encoded):
    _write_short_or_length(out, len(encoded), 0xA0, 31, (0xD9, 0xDA, 0xDB))
    out += encoded


def _write_map(out, value, depth):
    _write_short_or_length(out, len(value), 0x80, 15, (None, 0xDE, 0xDF))
    for key, item in value.items():
        _check_key(key)
        _write(out, key, depth + 1)
        _write(out, item, depth + 1)


def _write_ext(out, value):
    if not -128 <= value.code <= 127:
        raise PayloadInvalid(f"an extension's code is -128..127, not {value.code}")
    fixed = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}.get(len(value.data))
    if fixed is not None:
        out.append(fixed)
    else:
        _write_length(out, len(value.data), (0xC7, 0xC8, 0xC9))
    out += struct.pack(">b", value.code) + value.data


def _write_short_or_length(out, length, base, short_max, firsts):
    if length <= short_max:
        out.append(base | length)
    else:
        _write_length(out, length, firsts)


def _write_length(out, length, firsts):
    """The first byte and the length, in one, two or four bytes; None in `firsts` where that width does not exist."""
    for first, form, end in zip(firsts, (">BB", ">BH", ">BI"), (0xFF, 0xFFFF, 0xFFFF_FFFF)):
        if first is not None and length <= end:
            out += struct.pack(form, first, length)
            return
    raise PayloadInvalid(f"{length} is more than msgpack can count")


def _check_key(key):
    if isinstance(key, bool) or not isinstance(key, (str, RawText, int)):
        raise PayloadInvalid(f"a key of a map is text or an int, not a {type(key).__name__}")


# First bytes of the types of fixed width: the form to unpack.
_NUMBERS = {
    0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}
# First bytes of the types with a length: the kind, and the form of the length.
_SIZED = {
    0xC4: ("bin", ">B"), 0xC5: ("bin", ">H"), 0xC6: ("bin", ">I"),
    0xC7: ("ext", ">B"), 0xC8: ("ext", ">H"), 0xC9: ("ext", ">I"),
    0xD9: ("str", ">B"), 0xDA: ("str", ">H"), 0xDB: ("str", ">I"),
    0xDC: ("array", ">H"), 0xDD: ("array", ">I"), 0xDE: ("map", ">H"), 0xDF: ("map", ">I"),
}


class _Reader:
    """A position in bytes."""

    def __init__(self, data):
        self.data = bytes(data)
        self.at = 0

    def take(self, length):
        if length > len(self.data) - self.at:
            raise PayloadInvalid(f"{length} bytes belong at {self.at}, {len(self.data) - self.at} are there")
        self.at += length
        return self.data[self.at - length : self.at]

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def value(self, depth):
        if depth > DEPTH_MAX:
            raise PayloadInvalid(f"nested deeper than {DEPTH_MAX}")
        start = self.at
        first = self.number(">B")
        if first < 0x80 or first >= 0xE0:
            return first if first < 0x80 else first - 0x100
        if first < 0xC0:
            return self.short(first, depth)
        if first in _NUMBERS:
            return self.number(_NUMBERS[first])
        if first in _SIZED:
            kind, form = _SIZED[first]
            return self.sized(kind, self.number(form), depth)
        if 0xD4 <= first <= 0xD8:
            return self.sized("ext", 1 << (first - 0xD4), depth)
        if first == 0xCA:
            return Float32(self.number(">f"))
        if first == 0xC1:
            raise PayloadInvalid(f"the byte c1 at {start} begins no value")
        return {0xC0: None, 0xC2: False, 0xC3: True}[first]

    def short(self, first, depth):
        """A map, array or str whose length is in its first byte."""
        if first < 0x90:
            return self.sized("map", first & 0x0F, depth)
        return self.sized("array", first & 0x0F, depth) if first < 0xA0 else self.sized("str", first & 0x1F, depth)

    def sized(self, kind, length, depth):
        if kind == "bin":
            return self.take(length)
        if kind == "str":
            return self.text(length)
        if kind == "ext":
            return Ext(self.number(">b"), self.take(length))
        # Each item takes a byte at least: a length beyond that is a lie.
        items = 2 * length if kind == "map" else length
        if items > len(self.data) - self.at:
            raise PayloadInvalid(f"a {kind} of {length} at {self.at} is longer than what is left")
        if kind == "array":
            return [self.value(depth + 1) for _ in range(length)]
        return self.map(length, depth)

    def text(self, length):
        data = self.take(length)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return RawText(data)

    def map(self, length, depth):
        found = {}
        for _ in range(length):
            start = self.at
            key = self.value(depth + 1)
            _check_key(key)
            if key in found:
                raise PayloadInvalid(f"the key {key!r} at {start} is there twice")
            found[key] = self.value(depth + 1)
        return found
