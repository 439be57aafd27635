"""Tensors in memory that a worker process shares with its server, as numpy's arrays: docs/formats/worker.md draws them.

It knows no message. Its invariant: inputs are views that nobody here can write to, and outputs are of the declared type and shape.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy

_PLACED = struct.Struct("<IIQQ")
_GROUP = struct.Struct("<II")
_END_BYTES = 8
_ALIGNMENT = 64
# The number of each type in messages, and numpy's type; of bf16 numpy has none, and of bytes the elements are objects.
_TYPES: dict[str, tuple[int, str | None]] = {
    "f32": (1, "<f4"),
    "f64": (2, "<f8"),
    "f16": (3, "<f2"),
    "bf16": (4, None),
    "i64": (5, "<i8"),
    "i32": (6, "<i4"),
    "u8": (7, "u1"),
    "bool": (8, "?"),
    "bytes": (9, "O"),
    "i8": (10, "i1"),
    "i16": (11, "<i2"),
    "u16": (12, "<u2"),
    "u32": (13, "<u4"),
    "u64": (14, "<u8"),
}


class Refused(Exception):
    """What a function gave is not what its section declares; the text is for the caller."""


class Placed(NamedTuple):
    """Where a tensor lies: bytes from the start of the memory, and how many."""

    number: int
    at: int
    size: int
    shape: tuple[int, ...]


def unpack(message: bytes, count: int) -> list[Placed]:
    """The places of `count` tensors of a message."""
    return _unpacked(message, 0, count)[0]


def _unpacked(message: bytes, at: int, count: int) -> tuple[list[Placed], int]:
    """The places of those that a message has from there on, and where they end."""
    tensors = []
    for _ in range(count):
        number, rank, start, size = _PLACED.unpack_from(message, at)
        at += _PLACED.size
        tensors.append(Placed(number, start, size, struct.unpack_from(f"<{rank}Q", message, at)))
        at += 8 * rank
    return tensors, at


def unpack_groups(message: bytes, count: int) -> list[list[Placed]]:
    """The places of the tensors of `count` requests."""
    at, groups = 0, []
    for _ in range(count):
        _, tensors = _GROUP.unpack_from(message, at)
        group, at = _unpacked(message, at + _GROUP.size, tensors)
        groups.append(group)
    return groups


def pack(tensors: list[Placed]) -> bytes:
    """The same, as a message holds them."""
    one = lambda placed: _PLACED.pack(placed.number, len(placed.shape), placed.at, placed.size)
    return b"".join(one(placed) + struct.pack(f"<{len(placed.shape)}Q", *placed.shape) for placed in tensors)


def pack_group(failed: bool, tensors: list[Placed]) -> bytes:
    """What one request comes to: its outputs, or why it failed."""
    return _GROUP.pack(failed, len(tensors)) + pack(tensors)


class Port:
    """One input or output, as its section declares it."""

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self.name: str = declared["name"]
        self.type: str = declared["type"]
        # None is free.
        self.shape: tuple[int | None, ...] = tuple(declared["shape"])
        self.number, name = _TYPES[self.type]
        self.dtype: Any = numpy.dtype(name) if name else _bfloat16(self.name)

    def view(self, memory: mmap.mmap, placed: Placed) -> Any:
        """An input: an array that shares the memory, or one of bytes, which are copied. ValueError where they do not fit."""
        if self.type != "bytes":
            return numpy.ndarray(placed.shape, self.dtype, buffer=memory, offset=placed.at)
        count = math.prod(placed.shape)
        ends = numpy.ndarray((count,), "<u8", buffer=memory, offset=placed.at).tolist()
        start = placed.at + _END_BYTES * count
        strings = numpy.empty(count, object)
        strings[:] = [memory[start + begin : start + end] for begin, end in zip([0, *ends], ends)]
        return strings.reshape(placed.shape)

    def value(self, memory: mmap.mmap, placed: Placed) -> Any:
        """An input of one request, as a pipeline in Python's own process gives it: texts as bytes or lists of them, what has no dimensions
        as a number, and else an array that shares the memory."""
        array = self.view(memory, placed)
        return array.tolist() if self.type == "bytes" or not placed.shape else array

    def output(self, value: Any, rows: int | None) -> Any:
        """What a function gave, as an array of the declared type, with so many rows where there is a batch. Raises Refused."""
        if self.type == "bytes" and isinstance(value, bytearray | memoryview):
            # numpy would take their items for those of an array.
            array = numpy.asarray(bytes(value), object)
        elif self.type == "bytes":
            array = numpy.asarray(value, object)
        else:
            # An array has a type of its own, and another one is a mistake; Python's own numbers have none, alone and in lists.
            array = numpy.asarray(value)
            if not hasattr(value, "dtype") and self._takes_numbers(array):
                array = self._converted(array)
            if array.dtype != self.dtype:
                raise Refused(f"output `{self.name}` is {array.dtype}, and {self.type} is declared; convert it, as with .astype")
        expected = self.shape if rows is None else (rows, *self.shape[1:])
        if len(array.shape) != len(expected) or any(want not in (None, has) for want, has in zip(expected, array.shape)):
            shown = ["?" if size is None else size for size in expected]
            raise Refused(f"output `{self.name}` has shape {list(array.shape)}; expected [{', '.join(map(str, shown))}]")
        return Strings(self.name, array) if self.type == "bytes" else array

    def _converted(self, array: Any) -> Any:
        """Numbers of Python as the declared type. Raises Refused where a finite one becomes an infinity."""
        with numpy.errstate(over="ignore"):
            converted = array.astype(self.dtype)
        if self.type in ("f16", "f32", "bf16"):
            lost = numpy.isfinite(array) & ~numpy.isfinite(converted)
            if lost.any():
                raise Refused(f"output `{self.name}` holds {array[lost][0]}, which is no {self.type}")
        return converted

    def _takes_numbers(self, array: Any) -> bool:
        """Whether numbers of Python can be of the declared type, none of them changed but by rounding. Raises Refused where one is too large."""
        if array.size == 0:
            return True
        if array.dtype.kind not in "iu" or self.dtype.kind not in "iu":
            return bool(numpy.can_cast(array.dtype, self.dtype, "same_kind"))
        bounds, least, most = numpy.iinfo(self.dtype), array.min(), array.max()
        if least < bounds.min or most > bounds.max:
            raise Refused(f"output `{self.name}` holds {least if least < bounds.min else most}, which is no {self.type}")
        return True


class Strings:
    """An output of byte strings: where each ends, and all of them."""

    def __init__(self, name: str, array: Any) -> None:
        self.shape = array.shape
        strings = [_encoded(name, item) for item in array.ravel().tolist()]
        ends = numpy.cumsum([len(string) for string in strings], dtype="<u8") if strings else numpy.empty(0, "<u8")
        self.joined = ends.tobytes() + b"".join(strings)
        self.nbytes = len(self.joined)


def _encoded(name: str, item: Any) -> bytes:
    if isinstance(item, str):
        return item.encode("utf-8", "surrogateescape")
    if isinstance(item, bytes | bytearray | memoryview):
        return bytes(item)
    raise Refused(f"output `{name}` holds a {type(item).__name__}; expected bytes or str")


def _bfloat16(name: str) -> Any:
    try:
        import ml_dtypes
    except ImportError:
        raise Refused(f"`{name}` is bf16, for which numpy needs the package ml_dtypes: pip install ml_dtypes") from None
    return numpy.dtype(ml_dtypes.bfloat16)


def place(outputs: list[tuple[int, Any]]) -> tuple[list[Placed], int]:
    """Where outputs, each with the number of its type, come to lie one after the other, and how many bytes they take."""
    end, tensors = 0, []
    for number, output in outputs:
        at = -(-end // _ALIGNMENT) * _ALIGNMENT
        tensors.append(Placed(number, at, output.nbytes, output.shape))
        end = at + output.nbytes
    return tensors, end


def text(words: str) -> tuple[int, Strings]:
    """A text as an output, with the number of its type."""
    number, _ = _TYPES["bytes"]
    return number, Strings("text", numpy.asarray(words.encode("utf-8", "replace"), object))


def write(memory: mmap.mmap, placed: Placed, output: Any) -> None:
    """Copies an output to its place."""
    if isinstance(output, Strings):
        memory[placed.at : placed.at + placed.size] = output.joined
    else:
        numpy.ndarray(placed.shape, output.dtype, buffer=memory, offset=placed.at)[...] = output
