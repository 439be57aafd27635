"""Reports to look at, made by the real program: a practice server, a short run, and results derived from it.

Plain Python 3.11. Its invariant: every page was drawn by `millpond press report` from a result file that it accepted.
"""

import copy
import json
import os
import re
import subprocess
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Three seconds, because a line needs three places to be a line.
SCENARIO = """
[scenario]
name = "browser"
title = "Three rates against an echo"
[target]
name = "echo"
protocol = "echo"
address = "ADDRESS"
server_pid = PID
[requests]
bytes = 32
[load]
connections = [4]
rate = [500, 1000, 2000]
duration_s = 3
warmup_s_max = 0.5
"""
# A run against the practice server takes about eleven seconds, a report a few milliseconds.
TIMEOUT_S = 120


class ReportFailed(Exception):
    """The program is missing or did not do what was asked."""


def program():
    """The binary: MILLPOND, or what cargo built last."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or "target")
    found = Path(os.environ.get("MILLPOND") or ROOT / target / "debug" / "millpond")
    if not os.access(found, os.X_OK):
        raise ReportFailed(f"{found} is missing: build it with `cargo build -p millpond-cli`, or name it in MILLPOND")
    return found.resolve()


def press(*arguments, cwd):
    """Runs `millpond press`. A run on a busy machine may end without a valid point (3), which is a report like any other."""
    done = subprocess.run(
        [program(), "press", *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode not in (0, 3):
        raise ReportFailed(f"press {' '.join(map(str, arguments))} ended with {done.returncode}: {done.stderr.strip()[-600:]}")
    return done


def measure(folder):
    """Leaves the result of a short run against the practice server in `folder`."""
    with subprocess.Popen(
        [program(), "press", "practice", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        late = threading.Timer(TIMEOUT_S, server.kill)
        late.start()
        try:
            said = server.stdout.readline()
            listens = re.search(r"listens on (127\.0\.0\.1:\d+)", said)
            if not listens:
                raise ReportFailed(f"press practice said {said!r}, not where it listens")
            scenario = folder.parent / f"{folder.name}.toml"
            scenario.write_text(SCENARIO.replace("ADDRESS", listens[1]).replace("PID", str(server.pid)))
            press("run", scenario, "--out", folder, "--quiet", cwd=folder.parent)
        finally:
            late.cancel()
            server.kill()


def result(folder):
    """What `folder` holds."""
    return json.loads((folder / "result.json").read_text())


def derived(folder, content):
    """Makes `folder` with result `content` alone."""
    folder.mkdir()
    (folder / "result.json").write_text(json.dumps(content))
    return folder


def drawn(*folders):
    """The page of `folders`."""
    page = folders[0].parent / ("-".join(folder.name for folder in folders) + ".html")
    press("report", *folders, "--html", page, cwd=page.parent)
    if not page.is_file():
        raise ReportFailed(f"press report left no {page}")
    return page


def before(content):
    """An earlier run of the same scenario: a fifth slower."""
    content = copy.deepcopy(content)
    content["name"] = "browser-before"
    for point in content["points"]:
        point["qps"] *= 0.8
        point["curve"] = [[percentile, us * 1.2] for percentile, us in point["curve"]]
    return content


def partial(content, state, failure):
    """A run that ended, or has got, before its first point."""
    return {**content, "state": state, "failure": failure, "points": [], "comparisons": []}


def crowded(content, targets):
    """The most a page has to cope with: long names without a blank, ten loads, and latencies from microseconds to seconds."""
    content = copy.deepcopy(content)
    content["name"] = content["title"] = "crowded-" + "name" * 30
    pattern = content["points"][-1]
    content["points"] = []
    for target in range(targets):
        for step in range(10):
            content["points"].append(loaded(pattern, f"target-{target}-" + "of-a-long-name-" * 8, step, len(content["points"]) + 1))
    return content


def loaded(pattern, target, step, number):
    """A point like `pattern` under a load of 4^step thousand requests a second."""
    point = copy.deepcopy(pattern)
    rate = 1e3 * 4**step
    point.update(number=number, qps=rate)
    point["target"]["name"] = target
    point["offered"]["rate"] = rate
    point["curve"] = [[p, 3.0 * 8.0**place] for place, p in enumerate((0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999))]
    for name, us in (("us_mean", 90.0), ("us_p50", 40.0), ("us_p99", 4e3), ("us_p99_9", 3e4), ("us_max", 9e6)):
        point["latency"][name] = us * 1.7**step
    for place, second in enumerate(point["series"]):
        second.update(answers=int(rate), refused=7 * place, failed=place, us_p99=4e3 * 3**place, us_max=9e6)
    return point
