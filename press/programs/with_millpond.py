"""Millpond from Python: with_millpond.py CASE [BATCH_SIZE_MAX | ADDRESS].

    native, python   millpond.Pipeline, bytes in and the same bytes out
    string, uint8    the same of 64 KiB as bytes, and as an array
    batch            batches of at most BATCH_SIZE_MAX, which may wait 10 ms to fill
    sum              the GIL-bound function as a backend of ten instances
    client           millpond.Client at ADDRESS, bytes in and the same bytes out
    client-string, client-uint8   the same of 64 KiB
    client-batch, client-sum      the server's models of those names
"""

import sys

import callers

import millpond
from r4 import DATA, LARGE, SUM, add_up


@millpond.backend(batch_size_max=4)
def echo(batch):
    return batch


@millpond.backend(batch_size_max=4)
def summed(batch):
    return [add_up() for _ in batch]


def local(case, batch_size_max):
    native = {"stages": {"echo": {"identity": {}, "instances": 1}}}
    model = {"backend": "practice", "behaviour": "wait", "us": 0, "batch_size_max": batch_size_max, "batch_delay_us_max": 10_000}
    row = memoryview(bytearray(4)).cast("f", [1, 1])
    config, data, expected = {
        "native": (native, DATA, DATA),
        "python": ({"stages": {"echo": {"backend": echo}}}, DATA, DATA),
        "string": (native, LARGE, LARGE),
        "uint8": (native, memoryview(LARGE), LARGE),
        "batch": ({"models": {"sum": model}, "stages": {"echo": {"model": {"model": "sum"}}}}, row, bytes(row)),
        "sum": ({"stages": {"echo": {"backend": summed, "instances": 10}}}, DATA, SUM),
    }[case]
    pipe = millpond.Pipeline(config)

    def call():
        callers.expect(pipe({"data": data})["echo"], expected)

    def call_of_arrays():
        callers.expect(bytes(pipe({"data": data})["echo"]), expected)

    return lambda _caller: call_of_arrays if isinstance(data, memoryview) else call


def over_network(case, address):
    tensor = {"shape": [len(LARGE)], "type": "u8", "data": LARGE}
    row = {"shape": [1, 1], "type": "f32", "data": bytes(4)}
    number = {"shape": [1], "type": "i64", "data": bytes(8)}
    method, payload, expected = {
        "client": ("run", hello(DATA), DATA),
        "client-string": ("run", hello(LARGE), LARGE),
        "client-uint8": ("run", hello(tensor), LARGE),
        "client-batch": ("infer", {"model": "batch", "inputs": {"x": row}}, bytes(4)),
        "client-sum": ("infer", {"model": "sum", "inputs": {"x": number}}, SUM.to_bytes(8, "little")),
    }[case]

    def make(_caller):
        client = millpond.Client(address)
        return lambda: callers.expect(value(client.call(method, payload)), expected)

    return make


def hello(data):
    return {"pipeline": "hello", "inputs": {"data": data}}


def value(answer):
    """The bytes of the only output."""
    (found,) = answer["outputs"].values()
    while not isinstance(found, bytes):
        found = found["data"] if isinstance(found, dict) else found[0]
    return found


if __name__ == "__main__":
    name, more = sys.argv[1], sys.argv[2:]
    if name.startswith("client"):
        callers.run(over_network(name, more[0]))
    else:
        callers.run(local(name, int(more[0]) if more else 4))
