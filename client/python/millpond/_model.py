"""The function that a worker process runs: found, called with what a run asks, and held against what its section declares.

It speaks with no server. Its invariant: what it gives for a run is of the declared types and shapes, or the words of a failure.
"""

from __future__ import annotations

import importlib
import importlib.util
import mmap
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from millpond import _shared
from millpond._shared import Placed, Port, Refused

_PACKAGE = Path(__file__).parent
# The server passes on less.
TEXT_LETTERS_MAX = 2000


class Result(NamedTuple):
    """What one request comes to, or a whole batch: outputs, each with the number of its type; or one text, why it failed."""

    failed: bool
    outputs: list[tuple[int, Any]]


class Model:
    """The function, and what its section declares."""

    def __init__(self, what: Mapping[str, Any]) -> None:
        self.signature = what["signature"]
        self.inputs = [Port(declared) for declared in self.signature["inputs"]]
        self.outputs = [Port(declared) for declared in self.signature["outputs"]]
        self.shared_bytes_max: int = what["shared_bytes_max"]
        self.takes_requests: bool = what["takes_requests"]
        self.call = _callable(_imported(what), what["function"])

    def run(self, memory: mmap.mmap, placed: list[Placed]) -> list[Result]:
        """What a batch comes to, whose rows are joined. Raises Refused, and whatever the function does."""
        batch = {port.name: port.view(memory, at) for port, at in zip(self.inputs, placed)}
        rows = placed[0].shape[0] if self.signature["batched"] else None
        return [Result(False, self._outputs(self.call(batch), rows))]

    def run_requests(self, memory: mmap.mmap, requests: list[list[Placed]]) -> list[Result]:
        """What each of a list of requests comes to. Raises as `run`."""
        one = lambda request: {port.name: port.value(memory, at) for port, at in zip(self.inputs, request)}
        given = self.call([one(request) for request in requests])
        if not isinstance(given, list | tuple):
            expected = f"a list of {len(requests)} results, one for each request"
            raise Refused(f"it gave a {type(given).__name__}; expected {expected}")
        # A copy: a list's class may say another count than it gives, and a thread of the function may change it.
        items = list(given)
        if len(items) != len(requests):
            raise Refused(f"it gave {len(items)} results for {len(requests)} requests; expected one for each")
        return [self._result(item) for item in items]

    def _result(self, item: Any) -> Result:
        """What one request gets: a result that is an exception, or does not fit, fails it alone."""
        if isinstance(item, BaseException):
            return _failed(item)
        try:
            return Result(False, self._outputs(item, None))
        except Exception as error:
            return _failed(error)

    def _outputs(self, given: Any, rows: int | None) -> list[tuple[int, Any]]:
        """What the function gave, in the order of the signature."""
        if not isinstance(given, Mapping):
            if len(self.outputs) > 1:
                names = [port.name for port in self.outputs]
                raise Refused(f"it gave a {type(given).__name__}; expected a dict of {names}")
            given = {self.outputs[0].name: given}
        unknown = given.keys() - {port.name for port in self.outputs}
        if unknown:
            raise Refused(f"it gave {sorted(map(str, unknown))}, which no output is called; declare them, or leave them out")
        missing = [port.name for port in self.outputs if port.name not in given]
        if missing:
            raise Refused(f"it gave no {missing}; it gave {sorted(map(str, given))}")
        return [(port.number, port.output(given[port.name], rows)) for port in self.outputs]


def _failed(error: BaseException) -> Result:
    return Result(True, [_shared.text(described(error)[:TEXT_LETTERS_MAX])])


def _imported(what: Mapping[str, Any]) -> Any:
    """The module that has the function."""
    if what["module"]:
        return importlib.import_module(what["module"])
    file = what["file"]
    name = Path(file).stem
    # What lies beside it can be imported, as if it were run.
    sys.path.insert(0, str(Path(file).parent))
    if name in sys.modules:
        raise Refused(f"{file} is called like the module {name}, which is loaded already; rename it")
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise Refused(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _callable(module: Any, name: str) -> Callable[[dict[str, Any]], Any]:
    """The function of that name, or an object of the class, or the object's `forward`."""
    marked = getattr(module, name, None)
    options = getattr(marked, "__millpond_backend__", None)
    if options is None:
        there = sorted(other for other, found in vars(module).items() if hasattr(found, "__millpond_backend__"))
        raise Refused(f"{module.__name__} has no `{name}` that millpond.backend marks; marked are {there}")
    if options:
        text = f"options of millpond.backend are for pipelines in Python's own process: set {sorted(options)} in the model's section"
        print(text, file=sys.stderr)
    if not isinstance(marked, type):
        return marked  # type: ignore[no-any-return]
    made = marked()
    return made if callable(made) else made.forward  # type: ignore[no-any-return]


def described(error: BaseException) -> str:
    """An exception in one line; its traceback goes to the log. What is Refused is no exception of the function's."""
    if isinstance(error, Refused):
        return str(error)
    try:
        frames = error.__traceback__
        while frames and Path(frames.tb_frame.f_code.co_filename).parent == _PACKAGE:
            frames = frames.tb_next
        # One that the function only made and gave has none.
        if error.__traceback__ is not None:
            traceback.print_exception(type(error), error, frames)
            sys.stderr.flush()
        return f"{type(error).__qualname__}: {error}".removesuffix(": ")
    except BaseException:
        # Its text, or standard error, may be the function's too.
        return f"{type(error).__qualname__}, which cannot be shown"
