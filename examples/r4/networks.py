"""Networks with seeded random weights: ResNet-18 as a graph written here, and ResNet-50 as that of `light_resnet50` in the package `onnx`.

The weights of `light_resnet50` are one constant, and so is its answer to any image; its copy draws them. Every model takes any number of
images of 3 x 224 x 224. Needs numpy and onnx.
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# The versions that models are written in are the MovieLens example's.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "movielens"))

from export import IR_VERSION, OPSET
from reference import SIDE

CLASSES = 1000
IMAGE = (3, SIDE, SIDE)
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
        """The model that gives shares of the classes."""
        return self.ends(helper.make_node("Softmax", [value], ["y"], axis=1), shape, [CLASSES])

    def ends(self, node, shape, gives):
        """The model whose last node is this one; rows have `shape`, and their answers `gives`."""
        self.nodes.append(node)
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", *gives])]
        graph = helper.make_graph(self.nodes, "networks", inputs, outputs, self.weights)
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


def block(graph, value, wide, narrow, stride):
    """Two convolutions beside what goes past them."""
    inner = graph.node("Relu", graph.convolution(value, wide, narrow, 3, stride))
    inner = graph.convolution(inner, narrow, narrow, 3, 1, scale=0.3)
    past = value if wide == narrow else graph.convolution(value, wide, narrow, 1, stride)
    return graph.node("Relu", graph.node("Add", inner, past))


def trunk18(graph):
    """ResNet-18 up to its last layer; what gives its channels, and how many there are."""
    value = graph.node("Relu", graph.convolution("x", IMAGE[0], CHANNELS[0], 7, 2))
    value = graph.node("MaxPool", value, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    wide = CHANNELS[0]
    for narrow in CHANNELS:
        value = block(graph, value, wide, narrow, 1 if wide == narrow else 2)
        value = block(graph, value, narrow, narrow, 1)
        wide = narrow
    return graph.node("Flatten", graph.node("GlobalAveragePool", value)), wide


def resnet18(rng):
    graph = Graph(rng)
    return graph.model(graph.dense(*trunk18(graph), CLASSES, 1), IMAGE)


def finder(rng):
    """A ResNet-18 that gives each image one box, in 64ths of its sides, so that what is next to nothing moves no edge: left and top are in
    the first quarter, right and bottom in the last."""
    graph = Graph(rng)
    ends = graph.node("Sigmoid", graph.dense(*trunk18(graph), 4, 1))
    ends = graph.node("Round", graph.node("Mul", ends, graph.weight(np.array([16]))))
    ends = graph.node("Mul", ends, graph.weight(np.array([1 / 64])))
    ends = graph.node("Add", ends, graph.weight(np.array([0, 0, 0.75, 0.75])))
    shape = numpy_helper.from_array(np.array([-1, 1, 4]), "shape")
    graph.weights.append(shape)
    return graph.ends(helper.make_node("Reshape", [ends, "shape"], ["y"]), IMAGE, [1, 4])


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
