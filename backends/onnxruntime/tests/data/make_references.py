"""Writes the ONNX models beside this file and, for each, JSON with inputs and ONNX Runtime's outputs.

Not part of any build: what it wrote is committed, and tests/references.rs reads that. Run it again only
to add a model, in an environment of its own:

    python3 -m venv /tmp/references && . /tmp/references/bin/activate
    pip install numpy==2.4.6 onnx==1.23.2 onnxruntime==1.31.1
    python backends/onnxruntime/tests/data/make_references.py

Every seed is fixed. A model is a row-wise function, so the reference of a batch of k rows is the first
k rows of the one reference stored.
"""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent
ROWS = 64
NAMES = {"float32": "f32", "float64": "f64", "int64": "i64", "int32": "i32", "uint8": "u8", "bool": "bool"}


def constant(name, array):
    return numpy_helper.from_array(np.ascontiguousarray(array), name)


def dense(random, name, rows, columns):
    """A weight and a bias of a size that keeps activations near one."""
    weight = (random.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)
    bias = (random.standard_normal(columns) * 0.1).astype(np.float32)
    return [constant(f"{name}.weight", weight), constant(f"{name}.bias", bias)]


def floats(random, *shape):
    """Two decimals, so that the JSON stays small and reads back exactly."""
    return np.round(random.uniform(-1, 1, shape), 2).astype(np.float32)


def tensor(name, array):
    """f32 is written with as few digits as read back to the same f32."""
    shortest = [float(str(value)) for value in array.ravel()] if array.dtype == np.float32 else array.ravel().tolist()
    return {"name": name, "type": NAMES[str(array.dtype)], "shape": list(array.shape), "data": shortest}


def write(name, nodes, inputs, outputs, initializers, values=None, opset=17):
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8 if opset == 17 else 9
    for value in model.graph.input:
        first = value.type.tensor_type.shape.dim[0] if value.type.tensor_type.shape.dim else None
        if first is not None and first.dim_param == "-1":
            first.dim_value = -1
    model_bytes = model.SerializeToString()
    (HERE / f"{name}.onnx").write_bytes(model_bytes)
    if values is None:
        return
    session = onnxruntime.InferenceSession(model_bytes, providers=["CPUExecutionProvider"])
    answers = session.run(None, values)
    names = [output.name for output in session.get_outputs()]
    reference = {
        "inputs": [tensor(key, array) for key, array in values.items()],
        "outputs": [tensor(key, array) for key, array in zip(names, answers)],
    }
    (HERE / f"{name}.json").write_text(json.dumps(reference, separators=(",", ":")) + "\n")


def mlp():
    random = np.random.default_rng(1)
    nodes = [
        helper.make_node("Gemm", ["x", "l1.weight", "l1.bias"], ["h1"]),
        helper.make_node("Relu", ["h1"], ["a1"]),
        helper.make_node("Gemm", ["a1", "l2.weight", "l2.bias"], ["h2"]),
        helper.make_node("Relu", ["h2"], ["a2"]),
        helper.make_node("Gemm", ["a2", "l3.weight", "l3.bias"], ["h3"]),
        helper.make_node("Sigmoid", ["h3"], ["score"]),
    ]
    write(
        "mlp",
        nodes,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 16])],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["N", 1])],
        dense(random, "l1", 16, 24) + dense(random, "l2", 24, 16) + dense(random, "l3", 16, 1),
        {"x": floats(random, ROWS, 16)},
    )


def ranker():
    """user 16, film 16, history 16, profile 8, genres 24; the first three also meet as products."""
    random = np.random.default_rng(2)
    bounds = {"user": (0, 16), "film": (16, 32), "history": (32, 48)}
    nodes, initializers = [], [constant("axis", np.array([1], np.int64))]
    for part, (start, end) in bounds.items():
        initializers.append(constant(f"{part}.start", np.array([start], np.int64)))
        initializers.append(constant(f"{part}.end", np.array([end], np.int64)))
        nodes.append(helper.make_node("Slice", ["x", f"{part}.start", f"{part}.end", "axis"], [part]))
    nodes += [
        helper.make_node("Mul", ["user", "film"], ["user_film"]),
        helper.make_node("Mul", ["history", "film"], ["history_film"]),
        helper.make_node("Concat", ["x", "user_film", "history_film"], ["wide"], axis=1),
        helper.make_node("Gemm", ["wide", "l1.weight", "l1.bias"], ["h1"]),
        helper.make_node("Relu", ["h1"], ["a1"]),
        helper.make_node("MatMul", ["a1", "l2.weight"], ["h2"]),
        helper.make_node("Add", ["h2", "l2.bias"], ["b2"]),
        helper.make_node("Sigmoid", ["b2"], ["column"]),
        helper.make_node("Squeeze", ["column", "axis"], ["score"]),
    ]
    write(
        "ranker",
        nodes,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 80])],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["batch"])],
        initializers + dense(random, "l1", 112, 12) + dense(random, "l2", 12, 1),
        {"x": floats(random, ROWS, 80)},
    )


def two_by_two():
    """Two inputs whose batch dimensions have different names, two outputs."""
    random = np.random.default_rng(3)
    nodes = [
        helper.make_node("Gemm", ["b", "l1.weight", "l1.bias"], ["wide_b"]),
        helper.make_node("Add", ["a", "wide_b"], ["sum"]),
        helper.make_node("Mul", ["sum", "a"], ["product"]),
        helper.make_node("ReduceSum", ["product", "axis"], ["score"], keepdims=1),
    ]
    write(
        "two_by_two",
        nodes,
        [
            helper.make_tensor_value_info("a", TensorProto.FLOAT, ["left", 8]),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, ["right", 4]),
        ],
        [
            helper.make_tensor_value_info("sum", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("score", TensorProto.FLOAT, None),
        ],
        [constant("axis", np.array([1], np.int64))] + dense(random, "l1", 4, 8),
        {"a": floats(random, ROWS, 8), "b": floats(random, ROWS, 4)},
    )


def gather():
    """Ids looked up in a constant table, the mean of three rows, one layer. The batch dimension is -1."""
    random = np.random.default_rng(4)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], axis=0),
        helper.make_node("ReduceMean", ["rows"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("Gemm", ["mean", "l1.weight", "l1.bias"], ["y"]),
    ]
    write(
        "gather",
        nodes,
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["-1", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [constant("table", random.standard_normal((50, 8)).astype(np.float32))] + dense(random, "l1", 8, 4),
        {"ids": random.integers(0, 50, (ROWS, 3), dtype=np.int64)},
    )


def types():
    """Every element type in; f32, f64, i64, i32, u8 and bool out. The batch dimension has no name."""
    random = np.random.default_rng(5)
    kinds = {
        "f": TensorProto.FLOAT,
        "d": TensorProto.DOUBLE,
        "l": TensorProto.INT64,
        "i": TensorProto.INT32,
        "u": TensorProto.UINT8,
        "m": TensorProto.BOOL,
    }
    nodes, previous = [], "f"
    for name in ["d", "l", "i", "u", "m"]:
        nodes.append(helper.make_node("Cast", [name], [f"{name}_f"], to=TensorProto.FLOAT))
        nodes.append(helper.make_node("Add", [previous, f"{name}_f"], [f"sum_{name}"]))
        previous = f"sum_{name}"
    nodes += [
        helper.make_node("Add", ["d", "d"], ["d2"]),
        helper.make_node("Add", ["l", "l"], ["l2"]),
        helper.make_node("Add", ["i", "i"], ["i2"]),
        helper.make_node("Identity", ["u"], ["u2"]),
        helper.make_node("Not", ["m"], ["not_m"]),
    ]
    outputs = {
        previous: TensorProto.FLOAT,
        "d2": TensorProto.DOUBLE,
        "l2": TensorProto.INT64,
        "i2": TensorProto.INT32,
        "u2": TensorProto.UINT8,
        "not_m": TensorProto.BOOL,
    }
    write(
        "types",
        nodes,
        [helper.make_tensor_value_info(name, kind, [None, 2]) for name, kind in kinds.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [],
        {
            "f": floats(random, ROWS, 2),
            "d": np.round(random.uniform(-1, 1, (ROWS, 2)), 3),
            "l": random.integers(-9, 9, (ROWS, 2), dtype=np.int64),
            "i": random.integers(-9, 9, (ROWS, 2), dtype=np.int32),
            "u": random.integers(0, 256, (ROWS, 2), dtype=np.uint8),
            "m": random.integers(0, 2, (ROWS, 2)).astype(bool),
        },
    )


def refused():
    """Files that a backend must refuse, each named after the reason."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    write("refused_unknown_domain", [helper.make_node("Frobnicate", ["x"], ["y"], domain="example")], [x], [y], [])
    write("refused_unknown_op", [helper.make_node("Frobnicate", ["x"], ["y"])], [x], [y], [])
    write("refused_output_from_nowhere", [helper.make_node("Relu", ["x"], ["z"])], [x], [y], [])
    write("refused_no_outputs", [helper.make_node("Relu", ["x"], ["z"])], [x], [], [])
    eighth = helper.make_tensor_value_info("x", TensorProto.FLOAT8E4M3FN, ["N", 4])
    cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    write("refused_float8", [cast], [eighth], [y], [], opset=19)
    sequence = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    write("refused_sequence", [helper.make_node("SequenceConstruct", ["x"], ["y"])], [x], [sequence], [])
    write("refused_input_without_shape", [helper.make_node("Relu", ["x"], ["y"])], [open_ended("x")], [y], [])


def open_ended(name):
    """A port of which the file does not say how many dimensions it has."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def shapes():
    """Small models without a batch, with further free sizes, or whose output has no shape."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])
    y = open_ended("y")
    two = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "M"])
    write("two_dynamic", [helper.make_node("Relu", ["x"], ["y"])], [two], [y], [])
    fixed = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])
    write("fixed", [helper.make_node("Relu", ["x"], ["y"])], [fixed], [y], [])
    write(
        "summed",
        [helper.make_node("ReduceSum", ["x", "axis"], ["y"], keepdims=0)],
        [x],
        [y],
        [constant("axis", np.array([0], np.int64))],
    )
    # Its output's shape is that of an example it was exported with.
    rows = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "M"])
    example = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])
    write("stale", [helper.make_node("Add", ["x", "x"], ["y"])], [rows], [example], [])
    # As many rows as it has, one after the other: the output's first size is free, and not the rows.
    flat = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["M"])
    write(
        "flattened",
        [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        [x],
        [flat],
        [constant("shape", np.array([-1], np.int64))],
    )
    scalar = helper.make_tensor_value_info("rate", TensorProto.INT64, [])
    state = helper.make_tensor_value_info("state", TensorProto.FLOAT, [2, "B", 3])
    sound = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", "T"])
    nodes = [
        helper.make_node("Cast", ["rate"], ["rate_f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "rate_f"], ["y"]),
        helper.make_node("Add", ["state", "rate_f"], ["state_next"]),
    ]
    # The form of a stateful model of sound: a scalar, a state with its batch in the middle, a free length.
    write("stateful", nodes, [sound, state, scalar], [y, open_ended("state_next")], [])
    # How many dimensions `y` has depends on a value, so that nothing but a run can tell.
    axes = helper.make_tensor_value_info("axes", TensorProto.INT64, ["R"])
    write("unshaped", [helper.make_node("Squeeze", ["x", "axes"], ["y"])], [x, axes], [y], [])


def odd():
    """Half floats, strings and the less usual integers as they came, weights in files of their own, and truth values that are neither 0 nor 1."""
    kinds = {"h": TensorProto.FLOAT16, "b": TensorProto.BFLOAT16, "s": TensorProto.STRING}
    for name, kind in kinds.items():
        ports = [helper.make_tensor_value_info(port, kind, ["N", 2]) for port in (name, f"{name}2")]
        names = {"h": "half", "b": "brain", "s": "strings"}
        write(names[name], [helper.make_node("Identity", [name], [f"{name}2"])], ports[:1], ports[1:], [])
    kinds = {
        "i8": TensorProto.INT8,
        "i16": TensorProto.INT16,
        "u16": TensorProto.UINT16,
        "u32": TensorProto.UINT32,
        "u64": TensorProto.UINT64,
    }
    ports = lambda suffix: [helper.make_tensor_value_info(f"{name}{suffix}", kind, ["N", 2]) for name, kind in kinds.items()]
    nodes = [helper.make_node("Identity", [name], [f"{name}_same"]) for name in kinds]
    write("integers", nodes, ports(""), ports("_same"), [])
    truths = onnx.TensorProto(name="truths", data_type=TensorProto.BOOL, dims=[1, 3], raw_data=bytes([0, 1, 2]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])
    y = helper.make_tensor_value_info("y", TensorProto.BOOL, None)
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Expand", ["truths", "shape"], ["y"]),
    ]
    write("truths", nodes, [x], [y], [truths])
    for name, location in {"external": "external.weights", "refused_external": "../external.weights"}.items():
        weight = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4])
        weight.data_location = onnx.TensorProto.EXTERNAL
        for key, value in {"location": location, "offset": "0", "length": "16"}.items():
            entry = weight.external_data.add()
            entry.key, entry.value = key, value
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])
        write(name, [helper.make_node("Add", ["x", "w"], ["y"])], [x], [open_ended("y")], [weight])
    (HERE / "external.weights").write_bytes(np.arange(4, dtype=np.float32).tobytes())


def loops():
    """As many turns of a loop as the largest value says, or turns without an end: each adds 1 to every value."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 1]) for name in ("x", "y")]
    turn = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), helper.make_node("Add", ["value", "one"], ["next"])],
        "turn",
        [
            helper.make_tensor_value_info("number", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("value", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
        ],
        [constant("one", np.float32(1))],
    )
    count = [
        helper.make_node("ReduceMax", ["x"], ["largest"], keepdims=0),
        helper.make_node("Cast", ["largest"], ["count"], to=TensorProto.INT64),
    ]
    loop = helper.make_node("Loop", ["count", "", "x"], ["y"], body=turn)
    write("turns", [*count, loop], values[:1], values[1:], [])
    write("endless", [loop], values[:1], values[1:], [constant("count", np.int64(2**62))])


def lengths():
    """Of sequences of ids: twice each id, in their length, and their sum. Zeros behind a sequence change neither."""
    nodes = [
        helper.make_node("Cast", ["ids"], ["values"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["values", "values"], ["doubled"]),
        helper.make_node("ReduceSum", ["values", "axis"], ["sum"], keepdims=1),
    ]
    outputs = {"doubled": ["N", "T"], "sum": ["N", 1]}
    write(
        "lengths",
        nodes,
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["N", "T"])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [constant("axis", np.array([1], np.int64))],
    )


def counted():
    """Each value plus the number of rows that run with it."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], end=1),
        helper.make_node("Cast", ["shape"], ["rows"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "rows"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 1]) for name in ("x", "y")]
    write("counted", nodes, values[:1], values[1:], [])


def images():
    """Of images of any size: the shares of their channels, and a box in sides of the image, larger than its middle."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, "H", "W"])
    means = [helper.make_node("GlobalAveragePool", ["x"], ["pooled"]), helper.make_node("Flatten", ["pooled"], ["means"])]
    shares = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])
    write("shares", [*means, helper.make_node("Softmax", ["means"], ["y"], axis=1)], [x], [shares], [])
    ends = [
        helper.make_node("Gemm", ["means", "weight"], ["ends"]),
        helper.make_node("Sigmoid", ["ends"], ["sides"]),
        helper.make_node("Mul", ["sides", "quarter"], ["quarters"]),
        helper.make_node("Add", ["quarters", "least"], ["boxes"]),
        helper.make_node("Reshape", ["boxes", "shape"], ["y"]),
    ]
    constants = {
        "weight": np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1]], np.float32),
        "quarter": np.array([0.25], np.float32),
        "least": np.array([0, 0, 0.75, 0.75], np.float32),
        "shape": np.array([-1, 1, 4], np.int64),
    }
    boxes = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 1, 4])
    write("boxes", [*means, *ends], [x], [boxes], [constant(name, array) for name, array in constants.items()])


if __name__ == "__main__":
    for make in (mlp, ranker, two_by_two, gather, types, refused, shapes, odd, loops, lengths, counted, images):
        make()
    print(f"numpy {np.__version__}, onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")
