"""What `make demo` runs: from MovieLens to films ranked over a socket, and back to the same figures offline.

    python3.11 examples/movielens/demo.py [--work .demo] [--millpond target/debug/millpond] [--seeds N] [--no-press]

Standard library only; what needs numpy runs in the private environment. With STAY=1 in the environment the server is
left up until Ctrl-C. With `--seeds N` one model a seed is trained, served and compared, and a table is printed. The
exit status is 0 only when the served AUC equals the offline AUC to 1e-4 and every server stopped cleanly.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import fetch
import millpond
from metrics import auc
from narrate import CommandFailed, run, say
from stamp import Stamp, digest_files

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CONFIG = HERE / "movielens.toml"
LOCAL = HERE / "local.toml"
PRESS = HERE / "press.toml"

AUC_DIFFERENCE_MAX = 1e-4
TABLE = "embeddings"
PRESS_REQUESTS = "press-requests.jsonl"
PRESS_EXPECTED = "press-expected.jsonl"
SHOWN_USERS = 3
SHOWN_FILMS = 5
PROGRESS_S = 3.0


def read_lines(path):
    """The objects of a file of JSON lines."""
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def write_lines(path, objects):
    """One JSON object a line."""
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(json.dumps(one) + "\n" for one in objects)


def build(binary, directory):
    """Builds the feature table and loads the events, unless both were made from these very files; lays local.toml beside them."""
    shutil.copyfile(LOCAL, directory / LOCAL.name)
    tables, events = directory / "tables", directory / "events"
    table_stamp = Stamp(directory, digest_files([directory / "embeddings.parquet"]), (), "tables.stamp.json")
    if table_stamp.is_current() and (tables / TABLE).is_dir():
        say("the feature table is built already, from the same embeddings; checking it")
        binary.features_verify(tables / TABLE)
    else:
        table_stamp.forget()
        shutil.rmtree(tables, ignore_errors=True)
        binary.features_build(directory / "embeddings.parquet", tables, TABLE)
        table_stamp.write()
    event_stamp = events_stamp(directory)
    if event_stamp.is_current() and events.is_dir():
        say("the events are in the ordered store already")
    else:
        event_stamp.forget()
        shutil.rmtree(events, ignore_errors=True)
        binary.ordered_load(events, directory / "events.jsonl")
        event_stamp.write()


def events_stamp(directory):
    """Says what the ordered store was loaded from."""
    return Stamp(directory, digest_files([directory / "events.jsonl"]), (), "events.stamp.json")


def show_users(client, directory):
    """Prints the top films of three users, with what they said of them afterwards."""
    titles = json.loads((directory / "titles.json").read_text(encoding="utf-8"))
    requests = [one for one in read_lines(directory / "heldout.jsonl") if len(one["items"]) >= 2 * SHOWN_FILMS]
    for number in range(1, SHOWN_USERS + 1):
        request = requests[number * len(requests) // (SHOWN_USERS + 1)]
        user = request["user"]
        ratings = dict(zip(request["items"], request["ratings"]))
        ranked = client.rank(user, request["items"], top=SHOWN_FILMS)
        scores = [score for _, score in ranked]
        if scores != sorted(scores, reverse=True):
            raise CommandFailed(f"rank: the top {SHOWN_FILMS} came out of order: {scores}")
        say(f"user {user['id']} ({user['gender']}, {user['age']}, {user['occupation']}): "
            f"top {len(ranked)} of {len(ratings)} held-out films, and the rating given later")
        for item, score in ranked:
            say(f"  {score:.4f}  {titles[item]:<60.60}  {'*' * int(ratings[item])}")


def served_scores(client, directory):
    """Ranks every held-out request over the socket: (labels, scores) of all events together.

    Keeps requests and answers for the press, which expects the same answers again.
    """
    labels, scores, answers = [], [], []
    requests = read_lines(directory / "heldout.jsonl")
    started = told = time.monotonic()
    for number, request in enumerate(requests):
        ranked = client.rank(request["user"], request["items"])
        answers.append({"scores": [score for _, score in ranked]})
        by_item = dict(ranked)
        labels += request["labels"]
        scores += [by_item[item] for item in request["items"]]
        if time.monotonic() - told > PROGRESS_S:
            told = time.monotonic()
            say(f"  ... {number + 1} of {len(requests)} requests")
    bodies = ({"pipeline": "rank", "user": one["user"], "items": one["items"]} for one in requests)
    write_lines(directory / PRESS_REQUESTS, bodies)
    write_lines(directory / PRESS_EXPECTED, answers)
    say(f"ranked {len(scores)} held-out films of {len(requests)} users in {time.monotonic() - started:.1f} s")
    return labels, scores


def compare(client, directory):
    """AUC through the server beside AUC offline: a row for the table of seeds."""
    offline = json.loads((directory / "offline.json").read_text(encoding="utf-8"))
    labels, scores = served_scores(client, directory)
    expected = [score for one in read_lines(directory / "offline_scores.jsonl") for score in one["scores"]]
    served = auc(labels, scores)
    return {
        "seed": offline["seed"],
        "served": served,
        "offline": offline["onnxruntime"]["auc"],
        "numpy": offline["numpy"]["auc"],
        "difference": abs(served - offline["onnxruntime"]["auc"]),
        "largest_score_difference": max(abs(a - b) for a, b in zip(scores, expected, strict=True)),
        "item_mean": offline["item_mean"]["auc"],
        "above_item_mean": served - offline["item_mean"]["auc"],
    }


def print_comparison(found):
    """One seed's figures, for people."""
    say(f"AUC through the server   {found['served']:.6f}")
    say(f"AUC offline              {found['offline']:.6f}  (ONNX Runtime; {found['numpy']:.6f} in numpy)")
    say(f"difference               {found['difference']:.6f}  (allowed {AUC_DIFFERENCE_MAX}; "
        f"largest difference of a score {found['largest_score_difference']:.1e})")
    say(f"AUC of the item mean     {found['item_mean']:.6f}  (the ranker is {found['above_item_mean']:+.4f} above it)")


def press(binary, directory, server):
    """Ten seconds of load with the held-out requests; prints the press's table."""
    shutil.rmtree(directory / "press", ignore_errors=True)
    binary.press_run(PRESS, directory / "press", {
        "target.address": f"127.0.0.1:{server.port}",
        "requests.file": directory / PRESS_REQUESTS,
        "requests.expected": directory / PRESS_EXPECTED,
    })


def stay(server, directory):
    """Leaves the server up until Ctrl-C and says how to call it."""
    # Whoever tries the server may put events; the next run must not trust the store.
    events_stamp(directory).forget()
    request = read_lines(directory / "heldout.jsonl")[0]
    body = json.dumps({"pipeline": "rank", "user": request["user"], "items": request["items"][:5], "top": 3})
    address = f"127.0.0.1:{server.port}"
    say(f"""
The server stays up on {address} (admin: http://127.0.0.1:{server.admin_port}/metrics). Ctrl-C stops it.

With curl:
  curl -s http://{address}/service/rank -H 'Content-Type: application/json' -d '{body}'

With Python:
  import json, urllib.request
  body = {body}
  request = urllib.request.Request("http://{address}/service/rank", json.dumps(body).encode())
  print(json.load(urllib.request.urlopen(request)))
""")
    try:
        status = server.child.wait()
    except KeyboardInterrupt:
        say("\nstopping")
    else:
        raise CommandFailed(f"the server ended by itself with status {status}; {server.tail()}")


def serve_seed(binary, directory, options, show):
    """Builds, serves and compares one seed's folder; returns its figures."""
    build(binary, directory)
    text, port, admin_port = millpond.place(CONFIG.read_text(encoding="utf-8"))
    config = directory / "server.toml"
    config.write_text(text, encoding="utf-8")
    with millpond.Server(binary, config, port, admin_port, directory / "server.log", options.work.resolve() / "venv") as server:
        seconds = server.wait_ready()
        say(f"the server is ready on 127.0.0.1:{port} after {seconds:.1f} s")
        client = millpond.Client(port)
        if show:
            show_users(client, directory)
        found = compare(client, directory)
        client.close()
        print_comparison(found)
        if show and options.press:
            say("ten seconds of load:")
            press(binary, directory, server)
        if show and os.environ.get("STAY", "") not in ("", "0"):
            stay(server, directory)
        server.stop()
        say("the server stopped cleanly")
    return found


def seeds_table(results):
    """The seeds' figures as lines, with their mean."""
    yield "  seed  AUC served  AUC offline  difference  item mean  above it"
    for one in results:
        yield (f"  {one['seed']:>4}  {one['served']:>10.5f}  {one['offline']:>11.5f}  {one['difference']:>10.6f}  "
               f"{one['item_mean']:>9.5f}  {one['above_item_mean']:>+8.5f}")
    mean = {key: sum(one[key] for one in results) / len(results) for key in results[0]}
    yield (f"  mean  {mean['served']:>10.5f}  {mean['offline']:>11.5f}  {mean['difference']:>10.6f}  "
           f"{mean['item_mean']:>9.5f}  {mean['above_item_mean']:>+8.5f}")


def demo(options):
    """All steps; returns the exit status."""
    started = time.monotonic()
    work = options.work.resolve()
    binary = millpond.Binary(options.millpond)
    say("== 1. environment and data")
    fetch.prepare(work)
    say("== 2. train and evaluate offline")
    run([fetch.interpreter(work), "-u", HERE / "train.py", "--work", work, "--seeds", options.seeds], "training")
    results = []
    for seed in range(options.seeds):
        directory = work / "movielens" if seed == 0 else work / "movielens" / f"seed-{seed}"
        say(f"== 3. build, serve, rank" + (f": seed {seed}" if options.seeds > 1 else ""))
        results.append(serve_seed(binary, directory, options, show=seed == 0))
    (work / "movielens" / "served.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    if len(results) > 1:
        for line in seeds_table(results):
            say(line)
    worst = max(one["difference"] for one in results)
    say(f"done in {time.monotonic() - started:.0f} s")
    if not worst <= AUC_DIFFERENCE_MAX:
        say(f"demo.py: served and offline AUC differ by {worst:.6f}, more than {AUC_DIFFERENCE_MAX}")
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=ROOT / ".demo", help="folder for everything that is made")
    parser.add_argument("--millpond", type=Path, default=ROOT / "target/debug/millpond", help="the binary")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds to train, serve and compare")
    parser.add_argument("--no-press", dest="press", action="store_false", help="leave out the ten seconds of load")
    options = parser.parse_args()
    if options.seeds < 1:
        parser.error("--seeds must be at least 1")
    # Both signals unwind like any error, so that the server never outlives the demo. Ctrl-C is set explicitly because
    # a shell that starts the demo in the background would have it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        status = demo(options)
    except CommandFailed as failed:
        say(f"demo.py: {failed}")
        status = 1
    except KeyboardInterrupt:
        say("\ndemo.py: interrupted")
        status = 130
    sys.exit(status)


if __name__ == "__main__":
    main()
