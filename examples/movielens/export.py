"""Writes what the server needs, and nothing else of the trainer: the model, the table, the events, the requests.

The one invariant: `events.jsonl` holds events from before each user's cut only, so whatever is loaded from it cannot
tell the server anything about what it is asked to rank.
"""

import json

import numpy as np
import onnx
import pyarrow
import pyarrow.parquet
from onnx import TensorProto, helper, numpy_helper

from events import request, store_entries
from keys import BLOCKS, SLOTS, feature_key
from ranker import DIM, HIDDEN, LAYERS, PRODUCTS, film_rows, seen_films

# What every ONNX Runtime that Millpond takes reads without question.
OPSET = 17
IR_VERSION = 8


def onnx_model(parameters):
    """Input `x` [N, blocks * DIM], output `scores` [N]. Slices the blocks, multiplies the pairs, runs the layers."""
    constants, nodes = [], []

    def constant(name, value):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(kind, inputs, output, **attributes):
        nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    axes = constant("axis_1", np.array([1], np.int64))
    for number, block in enumerate(BLOCKS):
        if any(block in pair for pair in PRODUCTS):
            first = constant(f"{block}_first", np.array([number * DIM], np.int64))
            end = constant(f"{block}_end", np.array([(number + 1) * DIM], np.int64))
            node("Slice", ["x", first, end, axes], block)
    products = [node("Mul", list(pair), "_times_".join(pair)) for pair in PRODUCTS]
    value = node("Concat", ["x", *products], "with_products", axis=1)
    for layer in range(len(LAYERS) - 1):
        weight = constant(f"weight{layer}", parameters[f"weight{layer}"])
        bias = constant(f"bias{layer}", parameters[f"bias{layer}"])
        value = node("Gemm", [value, weight, bias], f"layer{layer}")
        if layer < len(HIDDEN):
            value = node("Relu", [value], f"relu{layer}")
    node("Squeeze", [node("Sigmoid", [value], "column"), axes], "scores")
    graph = helper.make_graph(
        nodes,
        "movielens_ranker",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", len(BLOCKS) * DIM])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N"])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="millpond-example")
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model, full_check=True)
    return model


def table_rows(parameters, vocab, rows):
    """{key: vector} of everything that was trained; a film without events, or without genres, has no row."""
    seen = seen_films(vocab, rows)
    films = parameters["table"][film_rows(vocab)]
    pooled = vocab.genres @ parameters["genres"]
    pairs = []
    for slot in SLOTS[:-1]:
        for place, value in enumerate(vocab.values[slot]):
            pairs.append((feature_key(slot, value), parameters["table"][vocab.offsets[slot] + place]))
    for place, film in enumerate(vocab.values["film"]):
        if seen[place]:
            pairs.append((feature_key("film", film), films[place]))
        if vocab.genres[place].any():
            pairs.append((feature_key("genres", film), pooled[place]))
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError(f"{len(pairs) - len(table)} of {len(pairs)} features share a key; rename a slot and train again")
    return table


def write_parquet(path, table):
    """One row a key: `key` uint64, `vector` a fixed-size list of float32."""
    keys = pyarrow.array(np.fromiter(table.keys(), np.uint64, len(table)))
    values = np.concatenate(list(table.values())).astype(np.float32)
    dim = len(values) // len(table)
    vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values), dim)
    pyarrow.parquet.write_table(pyarrow.table({"key": keys, "vector": vectors}), path, compression="snappy")


def write_lines(path, objects):
    """One JSON object a line."""
    with open(path, "w", encoding="utf-8") as out:
        for one in objects:
            out.write(json.dumps(one, separators=(",", ":"), ensure_ascii=False) + "\n")


def write_all(directory, parameters, vocab, rows, films, training, held_out):
    """Writes every input of the server and of the offline evaluation into a folder."""
    (directory / "model.onnx").write_bytes(onnx_model(parameters).SerializeToString())
    write_parquet(directory / "embeddings.parquet", table_rows(parameters, vocab, rows))
    write_lines(directory / "events.jsonl", store_entries(training))
    asked = (user for user in sorted(held_out, key=int) if held_out[user])
    write_lines(directory / "heldout.jsonl", (request(vocab.users[user], held_out[user]) for user in asked))
    titles = {film.id: film.title for film in films.values()}
    (directory / "titles.json").write_text(json.dumps(titles, ensure_ascii=False, indent=0), encoding="utf-8")
