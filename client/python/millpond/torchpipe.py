"""torchpipe's form of calls: a program of its users changes one import.

    >>> from millpond import torchpipe
    >>> pipe = torchpipe.pipe({"same": {"backend": "Identity"}})
    >>> request = {"data": b"calm"}
    >>> pipe(request)
    >>> request["result"]
    b'calm'
    >>> class Shout:
    ...     def forward(self, requests):
    ...         for request in requests:
    ...             request["result"] = request["data"].upper()
    >>> torchpipe.register("Shout", Shout)
    >>> torchpipe.pipe({"shout": {"backend": "Shout"}})(request)
    >>> request["result"]
    b'CALM'

docs/torchpipe.md says what is different, and which backends have no counterpart.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from millpond import _native
from millpond._errors import ModelError
from millpond._registered import _REGISTERED, Missing, Requests, register

__all__ = ["Pipe", "pipe", "register"]

_logger = logging.getLogger("millpond.torchpipe")


class Pipe:
    """Pipelines of a configuration of torchpipe; `pipe` makes it. Any number of threads may call it at a time."""

    def __init__(self, config: dict[str, Any] | str | os.PathLike[str]) -> None:
        self._requests = Requests()
        opened = _native.Pipeline.of_torchpipe(config, set(_REGISTERED), self._requests.make)
        self._roots, notes, self._brings = opened
        for note in notes:
            _logger.info("%s", note)

    def __call__(self, requests: dict[str, Any] | list[dict[str, Any]]) -> None:
        """Runs a request, or a list of them together: `data` goes in and `result` is set, or is absent where nothing was computed.

        `result` is the output of the last node that nothing follows and that has one. Of several roots `node_name` picks one.
        """
        together: dict[str, list[dict[str, Any]]] = {}
        for request in requests if isinstance(requests, list) else [requests]:
            if not isinstance(request, dict):
                raise TypeError(f"a request is a {type(request).__name__}; expected a dict with data, or a list of such dicts")
            if "data" not in request:
                raise KeyError("a request has no data")
            together.setdefault(self._root(request), []).append(request)
            request.pop("result", None)
        for root, those in together.items():
            if root in self._brings:
                self._run_registered(root, those)
                continue
            if len(those) == 1:
                answers = [self._roots[root]({"data": those[0]["data"]})]
            else:
                answers = self._roots[root]([{"data": request["data"]} for request in those])
            for request, outputs in zip(those, answers, strict=True):
                if outputs:
                    request["result"] = list(outputs.values())[-1]

    def _run_registered(self, root: str, requests: list[dict[str, Any]]) -> None:
        """Runs requests of a pipeline with registered backends, which get their other keys as well."""
        begun = [self._requests.begin(request) for request in requests]
        inputs = [
            {"data": one.data if self._brings[root] else one.keep(one.data), "request": number} for number, one in begun
        ]
        try:
            answers = self._roots[root](inputs)
        except ModelError as error:
            raised = next((error for _, one in begun for error in one.errors.values()), None)
            if raised is None:
                raise
            raise raised from error
        finally:
            for number, _ in begun:
                self._requests.end(number)
        for request, (_, one), outputs in zip(requests, begun, answers, strict=True):
            request.update(one.others)
            results = [one.found(value) for value in outputs.values()]
            results = [result for result in results if not isinstance(result, Missing)]
            if results:
                request["result"] = results[-1]

    def _root(self, request: dict[str, Any]) -> str:
        named = request.get("node_name")
        if named is None and len(self._roots) == 1:
            return next(iter(self._roots))
        root = str(named).replace(".", "-")
        if named is None or root not in self._roots:
            found = "has no node_name" if named is None else f"has the node_name {named!r}"
            raise KeyError(f"a request {found}; expected one of {sorted(self._roots)}")
        return root


def pipe(config: dict[str, Any] | str | os.PathLike[str]) -> Pipe:
    """Opens a configuration in torchpipe's form: a dict of dicts of strings, or the path of a TOML file.

    What became of each of its keys is logged by `millpond.torchpipe`, at level INFO.
    """
    return Pipe(config)
