"""Functions and classes that the tests of worker processes have a server run. `fault` chooses what each does wrong."""

import ctypes
import os
import signal
import subprocess
import sys
import time

import numpy

import millpond

print("loaded by", os.getpid())


@millpond.backend
def sums(batch):
    """x: f32[N, 2], words: bytes[N] -> y: f32[N, 1], echo: bytes[N], pid: i64[N], rows: i32[N]"""
    x, words = batch["x"], batch["words"]
    assert isinstance(x, numpy.ndarray) and not x.flags.writeable and not x.flags.owndata
    rows = len(x)
    return {
        "y": x.sum(axis=1, keepdims=True),
        "echo": words,
        "pid": numpy.full(rows, os.getpid()),
        "rows": [rows] * rows,
    }


@millpond.backend
def same(batch):
    """Inputs of any type, each given back as it came."""
    return {f"{name}_out": value for name, value in batch.items()}


@millpond.backend(batch_size_max=8)
class Counter:
    """x: f32[N] -> y: f32[N], the batches that this object has had."""

    def __init__(self):
        self.batches = 0

    def forward(self, batch):
        self.batches += 1
        return numpy.full(len(batch["x"]), self.batches, numpy.float32)


def chatter(x):
    for line in range(20):
        print("line", line, "of a chatty function")
    assert sys.stdin.read() == ""
    subprocess.run(["cat"], check=True, timeout=60)
    os.write(1, b"and not a message\n")
    return x


def fork(x):
    # The child comes back out of the function.
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return x if os.waitstatus_to_exitcode(status) == 70 else None
    return x


def terminate(x):
    # As multiprocessing ends its processes.
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"1")
        time.sleep(1000)
        os._exit(0)
    os.read(reader, 1)
    os.kill(child, signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    return x if os.waitstatus_to_exitcode(status) == -signal.SIGTERM else None


class Liar(list):
    def __len__(self):
        return super().__len__() + 1


def crash_beside_a_child(x):
    # The child keeps all descriptors that a fork keeps.
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(5)


def hold(x):
    # The interpreter too, which no other thread of Python then gets.
    print("it holds the interpreter")
    ctypes.PyDLL(None).sleep(1000)


def leak(x):
    kept = []
    while True:
        kept.append(bytearray(b"x") * (1 << 20))


def unspeakable(x):
    class Error(Exception):
        def __str__(self):
            raise self

    raise Error


FAULTS = {
    "none": lambda x: x,
    "raise": lambda x: {}["a key that is not there"],
    "exit": lambda x: sys.exit("it left"),
    "interrupt": lambda x: signal.raise_signal(signal.SIGUSR1),
    "long": lambda x: {}["é" * 100_000],
    "unspeakable": unspeakable,
    "nothing": lambda x: None,
    "dict": lambda x: {"z": x},
    "empty": lambda x: {},
    "more": lambda x: {"y": x, "z": x},
    "rows": lambda x: x[:0],
    "rank": lambda x: x.reshape((len(x),) + (1,) * 20),
    "type": lambda x: x.astype("float64"),
    "order": lambda x: x.astype(">f4"),
    "list": lambda x: x.tolist(),
    "integers": lambda x: x.astype(int).tolist(),
    "ragged": lambda x: [[1], [2, 3]],
    "overflow": lambda x: [[1e300]] * len(x),
    "objects": lambda x: [object()] * len(x),
    "huge": lambda x: numpy.broadcast_to(numpy.float32(1), (len(x), 1 << 40)),
    "nan": lambda x: x * numpy.nan,
    "leak": leak,
    "memory": lambda x: numpy.zeros(1 << 40),
    "chatter": chatter,
    "fork": fork,
    "terminate": terminate,
    "crash": lambda x: os.kill(os.getpid(), signal.SIGSEGV),
    "quit": lambda x: os._exit(3),
    "crash beside a child": crash_beside_a_child,
    "hang": lambda x: time.sleep(1000),
    "hold": hold,
}


def interrupted(*_):
    raise KeyboardInterrupt


signal.signal(signal.SIGUSR1, interrupted)


@millpond.backend
def faulty(batch):
    """fault: bytes[N], x: f32[N, ?] -> y: f32[N, ?]; with a fault, what it gives for the whole batch."""
    for fault in batch["fault"]:
        if fault not in (b"", b"none"):
            return FAULTS[fault.decode()](batch["x"])
    return batch["x"]


# Of a whole run, by the text of any of its requests.
RUN_FAULTS = {
    "raise": lambda batch: {}["a key that is not there"],
    "few": lambda batch: batch[1:],
    "lie": lambda batch: Liar(batch[1:]),
    "no list": lambda batch: dict(enumerate(batch)),
    "quit": lambda batch: os._exit(3),
    "hang": lambda batch: time.sleep(1000),
    "huge": lambda batch: [numpy.broadcast_to(numpy.float32(1), 1 << 40)] * len(batch),
}
# Of a request alone.
FAULTY_RESULTS = {
    "exception": lambda: ValueError("not this one"),
    "exit": lambda: SystemExit("it left"),
    "unspeakable": lambda: Unspeakable(),
    "nothing": lambda: None,
    "nan": lambda: {**GOOD, "means": [numpy.nan]},
    "type": lambda: {**GOOD, "length": 1.5},
    "large": lambda: {**GOOD, "length": 1 << 63},
    "ragged": lambda: {**GOOD, "means": [[1], [2, 3]]},
    "texts": lambda: {**GOOD, "shouted": [1]},
    "unknown": lambda: {**GOOD, "z": 1},
    "missing": lambda: {"length": 1},
}
GOOD = {"length": 1, "means": [1.5], "shouted": ["A"], "together": 1}


class Unspeakable(Exception):
    def __str__(self):
        raise self


@millpond.backend
def requests(batch):
    """text: bytes[], image: u8[?, ?], words: bytes[?] -> length: i64[], means: f32[?], shouted: bytes[?], together: i64[]"""
    texts = [request["text"].decode() for request in batch]
    for fault in RUN_FAULTS.keys() & set(texts):
        return RUN_FAULTS[fault](batch)

    def one(request):
        image, words = request["image"], request["words"]
        assert isinstance(image, numpy.ndarray) and not image.flags.writeable and isinstance(words, list)
        means = image.mean(axis=1, dtype="f4")
        shouted = [word.decode().upper() for word in words]
        return {"length": len(request["text"]), "means": means, "shouted": shouted, "together": len(batch)}

    return [FAULTY_RESULTS[text]() if text in FAULTY_RESULTS else one(request) for text, request in zip(texts, batch)]


@millpond.backend
def again(batch):
    """Inputs of any type and shape, each given back as it came."""
    return [{f"{name}_out": value for name, value in request.items()} for request in batch]


@millpond.backend
def lengths(batch):
    """text: bytes[] -> n: i64[]"""
    return [len(request["text"]) for request in batch]


@millpond.backend
def pids(batch):
    """Any inputs -> pid: i64[]"""
    return [os.getpid()] * len(batch)


def unmarked(batch):
    return batch
