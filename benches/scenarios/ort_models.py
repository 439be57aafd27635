#!/usr/bin/env python3
"""Models with seeded random weights for ort_load.py, with inputs and what ONNX Runtime answers, in target/bench-models.

    dense      1,024 numbers through two layers of 4,096 to 1,000 shares: most of a run reads weights
    resnet18   ResNet-18: images of 3 x 224 x 224 to 1,000 shares, its graph written here
    resnet50   the graph of `light_resnet50` in the package `onnx`

Each is NAME.onnx, whose first dimension is free, with NAME.inputs.npy [ROWS, ...] and NAME.expected.npy [ROWS, 1000], f32. The weights of
`light_resnet50` are one constant, and so is its answer to any image; its copy draws them. A second run finds the files unchanged and makes
nothing.
"""

import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
# Its stamp, and the versions that its models are written in, are the example's.
sys.path.insert(0, str(HERE.parents[1] / "examples/movielens"))

from export import IR_VERSION, OPSET
from ort_load import FOLDER, same
from stamp import Stamp, digest_files

SEED = 20261124
ROWS = 16
CLASSES = 1000
IMAGE = (3, 224, 224)
DENSE = (1024, 4096, 4096, CLASSES)
# Of ResNet-18: channels of the four groups of two blocks.
CHANNELS = (64, 128, 256, 512)


class Graph:
    """Nodes and weights of a model that grows from `x`."""

    def __init__(self, rng):
        self.rng, self.nodes, self.weights = rng, [], []

    def weight(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def node(self, kind, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def dense(self, value, wide, narrow, spread):
        weight = self.weight(self.rng.normal(0, np.sqrt(spread / wide), (wide, narrow)))
        return self.node("Gemm", value, weight, self.weight(self.rng.normal(0, 0.1, narrow)))

    def convolution(self, value, wide, narrow, size, stride, scale=1.0):
        """A convolution and its batch normalization."""
        weight = self.weight(spread_by_he(self.rng, (narrow, wide, size, size)))
        value = self.node("Conv", value, weight, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[size // 2] * 4)
        drawn = (normalization(self.rng, part, narrow, scale) for part in ("s", "b", "rm", "riv"))
        return self.node("BatchNormalization", value, *map(self.weight, drawn))

    def model(self, value, shape):
        self.nodes.append(helper.make_node("Softmax", [value], ["y"], axis=1))
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", CLASSES])]
        graph = helper.make_graph(self.nodes, "bench", inputs, outputs, self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        made.ir_version = IR_VERSION
        return made


def spread_by_he(rng, shape):
    """Weights that leave values of the size that they came in."""
    return rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)


def normalization(rng, part, channels, scale):
    """Scale, offset, running mean or running variance of a batch normalization."""
    if part in ("s", "riv"):
        return (scale if part == "s" else 1.0) * rng.uniform(0.8, 1.2, channels)
    return rng.normal(0, 0.1, channels)


def dense(rng):
    graph, value = Graph(rng), "x"
    for layer, (wide, narrow) in enumerate(zip(DENSE, DENSE[1:])):
        last = layer == len(DENSE) - 2
        value = graph.dense(value, wide, narrow, 1 if last else 2)
        value = value if last else graph.node("Relu", value)
    return graph.model(value, DENSE[:1])


def block(graph, value, wide, narrow, stride):
    """Two convolutions beside what goes past them."""
    inner = graph.node("Relu", graph.convolution(value, wide, narrow, 3, stride))
    inner = graph.convolution(inner, narrow, narrow, 3, 1, scale=0.3)
    past = value if wide == narrow else graph.convolution(value, wide, narrow, 1, stride)
    return graph.node("Relu", graph.node("Add", inner, past))


def resnet18(rng):
    graph = Graph(rng)
    value = graph.node("Relu", graph.convolution("x", IMAGE[0], CHANNELS[0], 7, 2))
    value = graph.node("MaxPool", value, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    wide = CHANNELS[0]
    for narrow in CHANNELS:
        value = block(graph, value, wide, narrow, 1 if wide == narrow else 2)
        value = block(graph, value, narrow, narrow, 1)
        wide = narrow
    value = graph.node("Flatten", graph.node("GlobalAveragePool", value))
    return graph.model(graph.dense(value, wide, CLASSES, 1), IMAGE)


def drawn(rng, name, shape):
    """A weight of `light_resnet50` by its name: a convolution's, the last layer's, or a part of a batch normalization."""
    if name == "gpu_0/pred_w_0":
        return rng.normal(0, 0.01, shape)
    if name.endswith("_w_0"):
        return spread_by_he(rng, shape)
    if name == "gpu_0/pred_b_0":
        return rng.normal(0, 0.1, shape)
    layer, _, part = name.removesuffix("_0").rpartition("_bn_")
    if part not in ("s", "b", "rm", "riv"):
        sys.exit(f"light_resnet50 has a weight {name}, which is none of ResNet-50's; use the onnx of examples/movielens/requirements.txt")
    # The last of a block is small, so that sixteen blocks do not grow what goes past them.
    return normalization(rng, part, shape[0], 0.3 if layer.endswith("branch2c") else 1.0)


def resnet50(rng):
    """`light_resnet50` with drawn weights and a free first dimension."""
    file = pathlib.Path(onnx.__file__).parent / "backend/test/data/light/light_resnet50.onnx"
    if not file.is_file():
        sys.exit(f"{file} is not there; use the onnx of examples/movielens/requirements.txt")
    made = onnx.load(file)
    graph = made.graph
    given = {weight.name: numpy_helper.to_array(weight) for weight in graph.initializer}
    shapes = {node.output[0]: given[node.input[0]] for node in graph.node if node.op_type == "ConstantOfShape"}
    shapes |= {name: value.shape for name, value in given.items() if "_bn_" in name and not name.endswith("__SHAPE")}
    weights = [numpy_helper.from_array(drawn(rng, name, tuple(shape)).astype(np.float32), name) for name, shape in shapes.items()]
    (flat,) = [node.input[1] for node in graph.node if node.op_type == "Reshape"]
    weights.append(numpy_helper.from_array(np.array([-1, given[flat][1]]), flat))
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    (image,) = [value for value in graph.input if value.name not in given]
    for value in (image, graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    # Weights that are inputs too may be overridden, so that nothing could be fused with them.
    made.ir_version = IR_VERSION
    del graph.input[:], graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.input.append(image)
    graph.node.extend(nodes)
    graph.initializer.extend(weights)
    return made


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
    stamp = Stamp(FOLDER, digest_files([pathlib.Path(__file__).resolve()]) | versions, outputs)
    if stamp.is_current():
        print(f"made already, from the same inputs: {FOLDER}")
        return
    stamp.forget()
    for name, (build, shape) in MODELS.items():
        make(name, build, shape)
    stamp.write()


if __name__ == "__main__":
    main()
