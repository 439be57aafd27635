"""upserting.py ADDRESS ADMIN TABLE CALLS PROGRAM ARGUMENT...: becomes PROGRAM, a server, while a child upserts 100 rows of its table in CALLS calls a second,
as long as somebody else looks rows up: the servers of a round live at the same time, and share a core.

The rows are those that the table has already, so that answers can be compared. A call that is refused, or a child that cannot keep its rate, ends the
server: no figure is of a server that took fewer upserts.
"""

import os
import random
import signal
import socket
import struct
import sys
import threading
import time
import urllib.request

KEYS = 100
ROWS = 1_000_000
BATCHES = 500
IN_FLIGHT_MAX = 256
# Each look has the server write a page of metrics, which takes it some milliseconds.
WATCH_S = 1.0


def text(value):
    return bytes([0xA0 | len(value)]) + value.encode()


def block(data):
    return b"\xc5" + struct.pack(">H", len(data)) + data


def frame(method, number, payload):
    head = struct.pack("<4sBBBBII", b"FPNN", 1, 0x80, 1, len(method), len(payload), number)
    return head + method.encode() + payload


def exchange(stream, request, strict=True):
    """The payload of the answer, which is no error where `strict`."""
    stream.sendall(request)
    head = stream.recv(16, socket.MSG_WAITALL)
    status, length = head[7], struct.unpack("<I", head[8:12])[0]
    payload = stream.recv(length, socket.MSG_WAITALL)
    if status and strict:
        raise ValueError(payload)
    return payload


def ping(table):
    return b"\x82" + text("table") + text(table) + text("keys") + block(bytes(8))


def batches(stream, table):
    """Payloads of upserts: rows as lookups answer them."""
    chosen = random.Random(7)
    for number in range(BATCHES):
        keys = struct.pack(f"<{KEYS}Q", *(chosen.randrange(ROWS) for _ in range(KEYS)))
        asked = b"\x82" + text("table") + text(table) + text("keys") + block(keys)
        answer = exchange(stream, frame("features.lookup", number, asked))
        at = answer.index(text("values")) + len(text("values"))
        length = struct.unpack(">H", answer[at + 1 : at + 3])[0]
        values = answer[at + 3 : at + 3 + length]
        yield b"\x83" + text("table") + text(table) + text("keys") + block(keys) + text("values") + block(values)


def connected(address, server):
    host, port = address.rsplit(":", 1)
    while os.getppid() == server:
        try:
            return socket.create_connection((host, int(port)))
        except OSError:
            time.sleep(0.01)
    sys.exit()


def keys_total(admin):
    with urllib.request.urlopen(f"http://{admin}/metrics") as page:
        lines = page.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("millpond_table_keys_total{"))


def watch(admin, is_asked):
    """Sets whether keys were asked for since the last look."""
    before = keys_total(admin)
    while True:
        time.sleep(WATCH_S)
        now = keys_total(admin)
        is_asked.set() if now > before else is_asked.clear()
        before = now


def main(address, admin, table, calls):
    server, period = os.getppid(), 1 / float(calls)
    stream = connected(address, server)
    while b"warming up" in exchange(stream, frame("features.lookup", 0, ping(table)), False):
        time.sleep(0.01)
    payloads = list(batches(stream, table))
    answered = threading.Semaphore(IN_FLIGHT_MAX)
    threading.Thread(target=take_answers, args=(stream, answered, server), daemon=True).start()
    is_asked = threading.Event()
    threading.Thread(target=watch, args=(admin, is_asked), daemon=True).start()
    due = time.monotonic()
    for number in range(sys.maxsize):
        if not is_asked.is_set():
            is_asked.wait()
            due = time.monotonic()
        due += period
        time.sleep(max(0.0, due - time.monotonic()))
        if not answered.acquire(timeout=1) or time.monotonic() > due + 1:
            raise ValueError("it is a second late")
        stream.sendall(frame("features.upsert", number & 0xFFFFFFFF, payloads[number % BATCHES]))


def take_answers(stream, answered, server):
    """Each upsert was taken, or the server ends."""
    while len(head := stream.recv(16, socket.MSG_WAITALL)) == 16:
        payload = stream.recv(struct.unpack("<I", head[8:12])[0], socket.MSG_WAITALL)
        if head[7]:
            print(f"upserting: {payload}", file=sys.stderr)
            os.kill(server, signal.SIGKILL)
        answered.release()


if __name__ == "__main__":
    if os.fork():
        os.execv(sys.argv[5], sys.argv[5:])
    parent = os.getppid()
    try:
        main(*sys.argv[1:5])
    except (OSError, ValueError, IndexError, struct.error) as error:
        # A server that has ended answers nobody.
        if os.getppid() == parent and not isinstance(error, (ConnectionError, IndexError, struct.error)):
            print(f"upserting: {error}", file=sys.stderr)
            os.kill(parent, signal.SIGKILL)
