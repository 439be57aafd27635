"""A worker process of a server, which starts it for a model with `backend = "python"`: docs/formats/worker.md is what both speak.

It runs one function, one batch at a time, on its main thread. Its invariants: no process but this one speaks to the server, whatever
the function forks, prints or reads; what the function raises is an answer; and the process ends with its server.
"""

from __future__ import annotations

import faulthandler
import json
import mmap
import os
import signal
import socket
import struct
import sys

from millpond import _native
from millpond._model import TEXT_LETTERS_MAX, Model, described
from millpond._shared import Refused, pack, pack_group, place, unpack, unpack_groups, write

_VERSION = 2
_HEAD = struct.Struct("<IIQ")
_SIZE = struct.Struct("<Q")
_MESSAGE_BYTES_MAX = 64 << 10
_START, _MEMORY, _RUN, _REQUESTS = 1, 2, 3, 4
_READY, _FAILED, _ANSWER, _NEEDS, _RESULTS = 129, 130, 131, 132, 133
_INPUTS, _OUTPUTS = 0, 1
# What the status of a process is that came out of a function which forked it.
_FORKED_STATUS = 70


class _Server:
    """The server at the other end of what was standard input, and the memory that it shares."""

    def __init__(self) -> None:
        watched = _native.end_with_server()
        self._socket = socket.socket(fileno=os.dup(0))
        # The function may read standard input, and so may programs that it starts: a pipe without a writer ends at once, whatever the machine
        # has as /dev/null.
        nothing, writer = os.pipe()
        os.close(writer)
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
        self.say(_FAILED, number, text[:TEXT_LETTERS_MAX].encode("utf-8", "replace"))


def _end_if_forked(pid: int) -> None:
    """A process that the function forked and that comes back ends here."""
    if os.getpid() != pid:
        text = (
            f"millpond: the function came back in a process that it forked from {pid}; the process ends. "
            "Start processes with the subprocess module, or end the child inside the function with os._exit\n"
        )
        os.write(2, text.encode())
        os._exit(_FORKED_STATUS)


def _serve_one(server: _Server, model: Model, heard: tuple[int, int, int, bytes]) -> bool:
    """One run; false where the server is gone."""
    kind, count, number, rest = heard
    pid = os.getpid()
    try:
        inputs = server.memory[_INPUTS]
        if kind == _REQUESTS:
            results = model.run_requests(inputs, unpack_groups(rest, count))
        else:
            results = model.run(inputs, unpack(rest, count))
        outputs = [output for result in results for output in result.outputs]
        placed, size = place(outputs)
        if size > model.shared_bytes_max:
            raise Refused(f"its outputs take {size} bytes, and shared_bytes_max is {model.shared_bytes_max}")
    except BaseException as error:
        _end_if_forked(pid)
        server.fail(number, described(error))
        return True
    _end_if_forked(pid)
    memory = server.memory.get(_OUTPUTS)
    if memory is None or len(memory) < size:
        server.say(_NEEDS, number, _SIZE.pack(size))
        if server.hear() is None:
            return False
        memory = server.memory[_OUTPUTS]
    for at, (_, output) in zip(placed, outputs):
        write(memory, at, output)
    if kind == _REQUESTS:
        places = iter(placed)
        groups = [pack_group(result.failed, [next(places) for _ in result.outputs]) for result in results]
        server.say(_RESULTS, number, b"".join(groups), len(groups))
    else:
        server.say(_ANSWER, number, pack(placed), len(placed))
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
        model = Model(json.loads(what))
    except BaseException as error:
        _end_if_forked(pid)
        server.fail(0, described(error))
        return
    _end_if_forked(pid)
    server.say(_READY, _VERSION, json.dumps(model.signature).encode())
    while (heard := server.hear()) is not None:
        if heard[0] in (_RUN, _REQUESTS) and not _serve_one(server, model, heard):
            return


def main() -> None:
    """Serves the server at the other end of standard input until it is gone."""
    # A service manager sends its signal to every process of a service, and the server finishes what it has accepted. Programs that the
    # function starts get the usual handlers.
    usual = {kind: signal.signal(kind, lambda *_: None) for kind in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    # And so do processes that it forks: multiprocessing ends its own by SIGTERM.
    os.register_at_fork(after_in_child=lambda: [signal.signal(kind, heed) for kind, heed in usual.items()])
    faulthandler.enable()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    _serve(_Server())
    # Threads that the function left behind are not waited for.
    os._exit(0)
