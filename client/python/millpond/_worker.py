"""A worker process of a server, which starts it for a model with `backend = "python"`: docs/formats/worker.md is what both speak.

It runs one function, one batch at a time, on its main thread. Its invariants: no process but this one speaks to the server, whatever
the function forks, prints or reads; what the function raises is an answer; and the process ends with its server.
"""

from __future__ import annotations

import faulthandler
import importlib
import importlib.util
import json
import mmap
import os
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from millpond import _native
from millpond._shared import Port, Refused, pack, place, unpack, write

_VERSION = 1
_HEAD = struct.Struct("<IIQ")
_SIZE = struct.Struct("<Q")
_MESSAGE_BYTES_MAX = 64 << 10
_START, _MEMORY, _RUN, _READY, _FAILED, _ANSWER, _NEEDS = 1, 2, 3, 129, 130, 131, 132
_INPUTS, _OUTPUTS = 0, 1
# The server passes on less.
_TEXT_LETTERS_MAX = 2000
# What the status of a process is that came out of a function which forked it.
_FORKED_STATUS = 70


class _Server:
    """The server at the other end of what was standard input, and the memory that it shares."""

    def __init__(self) -> None:
        watched = _native.end_with_server()
        self._socket = socket.socket(fileno=os.dup(0))
        # The function may read standard input, and so may programs that it starts.
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.register_at_fork(after_in_child=lambda: (self._socket.close(), os.close(watched)))
        self.memory: dict[int, mmap.mmap] = {}

    def hear(self) -> tuple[int, int, int, bytes] | None:
        """The next message: kind, count, number, rest. None at the end. Memory that comes with it is mapped."""
        flags = socket.MSG_CMSG_CLOEXEC
        message, files, _, _ = socket.recv_fds(self._socket, _MESSAGE_BYTES_MAX, 1, flags)
        if not message:
            return None
        kind, count, number = _HEAD.unpack_from(message)
        rest = message[_HEAD.size :]
        if kind == _MEMORY:
            access = mmap.ACCESS_READ if number == _INPUTS else mmap.ACCESS_WRITE
            self.memory[number] = mmap.mmap(files[0], _SIZE.unpack(rest)[0], access=access)
        for file in files:
            os.close(file)
        return kind, count, number, rest

    def say(self, kind: int, number: int, rest: bytes = b"", count: int = 0) -> None:
        self._socket.send(_HEAD.pack(kind, count, number) + rest)

    def fail(self, number: int, text: str) -> None:
        self.say(_FAILED, number, text[:_TEXT_LETTERS_MAX].encode("utf-8", "replace"))


class _Model:
    """The function, and what its section declares."""

    def __init__(self, what: Mapping[str, Any]) -> None:
        signature = what["signature"]
        self.signature = signature
        self.inputs = [Port(declared) for declared in signature["inputs"]]
        self.outputs = [Port(declared) for declared in signature["outputs"]]
        self.shared_bytes_max: int = what["shared_bytes_max"]
        self.call = _callable(_imported(what), what["function"])

    def run(self, batch: dict[str, Any], rows: int | None) -> list[Any]:
        """The outputs of a batch, in the order of the signature. Raises Refused, and whatever the function does."""
        given = self.call(batch)
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
        return [port.output(given[port.name], rows) for port in self.outputs]


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


def _described(error: BaseException) -> str:
    """An exception in one line; its traceback goes to the log. What is Refused is no exception of the function's."""
    if isinstance(error, Refused):
        return str(error)
    try:
        frames = error.__traceback__
        while frames and frames.tb_frame.f_code.co_filename == __file__:
            frames = frames.tb_next
        traceback.print_exception(type(error), error, frames)
        sys.stderr.flush()
        return f"{type(error).__qualname__}: {error}".removesuffix(": ")
    except BaseException:
        # Its text, or standard error, may be the function's too.
        return f"{type(error).__qualname__}, which cannot be shown"


def _end_if_forked(pid: int) -> None:
    """A process that the function forked and that comes back ends here."""
    if os.getpid() != pid:
        text = (
            f"millpond: the function came back in a process that it forked from {pid}; the process ends. "
            "Start processes with the subprocess module, or end the child inside the function with os._exit\n"
        )
        os.write(2, text.encode())
        os._exit(_FORKED_STATUS)


def _serve_one(server: _Server, model: _Model, number: int, tensors: bytes, count: int) -> bool:
    """One run; false where the server is gone."""
    pid = os.getpid()
    try:
        placed = unpack(tensors, count)
        batch = {port.name: port.view(server.memory[_INPUTS], at) for port, at in zip(model.inputs, placed)}
        rows = placed[0].shape[0] if model.signature["batched"] else None
        outputs = model.run(batch, rows)
        answer, size = place(model.outputs, outputs)
        if size > model.shared_bytes_max:
            raise Refused(f"its outputs take {size} bytes, and shared_bytes_max is {model.shared_bytes_max}")
    except BaseException as error:
        _end_if_forked(pid)
        server.fail(number, _described(error))
        return True
    _end_if_forked(pid)
    memory = server.memory.get(_OUTPUTS)
    if memory is None or len(memory) < size:
        server.say(_NEEDS, number, _SIZE.pack(size))
        if server.hear() is None:
            return False
        memory = server.memory[_OUTPUTS]
    for at, output in zip(answer, outputs):
        write(memory, at, output)
    server.say(_ANSWER, number, pack(answer), len(answer))
    return True


def _serve(server: _Server) -> None:
    heard = server.hear()
    if heard is None:
        return
    _, _, version, what = heard
    if version != _VERSION:
        server.fail(0, f"the server speaks version {version} of the protocol, and the package millpond of {sys.executable} {_VERSION}")
        return
    pid = os.getpid()
    try:
        model = _Model(json.loads(what))
    except BaseException as error:
        _end_if_forked(pid)
        server.fail(0, _described(error))
        return
    _end_if_forked(pid)
    server.say(_READY, _VERSION, json.dumps(model.signature).encode())
    while (heard := server.hear()) is not None:
        kind, count, number, rest = heard
        if kind == _RUN and not _serve_one(server, model, number, rest, count):
            return


def main() -> None:
    """Serves the server at the other end of standard input until it is gone."""
    # A service manager sends its signal to every process of a service, and the server finishes what it has accepted. Programs that the
    # function starts get the usual handlers.
    for kind in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(kind, lambda *_: None)
    faulthandler.enable()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    _serve(_Server())
    # Threads that the function left behind are not waited for.
    os._exit(0)
