"""A worker in plain Python that takes several requests a run, as docs/formats/worker.md says, or lies about what they come to.

Its model takes a word (bytes[]) and gives it again. A word that begins with "no" fails; another one of LIES is what it does wrong in its run.
"""

import json
import struct

from liar import ANSWER, BYTES, FAILED, HEAD, NEEDS, PLACED, READY, Worker, strings

GROUP = struct.Struct("<II")
REQUESTS, RESULTS = 4, 133
SIGNATURE = {
    "inputs": [{"name": "word", "type": "bytes", "shape": []}],
    "outputs": [{"name": "echo", "type": "bytes", "shape": []}],
    "batched": False,
}


def words(memory, rest, count):
    for at in range(count):
        size = GROUP.size + PLACED.size
        _, _, kind, rank, start, taken = struct.unpack_from("<IIIIQQ", rest, at * size)
        assert (kind, rank) == (BYTES, 0)
        yield strings((1,), memory[start : start + taken])[0]


def run(worker, number, count, rest):
    said = list(words(worker.memory[0], rest, count))
    if len(worker.memory.get(1, b"")) < 1 << 18:
        worker.say(NEEDS, number, struct.pack("<Q", 1 << 18))
        worker.hear()
    results, end = [], 0
    for word in said:
        text = struct.pack("<Q", len(word)) + word
        worker.memory[1][end : end + len(text)] = text
        results.append(GROUP.pack(word.startswith(b"no"), 1) + PLACED.pack(BYTES, 0, end, len(text)))
        end += -(-len(text) // 64) * 64
    first, count = results[0], len(results)
    lies = {
        b"few": results[1:],
        b"shares": [first] * count,
        b"outcome": [GROUP.pack(2, 1) + first[GROUP.size :]] * count,
        b"nothing": [GROUP.pack(0, 0)] * count,
        b"no reason": [GROUP.pack(1, 0)] * count,
        b"no text": [GROUP.pack(1, 1) + PLACED.pack(1, 0, 0, 4)] * count,
        b"no place": [GROUP.pack(1, 1) + PLACED.pack(BYTES, 0, 1 << 40, 9)] * count,
    }
    told = next((word for word in said if word in lies), None)
    if b"raise" in said:
        worker.say(FAILED, number, b"it raised")
    elif b"answer" in said:
        worker.say(ANSWER, number, first[GROUP.size :], 1)
    else:
        results = lies.get(told, results)
        worker.say(RESULTS, number, b"".join(results), len(results))


def main():
    worker = Worker()
    worker.hear()
    worker.say(READY, 2, json.dumps(SIGNATURE).encode())
    while (heard := worker.hear()) is not None:
        kind, count, number, rest = heard
        assert kind == REQUESTS and len(rest) + HEAD.size <= 1 << 16
        run(worker, number, count, rest)


main()
