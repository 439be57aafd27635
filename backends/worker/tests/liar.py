"""A worker in plain Python: struct, mmap and a socket. It does as docs/formats/worker.md says, or lies as it is asked to.

Its model takes words (bytes[N]) and x (f32[N, 2]) and gives the sums of rows (f32[N, 1]) and the words again. The first word of a run is what
it does wrong in it; the key "lie" of what it is to load, what it does wrong before.
"""

import json
import mmap
import os
import socket
import struct
import sys
import time

HEAD = struct.Struct("<IIQ")
PLACED = struct.Struct("<IIQQ")
START, MEMORY, RUN, READY, FAILED, ANSWER, NEEDS = 1, 2, 3, 129, 130, 131, 132
F32, BYTES = 1, 9
SIGNATURE = {
    "inputs": [
        {"name": "words", "type": "bytes", "shape": [None]},
        {"name": "x", "type": "f32", "shape": [None, 2]},
    ],
    "outputs": [
        {"name": "sums", "type": "f32", "shape": [None, 1]},
        {"name": "echo", "type": "bytes", "shape": [None]},
    ],
    "batched": True,
}


class Worker:
    """The server at the other end of standard input, and the memory that both share."""

    def __init__(self):
        self.server = socket.socket(fileno=os.dup(0))
        self.memory = {}

    def hear(self):
        """The next message, less those about memory; nothing at the end."""
        while True:
            message, files, _, _ = socket.recv_fds(self.server, 1 << 16, 1)
            if not message:
                return None
            kind, count, number = HEAD.unpack_from(message)
            if kind != MEMORY:
                return kind, count, number, message[HEAD.size :]
            (size,) = struct.unpack_from("<Q", message, HEAD.size)
            self.memory[number] = mmap.mmap(files[0], size)
            for file in files:
                try:
                    os.ftruncate(file, 0)
                    sys.exit("the memory could be taken away")
                except PermissionError:
                    os.close(file)
            if number == 1:
                return kind, 0, number, b""

    def say(self, kind, number, rest=b"", count=0):
        self.server.send(HEAD.pack(kind, count, number) + rest)


def read(memory, rest, count):
    """The shapes and the bytes of each tensor of a run."""
    at, tensors = 0, []
    for _ in range(count):
        kind, rank, start, size = PLACED.unpack_from(rest, at)
        shape = struct.unpack_from(f"<{rank}Q", rest, at + PLACED.size)
        at += PLACED.size + 8 * rank
        tensors.append((kind, shape, memory[start : start + size]))
    return tensors


def strings(shape, raw):
    count = shape[0]
    ends = struct.unpack_from(f"<{count}Q", raw)
    joined = raw[8 * count :]
    return [joined[start:end] for start, end in zip((0,) + ends, ends)]


def lie(worker, word, number, placed):
    """Does what the word says instead of answering; false where it says nothing of the kind."""
    sums, echo = placed
    one = lambda *values, shape: PLACED.pack(*values) + struct.pack(f"<{len(shape)}Q", *shape)
    answers = {
        "few": [sums],
        "many": [sums, echo, echo],
        "type": [one(2, 2, 0, 4, shape=[1, 1]), echo],
        "shape": [one(F32, 2, 0, 8, shape=[2, 1]), echo],
        "rank": [one(F32, 0, 0, 4, shape=[]), echo],
        "huge": [one(F32, 2, 0, 4, shape=[1 << 63, 1 << 63]), echo],
        "beyond": [one(F32, 2, 1 << 40, 4, shape=[1, 1]), echo],
        "wraps": [one(F32, 2, (1 << 64) - 2, 4, shape=[1, 1]), echo],
        "short": [one(F32, 2, 0, 2, shape=[1, 1]), echo],
        "ends": [sums, one(BYTES, 1, 64, 12, shape=[1])],
        "shares": [sums, one(BYTES, 1, 0, 12, shape=[1])],
    }
    if word in answers:
        worker.memory[1][:76] = b"\xff" * 76
        worker.say(ANSWER, number, b"".join(answers[word]), len(answers[word]))
    elif word == "other":
        worker.say(ANSWER, number + 1, sums + echo, 2)
    elif word == "nonsense":
        worker.server.send(b"nonsense")
    elif word == "long":
        worker.server.send(b"x" * 100_000)
    elif word == "needs":
        worker.say(NEEDS, number, struct.pack("<Q", 1 << 62))
    elif word == "twice":
        worker.say(NEEDS, number, struct.pack("<Q", 1))
        worker.hear()
        worker.say(NEEDS, number, struct.pack("<Q", 1))
    elif word == "ready":
        worker.say(READY, 2, b"{}")
    elif word == "raise":
        worker.say(FAILED, number, b"it raised\nan error")
    elif word == "closes":
        worker.server.close()
        os.close(0)
        time.sleep(1000)
    else:
        return False
    return True


def run(worker, number, count, rest):
    (_, shape, words), (_, _, x) = read(worker.memory[0], rest, count)
    rows = shape[0]
    numbers = struct.unpack(f"<{2 * rows}f", x)
    sums = [numbers[2 * row] + numbers[2 * row + 1] for row in range(rows)]
    echo_at = -(-4 * rows // 64) * 64
    needed = echo_at + len(words)
    if len(worker.memory.get(1, b"")) < needed:
        worker.say(NEEDS, number, struct.pack("<Q", needed))
        worker.hear()
    placed = [
        PLACED.pack(F32, 2, 0, 4 * rows) + struct.pack("<2Q", rows, 1),
        PLACED.pack(BYTES, 1, echo_at, len(words)) + struct.pack("<Q", rows),
    ]
    if lie(worker, strings(shape, words)[0].decode(), number, placed):
        return
    leaves = strings(shape, words)[0] == b"leaves"
    worker.memory[1][: 4 * rows] = struct.pack(f"<{rows}f", *sums)
    worker.memory[1][echo_at:needed] = words
    worker.say(ANSWER, number, b"".join(placed), 2)
    if leaves:
        worker.server.close()
        os.close(0)
        time.sleep(1000)


def main():
    worker = Worker()
    kind, _, version, what = worker.hear()
    assert (kind, version) == (START, 2)
    told = json.loads(what).get("lie", "")
    signature = json.loads(json.dumps(SIGNATURE))
    if told == "version":
        worker.say(READY, 1, b"{}")
    elif told == "failed":
        worker.say(FAILED, 0, b"it could not")
    elif told == "signature":
        signature["outputs"][0]["shape"] = [3]
    elif told == "silent":
        time.sleep(1000)
    elif told == "answer":
        worker.say(ANSWER, 0)
    elif told == "once":
        # The first one alone loads.
        with open(json.loads(what)["path"], "a+") as seen:
            if seen.tell() > 0:
                sys.exit(4)
            seen.write("x")
    elif told == "file":
        # Another signature each time.
        with open(json.loads(what)["path"], "a+") as seen:
            signature["outputs"][0]["name"] = f"sums{seen.tell()}"
            seen.write("x")
    worker.say(READY, 2, json.dumps(signature).encode())
    while (heard := worker.hear()) is not None:
        _, count, number, rest = heard
        run(worker, number, count, rest)


if __name__ == "__main__":
    main()
