"""Triton by nvidia-pytriton with photographs: images_with_triton.py serve PORT MODEL…, images_with_triton.py CASE PORT.

PORT is that of HTTP; gRPC, which is called, has the next. The models are alone, decode and those of r4.toml, with their settings; so are the cases.

    alone      bytes in and the same bytes out, as UINT8
    decode     JPEG to an image by OpenCV, in four instances as Millpond's stage
    others     OpenCV decodes and resizes, ONNX Runtime classifies, a batch at a time: the package has no backend for ONNX
"""

import sys

import images

import numpy
from with_triton import open_client, serve

TEXT, BYTES, NUMBER = numpy.bytes_, numpy.uint8, numpy.float32
DECODERS = 4


def models(wanted):
    """What each model's instances do, its input, its output, its settings."""
    from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor

    def echo(requests):
        return [{"y": request["x"]} for request in requests]

    def decode(requests):
        return [{"y": decoded(request["x"])} for request in requests]

    def instance(name):
        classify = images.classifier(name)

        def classified(requests):
            # A request has one row, and a row one text: photographs of any length share a batch.
            shares = classify([request["x"][0, 0] for request in requests])
            return [{"y": row[None]} for row in shares]

        return classified

    decoded, alone = images.reference().pixels_of, ModelConfig(batching=False)
    jpeg = Tensor(name="x", dtype=BYTES, shape=(-1,))
    known = {
        "alone": lambda: (echo, jpeg, Tensor(name="y", dtype=BYTES, shape=(-1,)), alone),
        "decode": lambda: ([decode] * DECODERS, jpeg, Tensor(name="y", dtype=BYTES, shape=(-1, -1, 3)), alone),
    }
    for name in wanted:
        if name in known:
            yield name, *known[name]()
            continue
        settings = images.settings()[name]
        batcher = DynamicBatcher(max_queue_delay_microseconds=settings["batch_delay_us_max"])
        how = ModelConfig(max_batch_size=settings["batch_size_max"], batcher=batcher)
        instances = [instance(name) for _ in range(settings["instances"])]
        yield name, instances, Tensor(name="x", dtype=TEXT, shape=(1,)), Tensor(name="y", dtype=NUMBER, shape=(-1,)), how


def caller_of(name, port):
    """Opens a client; its call gives what the model answers to a photograph."""
    is_text = name not in ("alone", "decode")

    def given(jpeg, grpc):
        value = numpy.array([[jpeg]], numpy.object_) if is_text else numpy.frombuffer(jpeg, numpy.uint8)
        made = grpc.InferInput("x", list(value.shape), "BYTES" if is_text else "UINT8")
        made.set_data_from_numpy(value)
        return made

    def caller():
        client, grpc = open_client(port)
        inputs = {jpeg: given(jpeg, grpc) for jpeg in images.photographs()}
        return lambda jpeg: client.infer(name, [inputs[jpeg]]).as_numpy("y")

    return caller


if __name__ == "__main__":
    case, base = sys.argv[1], int(sys.argv[2])
    if case == "serve":
        serve(base, models(sys.argv[3:]))
    elif case == "alone":
        asked = caller_of(case, base)
        images.run_alone(lambda: (lambda call: lambda jpeg: call(jpeg).tobytes())(asked()))
    else:
        images.run(case, caller_of(case, base))
