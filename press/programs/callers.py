"""A program of press in Python: `run(make)` calls what `make` gives, in as many callers as press wants, and tells press of each call.

    import callers

    def make(caller):
        import zlib
        def call():
            callers.expect(zlib.crc32(b"hello"), 907060870)
        return call

    callers.run(make)                  # threads of this process
    callers.run(make, processes=True)  # a process a caller

`make` runs once in each caller, so that what it opens is the caller's own. A call that raises has failed; one that raises `Wrong`, as `expect`
does, had a wrong answer. Import this first: what is printed
afterwards goes to standard error. Only the standard library is used. What the two say to each other: docs/formats/press-program.md.
"""

import json
import os
import select
import signal
import struct
import sys
import threading
import time
from array import array

READY, CALLS, FAILED, WRONG, DONE, BROKEN = range(1, 7)
# A frame of so many bytes goes into a pipe as a whole, whoever else writes.
FRAME_BYTES_MAX = 4096
CALLS_MAX = (FRAME_BYTES_MAX - 16 - 8) // 8
TEXT_BYTES_MAX = 1000
TELL_NS = 25_000_000
# From here on frames alone go to standard output, and what is printed goes to standard error.
_OUT = os.dup(1)
os.dup2(2, 1)


class Wrong(Exception):
    """The answer is not what it must be."""


def expect(found, expected):
    """Whether the answer is the right one."""
    if found != expected:
        raise Wrong(f"found {str(found)[:100]!r}, expected {str(expected)[:100]!r}")


def run(make, processes=False):
    """Serves press until it ends the program."""
    out = _OUT
    if sys.byteorder != "little":
        sys.exit("callers.py: times are told as this machine keeps them, and that must be little-endian")
    first = json.loads(_line())
    if first.get("press") != 1:
        _write(out, BROKEN, 0, f"callers.py speaks protocol 1, press {first.get('press')}".encode())
        return
    crew = _Crew(out, make, first["callers"], processes)
    try:
        crew.serve()
    except _Broken as why:
        _write(out, BROKEN, 0, _text(why))
    finally:
        crew.end()


class _Broken(Exception):
    pass


class _Crew:
    """The callers, each with a pipe that it is told by; what they have done comes back through one pipe for all."""

    def __init__(self, out, make, count, processes):
        self.out, self.orders, self.pids, self.threads = out, [], [], []
        self.answers, answer = os.pipe()
        for number in range(count):
            order, ours = os.pipe()
            self.orders.append(ours)
            caller = _Caller(out, number, order, answer)
            if not processes:
                self.threads.append(threading.Thread(target=caller.run, args=(make,), daemon=True))
                self.threads[-1].start()
            elif pid := os.fork():
                os.close(order)
                self.pids.append(pid)
            else:
                for other in (self.answers, *self.orders):
                    os.close(other)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                status = 1
                try:
                    caller.run(make)
                    status = 0
                finally:
                    os._exit(status)

    def serve(self):
        self.wait(b"r")
        _write(self.out, READY, 0)
        while order := _line():
            if order == "go":
                self.tell(b"g")
            elif order == "stop":
                self.tell(b"s")
                self.wait(b"d")
                _write(self.out, DONE, 0)
            else:
                raise _Broken(f"unknown order {order!r}")

    def tell(self, order):
        for pipe in self.orders:
            os.write(pipe, order)

    def wait(self, wanted):
        """Until each caller has said so."""
        left = len(self.orders)
        while left:
            ready, _, _ = select.select([self.answers], [], [], 0.2)
            said = os.read(self.answers, left) if ready else b""
            if b"x" in said:
                raise _Broken("a caller could not be made ready; standard error says why")
            left -= said.count(wanted)
            for pid in self.pids if not said else ():
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    self.pids.remove(pid)
                    raise _Broken(f"a caller's process ended, with status {os.waitstatus_to_exitcode(status)}")

    def end(self):
        for pipe in self.orders:
            os.close(pipe)
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for thread in self.threads:
            thread.join(1)


class _Caller:
    """One caller: it calls from `g` to `s`, and ends when nobody can tell it anything more."""

    def __init__(self, out, number, order, answer):
        self.out, self.number, self.order, self.answer = out, number, order, answer

    def run(self, make):
        try:
            call = make(self.number)
        except BaseException as why:
            print(f"caller {self.number} cannot be made ready: {type(why).__name__}: {why}", file=sys.stderr, flush=True)
            os.write(self.answer, b"x")
            return
        os.write(self.answer, b"r")
        while os.read(self.order, 1) == b"g":
            while not select.select([self.order], [], [], 0)[0]:
                self.calls(call)
            if os.read(self.order, 1) != b"s":
                return
            os.write(self.answer, b"d")

    def calls(self, call):
        """Calls until a frame is full or due, and tells of them."""
        clock, ends = time.monotonic_ns, array("Q", [time.monotonic_ns()])
        due = ends[0] + TELL_NS
        append, failure = ends.append, None
        try:
            for _ in range(CALLS_MAX):
                call()
                now = clock()
                append(now)
                if now >= due:
                    break
        except Exception as why:
            failure, end = why, clock()
        if len(ends) > 1:
            _write(self.out, CALLS, self.number, ends.tobytes())
        if failure is not None:
            kind = WRONG if isinstance(failure, Wrong) else FAILED
            _write(self.out, kind, self.number, struct.pack("<QQ", ends[-1], end) + _text(failure))


def _line():
    """The next order; empty at the end. Read byte by byte: nothing of it is left in a buffer when a process forks."""
    line = b""
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    return line.decode()


def _text(why):
    name = type(why).__name__
    text = str(why) if isinstance(why, (Wrong, _Broken)) else f"{name}: {why}"
    return text.encode()[:TEXT_BYTES_MAX]


def _write(out, kind, caller, body=b""):
    os.write(out, struct.pack("<4sIII", b"mpp1", kind, caller, len(body)) + body)
