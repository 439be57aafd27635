"""Triton by nvidia-pytriton: with_triton.py serve PORT BATCH_SIZE_MAX MODEL…, with_triton.py CASE PORT [BATCH_SIZE_MAX].

PORT is that of HTTP; gRPC, which is called, has the next. The models are string, uint8, batch and sum, the cases those and hello.

    hello            bytes in and the same bytes out, as a STRING
    string, uint8    the same of 64 KiB as STRING and as UINT8
    batch            one float, in batches of at most BATCH_SIZE_MAX which may wait 10 ms to fill
    sum              the GIL-bound function, in ten instances
"""

import os
import sys
import sysconfig

import callers

import numpy
from r4 import DATA, LARGE, SUM, add_up

TEXT, BYTES, NUMBER = numpy.bytes_, numpy.uint8, numpy.float32


def models(size_max, wanted):
    """What each model's instances do, its input, its output, its settings."""
    from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor

    def echo(requests):
        return [{"y": request["x"]} for request in requests]

    def summed(requests):
        return [{"y": numpy.full(request["x"].shape, add_up(), numpy.int64)} for request in requests]

    alone = ModelConfig(batching=False)
    waits = ModelConfig(max_batch_size=size_max, batcher=DynamicBatcher(max_queue_delay_microseconds=10_000))
    known = [
        ("string", echo, TEXT, TEXT, alone),
        ("uint8", echo, BYTES, BYTES, alone),
        ("batch", echo, NUMBER, NUMBER, waits if size_max > 1 else alone),
        ("sum", [summed] * 10, NUMBER, numpy.int64, alone),
    ]
    for name, of, given, answered, how in known:
        if name in wanted:
            yield name, of, Tensor(name="x", dtype=given, shape=(-1,)), Tensor(name="y", dtype=answered, shape=(-1,)), how


def serve(port, bound):
    """Serves models until the process ends."""
    from pytriton.triton import Triton, TritonConfig

    # Its workers load whatever libpython the system has, which may be older than this interpreter's library of modules.
    os.environ["LD_LIBRARY_PATH"] = sysconfig.get_config_var("LIBDIR")
    config = TritonConfig(
        http_address="127.0.0.1", http_port=port, grpc_address="127.0.0.1", grpc_port=port + 1, allow_metrics=False, exit_timeout_secs=2
    )
    with Triton(config=config) as triton:
        for name, of, given, answered, how in bound:
            triton.bind(name, of, [given], [answered], config=how)
        triton.serve()


def open_client(port):
    import tritonclient.grpc as grpc

    return grpc.InferenceServerClient(f"127.0.0.1:{port + 1}"), grpc


def make(case, port, size_max):
    model, kind, value = {
        "hello": ("string", "BYTES", numpy.array([DATA], numpy.object_)),
        "string": ("string", "BYTES", numpy.array([LARGE], numpy.object_)),
        "uint8": ("uint8", "UINT8", numpy.frombuffer(LARGE, numpy.uint8)),
        "batch": ("batch", "FP32", numpy.zeros((1, 1) if size_max > 1 else 1, numpy.float32)),
        "sum": ("sum", "FP32", numpy.zeros(1, numpy.float32)),
    }[case]
    expected = numpy.array([SUM]) if case == "sum" else value

    def of(_caller):
        client, grpc = open_client(port)
        given = grpc.InferInput("x", list(value.shape), kind)
        given.set_data_from_numpy(value)

        def call():
            found = client.infer(model, [given]).as_numpy("y")
            if not numpy.array_equal(found, expected):
                raise callers.Wrong(f"found {str(found)[:100]}, expected {str(expected)[:100]}")

        return call

    return of


if __name__ == "__main__":
    name, base, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 4
    if name == "serve":
        serve(base, models(most, sys.argv[4:]))
    else:
        callers.run(make(name, base, most))
