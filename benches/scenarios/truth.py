"""truth.py FOLDER: how far the printed percentiles of the run's last round are off, beyond the bare echo's, as a share of the truth.

Keeps each round's figures in FOLDER/truth.jsonl, and prints the worst of their medians over the rounds so far. A point that the press
itself spoiled is an error, and no figure.
"""

import json
import math
import statistics
import sys
from pathlib import Path

NAMES = ["us_p50", "us_p90", "us_p95", "us_p99", "us_p99_9"]
SHARES = [0.5, 0.9, 0.95, 0.99, 0.999]
STALL_EVERY_S = 4.0


def stalled(seconds):
    """A request that is due inside a stall waits for its end; the k-th stall of a second begins k periods after the first byte."""
    share = (math.ceil(seconds / STALL_EVERY_S) - 1) / seconds
    return {name: max((p - (1 - share)) / share, 0) * 1e6 for name, p in zip(NAMES, SHARES)}


def main(folder):
    points = json.loads((folder / "result.json").read_text())["points"]
    points = {point["target"]["name"]: point for point in points if point["repeat"] == points[-1]["repeat"]}
    for name, point in points.items():
        if point["verdict"]["judgement"] == "GENERATOR-BOUND" and name != "stall":
            sys.exit(f"{name}: {point['verdict']['sentence']}")
    echo = points.pop("echo")["latency"]
    offs = {}
    for name, point in points.items():
        if name == "stall":
            truth = stalled(point["offered"]["duration_s"])
        else:
            truth = json.loads((folder / f"truth-{name}.json").read_text())["achieved"]
            if truth["count"] < 0.9 * point["counters"]["ok"]:
                sys.exit(f"{name}: the server drew {truth['count']} delays for {point['counters']['ok']} answers")
        for key in NAMES:
            # Where the truth is nothing, the echo is all there is to compare with.
            if truth[key] > 0:
                off = max(abs(point["latency"][key] - truth[key]) - echo[key], 0) / truth[key]
                offs[f"{name} {key}"] = off
    kept = folder / "truth.jsonl"
    with kept.open("a") as file:
        file.write(json.dumps(offs) + "\n")
    rounds = [json.loads(line) for line in kept.read_text().splitlines()]
    print(max(statistics.median(one[key] for one in rounds) for key in offs))


main(Path(sys.argv[1]))
