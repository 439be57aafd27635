"""Backends that a program registers for configurations of torchpipe: what they get, and where their results lie meanwhile."""

from __future__ import annotations

import inspect
import itertools
import os
import threading
from typing import Any

_REGISTERED: dict[str, Any] = {}
# Batches of a backend without max(), which torchpipe does not bound.
_BATCH_SIZE_MAX = 1024
# Values that stand for objects begin so; no other value does.
_MARK = b"millpond object " + os.urandom(16)


def register(name: str, object_or_class: Any) -> None:
    """Registers a backend by a name that configurations may use, as `omniback.register` does.

    It has `forward(requests)`, which gets a list of dicts and puts a `result` into each that has one. It may have `init(parameters, options)`,
    called before, with the keys of its node; and `max()`, the largest batch. A class makes an object for each of a node's instances.
    """
    if not isinstance(name, str):
        raise TypeError(f"a backend's name is a {type(name).__name__}; expected str")
    if not name:
        raise ValueError("a backend's name is empty")
    if not callable(getattr(object_or_class, "forward", None)):
        kind = object_or_class.__name__ if isinstance(object_or_class, type) else type(object_or_class).__name__
        raise TypeError(f"{kind} has no forward(requests)")
    if isinstance(object_or_class, type):
        parameters = list(inspect.signature(object_or_class).parameters.values())
        needed = [one.name for one in parameters if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
        if needed:
            raise TypeError(f"class {object_or_class.__name__} cannot be made without {needed}; give them defaults, or register an object")
    _REGISTERED[name] = object_or_class


class Request:
    """A caller's dict while it is under way."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.data = given["data"]
        # What travels along.
        self.others = {key: value for key, value in given.items() if key not in ("data", "result")}
        self._objects: dict[bytes, Any] = {}
        self._numbers = itertools.count()
        # What failed, by the name of the node. A node that runs again, in a smaller batch, clears its own error and no other.
        self.errors: dict[str, BaseException] = {}

    def keep(self, value: Any) -> bytes:
        """A value that stands for the object."""
        mark = _MARK + b"%d" % next(self._numbers)
        self._objects[mark] = value
        return mark

    def found(self, value: Any) -> Any:
        """The object that the value stands for, or the value."""
        return self._objects.get(value, value) if isinstance(value, bytes) else value


class Missing:
    """What a backend gave that put no result into its request."""

    def __init__(self, backend: str, node: str) -> None:
        self.text = f"backend {backend!r} of node {node!r} gave no result, and what follows needs one"


class Requests:
    """The requests of a pipe that are under way, and the backends that look at them."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._running: dict[int, Request] = {}

    def begin(self, given: dict[str, Any]) -> tuple[int, Request]:
        number, request = next(self._numbers), Request(given)
        self._running[number] = request
        return number, request

    def end(self, number: int) -> None:
        self._running.pop(number, None)

    def make(
        self,
        name: str,
        parameters: dict[str, str],
        *,
        instances: int | None,
        batch_size_max: int | None,
        is_read: bool,
        is_split: bool,
    ) -> tuple[type, int]:
        """The class of a model that runs a registered backend, and its largest batch. The objects are made here, and say it."""
        registered = _REGISTERED[name]

        def made() -> Any:
            one = registered() if isinstance(registered, type) else registered
            if hasattr(one, "init"):
                one.init(dict(parameters), None)
            return one

        objects = [made() for _ in range(max(1, instances or 1))]
        if callable(getattr(objects[0], "max", None)):
            batch_size_max = min(int(objects[0].max()), _BATCH_SIZE_MAX)
        running, node, taking = self._running, parameters["node_name"], threading.Lock()

        class Registered:
            def __init__(self) -> None:
                with taking:
                    one = objects.pop() if objects else None
                self._forward = (one or made()).forward

            def __call__(self, batch: list[dict[str, Any]]) -> list[Any]:
                requests = [running.get(values["request"]) for values in batch]
                # A call that nobody waits for any more has ended.
                here = [(at, request) for at, request in enumerate(requests) if request is not None]
                results: list[Any] = [RuntimeError("nobody waits for it any more")] * len(batch)
                ready = []
                for at, request in here:
                    try:
                        ready.append((at, request, _parts(request, batch[at], node, is_split)))
                    except RuntimeError as error:
                        request.errors[node] = results[at] = error
                given = [part for _, _, parts in ready for part in parts]
                try:
                    # A backend may look at its first request.
                    if given:
                        self._forward(given)
                except BaseException as error:
                    for _, request, _ in ready:
                        request.errors[node] = error
                    raise
                for at, request, parts in ready:
                    request.errors.pop(node, None)
                    results[at] = _result(request, parts, Missing(name, node), node, is_read, is_split)
                return results

        Registered.__name__ = Registered.__qualname__ = name
        limit = batch_size_max or _BATCH_SIZE_MAX
        Registered.__millpond_backend__ = {}  # type: ignore[attr-defined]
        return Registered, limit


def _parts(request: Request, values: dict[str, Any], node: str, is_split: bool) -> list[dict[str, Any]]:
    """The dicts that a backend gets for a request: one, or one for each part of a split value."""
    values = {key: request.found(value) for key, value in values.items() if key != "request"}
    for value in values.values():
        if isinstance(value, Missing):
            raise RuntimeError(value.text)
    travelling = {**request.others, **values, "node_name": node}
    if not is_split:
        return [travelling]
    data = values["data"]
    parts = list(data) if not isinstance(data, bytes | str) else [data]
    return [{**travelling, "data": part} for part in parts]


def _result(request: Request, parts: list[dict[str, Any]], missing: Missing, node: str, is_read: bool, is_split: bool) -> Any:
    """What a request's stage gives, once its backend has run."""
    for part in parts:
        request.others.update((key, value) for key, value in part.items() if key not in ("data", "result", "node_name"))
    given = [part.get("result", missing) for part in parts]
    is_missing = any(value is missing for value in given)
    if is_missing and (is_read or is_split):
        request.errors[node] = RuntimeError(missing.text)
        return request.errors[node]
    value = given if is_split else given[0]
    return value if is_read else request.keep(value)
