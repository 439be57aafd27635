"""Scores the held-out requests from the exported files alone: Parquet, JSON lines and ONNX Runtime.

It does what the server's pipeline does, with nothing of Millpond imported and nothing of the trainer but the key
rule and the order of the blocks: hash, scan the newest events, look up, pool, put side by side, run the model. What
it finds is what the server has to find.
"""

import json

import numpy as np
import onnxruntime
import pyarrow.parquet

from events import HISTORY_MAX
from keys import feature_key
from metrics import auc, log_loss


def read_table(path):
    """{key: vector} of a Parquet file of embeddings."""
    columns = pyarrow.parquet.read_table(path)
    keys = columns["key"].to_numpy()
    vectors = np.stack(columns["vector"].to_numpy(zero_copy_only=False))
    return dict(zip(keys.tolist(), vectors))


def read_lines(path):
    """The objects of a file of JSON lines."""
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def newest_events(entries, limit=HISTORY_MAX):
    """{user: [film, ...]} newest first, at most `limit`: a forward scan of each user's prefix in key order."""
    newest = {}
    for entry in sorted(entries, key=lambda entry: entry["key"].encode()):
        user = entry["key"].split("/")[1]
        films = newest.setdefault(user, [])
        if len(films) < limit:
            films.append(entry["value"])
    return newest


class Assembler:
    """Makes the model's input for a request out of the table and the events."""

    def __init__(self, table, newest):
        self.table = table
        self.newest = newest
        self.dim = len(next(iter(table.values())))
        self.zeros = np.zeros(self.dim, np.float32)

    def row(self, slot, value):
        """The vector of one feature, zeros where the table has none."""
        return self.table.get(feature_key(slot, value), self.zeros)

    def mean(self, slot, values):
        """The mean of the vectors found, zeros where there are none."""
        found = [self.table[key] for key in (feature_key(slot, value) for value in values) if key in self.table]
        return np.mean(found, axis=0, dtype=np.float32) if found else self.zeros

    def input(self, user, items):
        """[items, blocks * dim], in the order of `keys.BLOCKS`."""
        context = [self.row(slot, user[field]) for slot, field in
                   (("user", "id"), ("age", "age"), ("gender", "gender"), ("occupation", "occupation"))]
        history = self.mean("film", self.newest.get(user["id"], []))
        return np.stack([
            np.concatenate([*context, self.row("film", item), self.row("genres", item), history]) for item in items
        ])


def score_requests(directory):
    """[[score, ...] per held-out request] by ONNX Runtime on one thread, from the files of a folder."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        str(directory / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )
    newest = newest_events(read_lines(directory / "events.jsonl"))
    assembler = Assembler(read_table(directory / "embeddings.parquet"), newest)
    return [
        session.run(["scores"], {"x": assembler.input(request["user"], request["items"])})[0].tolist()
        for request in read_lines(directory / "heldout.jsonl")
    ]


def measure(labels, scores):
    """AUC and log loss over all events together."""
    return {"auc": auc(labels, scores), "log_loss": log_loss(labels, scores)}
