#!/usr/bin/env python3
"""Models with seeded random weights for ort_load.py, with inputs and what ONNX Runtime answers, in target/bench-models.

    dense      1,024 numbers through two layers of 4,096 to 1,000 shares: most of a run reads weights
    resnet18   ResNet-18: images of 3 x 224 x 224 to 1,000 shares
    resnet50   ResNet-50, likewise; both are those of examples/r4

Each is NAME.onnx, whose first dimension is free, with NAME.inputs.npy [ROWS, ...] and NAME.expected.npy [ROWS, 1000], f32. A second run
finds the files unchanged and makes nothing.
"""

import pathlib
import sys

import numpy as np
import onnx
import onnxruntime

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
# The stamp and the graphs are the examples'.
sys.path[:0] = [str(EXAMPLES / "movielens"), str(EXAMPLES / "r4")]

from ort_load import FOLDER, same
from networks import CLASSES, IMAGE, Graph, resnet18, resnet50
from stamp import Stamp, digest_files

SOURCES = (pathlib.Path(__file__).resolve(), EXAMPLES / "r4/networks.py")
SEED = 20261124
ROWS = 16
DENSE = (1024, 4096, 4096, CLASSES)


def dense(rng):
    graph, value = Graph(rng), "x"
    for layer, (wide, narrow) in enumerate(zip(DENSE, DENSE[1:])):
        last = layer == len(DENSE) - 2
        value = graph.dense(value, wide, narrow, 1 if last else 2)
        value = value if last else graph.node("Relu", value)
    return graph.model(value, DENSE[:1])


def make(name, build, shape):
    """One model, its inputs and the answers."""
    print(f"making {name}", flush=True)
    rng = np.random.default_rng(SEED)
    model = build(rng)
    onnx.checker.check_model(model, full_check=True)
    file = FOLDER / f"{name}.onnx"
    onnx.save(model, file)
    # Rows lie around centres of their own, so that their answers differ.
    centres = rng.normal(0, 1, (ROWS, shape[0], *[1] * (len(shape) - 1)))
    inputs = (centres + rng.normal(0, 1, (ROWS, *shape))).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    (x,) = session.get_inputs()
    expected = np.concatenate([session.run(None, {x.name: row[None]})[0] for row in inputs])
    for at, answer in enumerate(expected):
        others = np.delete(expected, at, axis=0)
        if not np.isfinite(answer).all() or any(same(answer, other, times=10) for other in others):
            sys.exit(f"{name}: the answer to row {at} is not finite, or cannot be told from another")
    np.save(FOLDER / f"{name}.inputs.npy", inputs)
    np.save(FOLDER / f"{name}.expected.npy", expected)


MODELS = {"dense": (dense, DENSE[:1]), "resnet18": (resnet18, IMAGE), "resnet50": (resnet50, IMAGE)}


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    versions = {package.__name__: package.__version__ for package in (np, onnx, onnxruntime)}
    outputs = [f"{name}.{end}" for name in MODELS for end in ("onnx", "inputs.npy", "expected.npy")]
    stamp = Stamp(FOLDER, digest_files(SOURCES) | versions, outputs)
    if stamp.is_current():
        print(f"made already, from the same inputs: {FOLDER}")
        return
    stamp.forget()
    for name, (build, shape) in MODELS.items():
        make(name, build, shape)
    stamp.write()


if __name__ == "__main__":
    main()
