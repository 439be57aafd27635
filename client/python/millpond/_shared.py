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
    at, tensors = 0, []
    for _ in range(count):
        number, rank, start, size = _PLACED.unpack_from(message, at)
        at += _PLACED.size
        tensors.append(Placed(number, start, size, struct.unpack_from(f"<{rank}Q", message, at)))
        at += 8 * rank
    return tensors


def pack(tensors: list[Placed]) -> bytes:
    """The same, as a message holds them."""
    one = lambda placed: _PLACED.pack(placed.number, len(placed.shape), placed.at, placed.size)
    return b"".join(one(placed) + struct.pack(f"<{len(placed.shape)}Q", *placed.shape) for placed in tensors)


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

    def output(self, value: Any, rows: int | None) -> Any:
        """What a function gave, as an array of the declared type, with so many rows where there is a batch. Raises Refused."""
        if self.type == "bytes":
            array = numpy.asarray(value, object)
        else:
            # An array has a type of its own, and another one is a mistake; numbers in lists have none.
            array = numpy.asarray(value)
            if not hasattr(value, "dtype") and numpy.can_cast(array.dtype, self.dtype, "same_kind"):
                array = array.astype(self.dtype)
            if array.dtype != self.dtype:
                raise Refused(f"output `{self.name}` is {array.dtype}, and {self.type} is declared; convert it, as with .astype")
        expected = self.shape if rows is None else (rows, *self.shape[1:])
        if len(array.shape) != len(expected) or any(want not in (None, has) for want, has in zip(expected, array.shape)):
            shown = ["?" if size is None else size for size in expected]
            raise Refused(f"output `{self.name}` has shape {list(array.shape)}; expected [{', '.join(map(str, shown))}]")
        return _Strings(self.name, array) if self.type == "bytes" else array


class _Strings:
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


def place(ports: list[Port], outputs: list[Any]) -> tuple[list[Placed], int]:
    """Where outputs come to lie one after the other, and how many bytes they take."""
    end, tensors = 0, []
    for port, output in zip(ports, outputs):
        at = -(-end // _ALIGNMENT) * _ALIGNMENT
        tensors.append(Placed(port.number, at, output.nbytes, output.shape))
        end = at + output.nbytes
    return tensors, end


def write(memory: mmap.mmap, placed: Placed, output: Any) -> None:
    """Copies an output to its place."""
    if isinstance(output, _Strings):
        memory[placed.at : placed.at + placed.size] = output.joined
    else:
        numpy.ndarray(placed.shape, output.dtype, buffer=memory, offset=placed.at)[...] = output
