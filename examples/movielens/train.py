"""Trains the ranker on MovieLens 100K and writes what the server needs into WORK/movielens.

Run it with the private environment's Python after `fetch.py`:

    .demo/venv/bin/python examples/movielens/train.py [--work .demo] [--seeds 5]

Seed 0 goes to WORK/movielens, seeds 1 and up to WORK/movielens/seed-N. Hyperparameters are chosen once, on a slice
of the training part (each user's newest 20 % of what is left before the cut), and never on held-out events.
"""

import os

# One thread: numpy is told before it is imported, and sums come out the same every time on one machine.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import argparse
import itertools
import json
import time
from pathlib import Path

import numpy as np

import baseline
import export
import offline
import ranker
from events import cut, read_events, read_films, read_users
from rows import rows, vocabulary
from stamp import Stamp, digest_files

HERE = Path(__file__).resolve().parent
DATA_FILES = ("ml-100k.inter", "ml-100k.user", "ml-100k.item")
SOURCES = ("baseline.py", "events.py", "export.py", "keys.py", "metrics.py", "offline.py", "ranker.py", "requirements.txt",
           "rows.py", "train.py")
OUTPUTS = ("model.onnx", "embeddings.parquet", "events.jsonl", "heldout.jsonl", "titles.json", "offline.json",
           "offline_scores.jsonl")

# The grid: every combination is trained on the slice's training part and judged after every epoch.
LEARNING_RATES = (2e-3, 4e-3)
WEIGHT_DECAYS = (3e-4, 1e-3)
EPOCHS_MAX = 6

SELECTION_SEED = 0


def say(text):
    """Prints at once, so that whoever waits sees it."""
    print(text, flush=True)


def split(events):
    """({user: before the cut}, {user: held out})."""
    parts = {user: cut(ordered) for user, ordered in events.items()}
    return {user: part[0] for user, part in parts.items()}, {user: part[1] for user, part in parts.items()}


def choose(vocab, training):
    """The hyperparameters with the best AUC on the newest part of the training events, and all that was tried."""
    older, slice_events = split(training)
    train_rows, slice_rows = rows(vocab, older, older), rows(vocab, slice_events, older)
    tried = []
    for learning_rate, weight_decay in itertools.product(LEARNING_RATES, WEIGHT_DECAYS):
        seen = []

        def judge(epoch, parameters, seen=seen):
            found = offline.measure(slice_rows.labels.tolist(), ranker.scores(parameters, vocab, slice_rows).tolist())
            seen.append({"learning_rate": learning_rate, "weight_decay": weight_decay, "epochs": epoch, **found})

        most = ranker.Hyperparameters(learning_rate, weight_decay, EPOCHS_MAX)
        ranker.train(vocab, train_rows, most, SELECTION_SEED, judge)
        say(f"  slice: rate {learning_rate:g}, decay {weight_decay:g}: AUC after each epoch "
            + " ".join(f"{one['auc']:.4f}" for one in seen))
        tried += seen
    best = max(tried, key=lambda one: one["auc"])
    chosen = ranker.Hyperparameters(best["learning_rate"], best["weight_decay"], best["epochs"])
    return chosen, tried


def flat(parts):
    """All events of {user: [Event]}."""
    return [event for events in parts.values() for event in events]


def build_seed(directory, seed, chosen, tried, vocab, films, training, held_out, item_mean):
    """Trains one seed on everything before the cuts, writes its folder, scores it offline in two ways."""
    directory.mkdir(parents=True, exist_ok=True)
    train_rows = rows(vocab, training, training)
    started = time.monotonic()
    parameters = ranker.train(vocab, train_rows, chosen, seed)
    seconds = time.monotonic() - started
    say(f"  seed {seed}: trained on {len(train_rows.labels)} events in {seconds:.1f} s")
    asked = {user: held_out[user] for user in sorted(held_out, key=int) if held_out[user]}
    by_numpy = ranker.scores(parameters, vocab, rows(vocab, asked, training)).tolist()
    export.write_all(directory, parameters, vocab, train_rows, films, training, held_out)
    by_request = offline.score_requests(directory)
    by_onnx = [score for scores in by_request for score in scores]
    export.write_lines(directory / "offline_scores.jsonl",
                       ({"user": user, "scores": scores} for user, scores in zip(asked, by_request, strict=True)))
    labels = [int(event.liked) for event in flat(asked)]
    found = {
        "seed": seed,
        "hyperparameters": vars(chosen),
        "training_events": len(train_rows.labels),
        "held_out_events": len(labels),
        "training_seconds": round(seconds, 2),
        "numpy": offline.measure(labels, by_numpy),
        "onnxruntime": offline.measure(labels, by_onnx),
        "largest_difference": float(np.abs(np.subtract(by_numpy, by_onnx)).max()),
        "item_mean": item_mean,
        "selection": tried,
    }
    found["above_item_mean"] = found["onnxruntime"]["auc"] - item_mean["auc"]
    (directory / "offline.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return found


def table(results):
    """The seeds' figures as lines of text, with their mean."""
    yield "  seed  AUC (onnxruntime)  AUC (numpy)  log loss  item mean  above it"
    for one in results:
        yield (f"  {one['seed']:>4}  {one['onnxruntime']['auc']:>17.5f}  {one['numpy']['auc']:>11.5f}  "
               f"{one['onnxruntime']['log_loss']:>8.4f}  {one['item_mean']['auc']:>9.5f}  {one['above_item_mean']:>+8.5f}")
    if len(results) > 1:
        mean = {key: float(np.mean(values)) for key, values in {
            "onnx": [one["onnxruntime"]["auc"] for one in results],
            "numpy": [one["numpy"]["auc"] for one in results],
            "loss": [one["onnxruntime"]["log_loss"] for one in results],
            "item": [one["item_mean"]["auc"] for one in results],
            "above": [one["above_item_mean"] for one in results],
        }.items()}
        yield (f"  mean  {mean['onnx']:>17.5f}  {mean['numpy']:>11.5f}  {mean['loss']:>8.4f}  {mean['item']:>9.5f}  "
               f"{mean['above']:>+8.5f}")


def seed_directory(work, seed):
    """Where a seed's files go."""
    return work / "movielens" if seed == 0 else work / "movielens" / f"seed-{seed}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=HERE.parents[1] / ".demo", help="folder that fetch.py filled")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds to train, from 0 on")
    options = parser.parse_args()
    data = options.work / "ml-100k"
    missing = [name for name in DATA_FILES if not (data / name).is_file()]
    if missing:
        parser.error(f"{data} has no {', '.join(missing)}; run fetch.py --work {options.work} first")
    inputs = digest_files([*(data / name for name in DATA_FILES), *(HERE / name for name in SOURCES)])
    stamps = {seed: Stamp(seed_directory(options.work, seed), inputs, OUTPUTS) for seed in range(options.seeds)}
    stale = [seed for seed, stamp in stamps.items() if not stamp.is_current()]
    if stale:
        train_seeds(options.work, data, stale, stamps)
    else:
        say(f"trained already, from the same inputs: {seed_directory(options.work, 0)}")
    results = [json.loads((stamp.directory / "offline.json").read_text()) for stamp in stamps.values()]
    for line in table(results):
        say(line)


def chosen_before(stamp):
    """What `choose` found when seed 0 was built from the same inputs, or None."""
    if not stamp.is_current():
        return None
    found = json.loads((stamp.directory / "offline.json").read_text(encoding="utf-8"))
    return ranker.Hyperparameters(**found["hyperparameters"]), found["selection"]


def train_seeds(work, data, seeds, stamps):
    """Reads the data, chooses hyperparameters and builds the folders of the seeds."""
    say("reading MovieLens 100K")
    users, films = read_users(data / "ml-100k.user"), read_films(data / "ml-100k.item")
    training, held_out = split(read_events(data / "ml-100k.inter"))
    vocab = vocabulary(users, films)
    item_mean = baseline.strongest(flat(training), flat(held_out))
    say(f"  {len(flat(training))} events before the users' cuts, {len(flat(held_out))} held out; item mean AUC "
        f"{item_mean['auc']:.4f} ({item_mean['mean']}, prior {item_mean['prior']:g}, its best on the held-out events)")
    chosen, tried = chosen_before(stamps[0]) or choose(vocab, training)
    say(f"  chosen on the slice: rate {chosen.learning_rate:g}, decay {chosen.weight_decay:g}, {chosen.epochs} epochs")
    for seed in seeds:
        stamps[seed].forget()
        build_seed(stamps[seed].directory, seed, chosen, tried, vocab, films, training, held_out, item_mean)
        stamps[seed].write()


if __name__ == "__main__":
    main()
