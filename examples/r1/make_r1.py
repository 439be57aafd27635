"""Generates the R1 benchmark: a model with seeded random weights, its embedding table, requests and their answers.

    .demo/venv/bin/python examples/r1/make_r1.py OUT_DIR

A sample is two strings, a user and an item; each becomes 128 numbers, side by side 256, then 512, 256 and one score.
The weights mean nothing: the model is for speed and for checking answers, not for ranking anybody. The same seed and
the same numpy give the same files. A second run finds them unchanged and makes nothing.
"""

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The key rule, the Parquet writer and the stamp are the MovieLens example's.
sys.path.insert(0, str(HERE.parent / "movielens"))

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from export import IR_VERSION, OPSET, write_lines, write_parquet
from keys import feature_key
from stamp import Stamp, digest_files

DIM = 128
LAYERS = (2 * DIM, 512, 256, 1)
SAMPLES = 15
SEED = 20261121
ZIPF_EXPONENT = 1.0

OUTPUTS = ("model.onnx", "embeddings.parquet", "requests.jsonl", "expected.jsonl", "r1.toml")
SOURCES = (HERE / "make_r1.py", HERE / "r1.toml", *(HERE.parent / "movielens" / name for name in ("export.py", "keys.py")))


def model(rng):
    """Input `x` [N, 256], output `scores` [N, 1]: relu, relu, sigmoid."""
    constants, nodes, value = [], [], "x"
    for layer, (wide, narrow) in enumerate(zip(LAYERS, LAYERS[1:])):
        last = layer == len(LAYERS) - 2
        # He's spread keeps the layers' outputs of the size of their inputs, so that scores fill the range from 0 to 1.
        weight = rng.normal(0, np.sqrt((1 if last else 2) / wide), (wide, narrow)).astype(np.float32)
        bias = rng.normal(0, 0.1, narrow).astype(np.float32)
        constants += [numpy_helper.from_array(weight, f"weight{layer}"), numpy_helper.from_array(bias, f"bias{layer}")]
        nodes.append(helper.make_node("Gemm", [value, f"weight{layer}", f"bias{layer}"], [f"layer{layer}"]))
        value = "scores" if last else f"relu{layer}"
        nodes.append(helper.make_node("Sigmoid" if last else "Relu", [f"layer{layer}"], [value]))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", LAYERS[0]])]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 1])]
    graph = helper.make_graph(nodes, "r1", inputs, outputs, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="millpond-example")
    made.ir_version = IR_VERSION
    onnx.checker.check_model(made, full_check=True)
    return made


def names(count):
    """(users, items) as the strings that requests carry; slot "0" is the user's, slot "1" the item's."""
    return [f"user_{number:06d}" for number in range(count)], [f"item_{number:06d}" for number in range(count)]


def table(slots, vectors):
    """{key: vector}: the rows of `vectors` in the order of the slots' values."""
    keys = [feature_key(str(slot), value) for slot, values in enumerate(slots) for value in values]
    made = dict(zip(keys, vectors, strict=True))
    if len(made) != len(keys):
        raise ValueError("two names share a key; change the names")
    return made


def draw_requests(rng, count, keys):
    """`count` distinct requests, each (user's number, [SAMPLES different items' numbers]).

    Users are drawn evenly, items by Zipf's law; which item is how popular is shuffled, so that popular rows do not
    lie side by side in the table.
    """
    popularity = 1 / np.arange(1, keys + 1) ** ZIPF_EXPONENT
    cumulative = np.cumsum(popularity / popularity.sum())
    item_of_rank = rng.permutation(keys)
    made = {}
    while len(made) < count:
        user, items = int(rng.integers(keys)), []
        while len(items) < SAMPLES:
            item = int(item_of_rank[min(np.searchsorted(cumulative, rng.random()), keys - 1)])
            if item not in items:
                items.append(item)
        made[(user, *items)] = (user, items)
    return list(made.values())


def expected_scores(path, vectors, keys, requests):
    """[[score, ...] per request] by ONNX Runtime on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    scores = []
    for user, items in requests:
        left = np.broadcast_to(vectors[user], (len(items), DIM))
        x = np.concatenate([left, vectors[keys + np.array(items)]], axis=1)
        scores.append(session.run(["scores"], {"x": x})[0][:, 0].tolist())
    return scores


def make(directory, keys, count):
    """Writes everything into a folder."""
    rng = np.random.default_rng(SEED)
    (directory / "model.onnx").write_bytes(model(rng).SerializeToString())
    slots = names(keys)
    vectors = rng.normal(0, 1, (2 * keys, DIM)).astype(np.float32)
    print(f"writing {2 * keys} rows of {DIM} numbers", flush=True)
    write_parquet(directory / "embeddings.parquet", table(slots, vectors))
    print(f"drawing {count} requests of {SAMPLES} samples", flush=True)
    requests = draw_requests(rng, count, keys)
    users, items = slots
    bodies = ({"samples": [[users[user], items[item]] for item in chosen]} for user, chosen in requests)
    write_lines(directory / "requests.jsonl", bodies)
    print("scoring them with ONNX Runtime", flush=True)
    scores = expected_scores(directory / "model.onnx", vectors, keys, requests)
    write_lines(directory / "expected.jsonl", ({"scores": [round(score, 7) for score in row]} for row in scores))
    (directory / "r1.toml").write_bytes((HERE / "r1.toml").read_bytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out_dir", type=Path, help="folder to fill")
    parser.add_argument("--keys", type=int, default=20_000, help="users, and as many items")
    parser.add_argument("--requests", type=int, default=12_000, help="distinct requests")
    options = parser.parse_args()
    if options.keys < 2 * SAMPLES or options.requests < 1:
        parser.error(f"--keys must be at least {2 * SAMPLES} and --requests at least 1")
    options.out_dir.mkdir(parents=True, exist_ok=True)
    inputs = digest_files(SOURCES) | {"keys": options.keys, "requests": options.requests, "numpy": np.__version__}
    stamp = Stamp(options.out_dir, inputs, OUTPUTS)
    if stamp.is_current():
        print(f"made already, from the same inputs: {options.out_dir}")
        return
    stamp.forget()
    make(options.out_dir, options.keys, options.requests)
    stamp.write()
    print(f"ready: {options.out_dir}")


if __name__ == "__main__":
    main()
