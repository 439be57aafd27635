"""Feature tables from rows in memory."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from millpond import _native


class BuiltTable(NamedTuple):
    """A version that `build_table` built."""

    #: Its folder.
    path: str
    #: The table's name.
    name: str
    #: Its number.
    version: int
    #: Its rows; those of a delta's base are among them.
    rows: int
    #: Numbers of a row, or bytes; 0 where rows are bytes of any length.
    dim: int
    #: Its files.
    shards: int
    #: Bytes of these.
    bytes: int


def build_table(
    rows: Any,
    out: str | os.PathLike[str],
    name: str,
    *,
    version: int | None = None,
    key_column: str = "key",
    keys: str | None = None,
    slot: str | None = None,
    value_columns: Iterable[str] = (),
    columns: Mapping[str, str] | None = None,
    type: str | None = None,
    keep_not_finite: bool = False,
    default_row: Iterable[float] | str | bytes | None = None,
    duplicates: str = "error",
    delta: bool = False,
    base: int | None = None,
    remove: Any = None,
    shards: int = 1,
    memory: str = "1GiB",
) -> BuiltTable:
    """Builds a new version of the table `name` in the folder `out`, as `millpond features build` does, and returns what it is.

    `rows` is a pyarrow.Table, or anything with `__arrow_c_stream__`, whose batches are read in place; a dict of arrays of numpy by the names of
    their columns, of which those of several numbers a row have two dimensions; or `(keys, values)`. A delta that only removes has None.

    The keywords are the command's options, and what is wrong with them or with a row is a `TableError` in its words. `columns` has the table's
    columns by name, each as `"SOURCE"` or `"SOURCE:TYPE"`, with commas between several sources: `{"image": "embedding:f16", "code": "raw:bytes:16"}`.
    `remove` has the keys that a delta removes: an array, or a stream with a column of them. `default_row` is numbers, or the bytes of a row of bytes.
    """
    if isinstance(default_row, str):
        default_row = default_row.encode()
    options = {
        "out": os.fspath(out),
        "name": name,
        "version": version,
        "key_column": key_column,
        "keys": keys,
        "slot": slot,
        "value_columns": list(value_columns),
        "columns": [f"{column}={source}" for column, source in (columns or {}).items()],
        "type": type,
        "keep_not_finite": keep_not_finite,
        "default_row": None if default_row is None else [float(number) for number in default_row],
        "duplicates": duplicates,
        "delta": delta,
        "base": base,
        "shards": shards,
        "memory": memory,
    }
    if isinstance(rows, tuple) and len(rows) == 2:
        rows = {key_column: rows[0], "vector": rows[1]}
    if not (remove is None or isinstance(remove, Mapping) or hasattr(remove, "__arrow_c_stream__")):
        remove = {key_column: remove}
    path, *rest = _native.build_table(_given(rows), _given(remove), options)
    return BuiltTable(os.fspath(path), *rest)


def _given(rows: Any) -> Any:
    if isinstance(rows, Mapping):
        return {name: _array(array) for name, array in rows.items()}
    return rows


def _array(array: Any) -> Any:
    """The array as the native half takes it: strings of numpy as lists or as rows of bytes, keys as 64-bit integers."""
    kind = getattr(getattr(array, "dtype", None), "kind", None)
    if kind in ("U", "O", "T"):
        return array.tolist()
    if kind in ("S", "V") and array.ndim == 1:
        # Rows of one length, their zeros at the end too.
        return array.copy().view("u1").reshape(len(array), array.dtype.itemsize)
    if kind in ("i", "u") and array.ndim == 1:
        return array.astype("int64" if kind == "i" else "uint64", copy=False)
    return array
