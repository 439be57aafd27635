"""instructions.py MILLPOND BEFORE FOLDER REQUEST: instructions that a request takes beside the kernel's, MILLPOND over BEFORE.
instructions.py MILLPOND BARE FOLDER around-work: those of a lookup less what the work alone takes, over those of an echo.
instructions.py local FOLDER CASE: those of a call of millpond.Pipeline from Python, the interpreter's own among them; local.py has the cases.

Counting is off while a server starts. Then callgrind counts under a load, and again under three times as much: what lies between the
two is the requests' own, since connecting is the same. Every request of both loads must have been answered, and rightly.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

# A load with several in flight has 20 connections: the tool makes the server so slow that all of them always wait for it. One with one
# in flight has one, so that each request is a turn of the net thread, and a run of the model, of its own.
ECHO = ("echo", '{"payload":"abcdefghijklmnopqrstuv"}')
KEYS = ",".join(str(key * 7919 % 100_000) for key in range(100))
REQUESTS = {
    "echo-d1": (*ECHO, 1, 1, 8000),
    "echo-d16": (*ECHO, 20, 16, 400),
    "lookup-100": ("features.lookup", '{"table":"items","keys":{"$u64":[' + KEYS + "]}}", 1, 1, 8000),
    "lookup-d16": ("features.lookup", '{"table":"items","keys":{"$u64":[7919]}}', 20, 16, 400),
    "r1": ("infer", None, 1, 1, 200),
}
LISTEN, ADMIN = "127.0.0.1:7471", "127.0.0.1:7472"


def serve(build, name, out):
    """The server within valgrind, ready."""
    words = ["taskset", "-c", "0", "valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}.out"]
    words += [build, "serve", "--config", ".demo/r1/r1.toml" if name == "r1" else "benches/scenarios/rpc.config.toml"]
    pairs = [f"server.listen={LISTEN}", f"admin.listen={ADMIN}", "server.threads=1", "server.cpus=[0]", "log.level=5"]
    pairs += ["server.deadline_ms_default=60000"]
    if name != "r1":
        pairs += [f"features.items.path={out.parent.parent / 'tables/items'}"]
    with open(f"{out}.log", "w") as log:
        server = subprocess.Popen(words + [word for pair in pairs for word in ("--set", pair)], stdout=log, stderr=log)
    until = time.monotonic() + 600
    while time.monotonic() < until and server.poll() is None:
        try:
            urllib.request.urlopen(f"http://{ADMIN}/readyz", timeout=5)
            return server
        except OSError:
            time.sleep(0.1)
    server.kill()
    sys.exit(f"{build} is not ready, see {out}.log")


def load(millpond, name, each, out):
    """So many requests on each connection, all of them answered."""
    method, body, connections, in_flight, _ = REQUESTS[name]
    requests, check = out.with_suffix(".jsonl"), "same = true"
    expected = ""
    if body is None:
        requests, check = Path(".demo/r1/requests.jsonl"), 'field = "scores"\nlength_of = "samples"'
        expected = f'expected = "{Path(".demo/r1/expected.jsonl").absolute()}"\n'
    else:
        requests.write_text(body + "\n")
    out.with_suffix(".toml").write_text(
        f'[scenario]\nname = "counted"\n[target]\nprotocol = "native"\naddress = "{LISTEN}"\nmethod = "{method}"\ntimeout_ms = 60000\n'
        f'[requests]\nfile = "{requests.absolute()}"\n{expected}[check]\n{check}\n[load]\nconnections = [{connections}]\n'
        f"in_flight = {in_flight}\nrequests_per_connection = {each}\nwarmup_s_max = 0\nclient_cpus = [1]\n"
    )
    words = [millpond, "press", "run", str(out.with_suffix(".toml")), "--quiet", "--out", f"{out}-result"]
    subprocess.run(words, stdout=subprocess.DEVNULL)
    (point,) = json.loads(Path(f"{out}-result", "result.json").read_text())["points"]
    counters = point["counters"]
    if counters["ok"] != connections * each:
        sys.exit(f"{out.name}: {connections * each} requests were sent, {counters}")


def control(server, *words):
    subprocess.run(["callgrind_control", *words, str(server.pid)], check=True, stdout=subprocess.DEVNULL)


def total(file):
    """`summary:` is zero where counting was off at times."""
    lines = [line for line in file.read_text().splitlines() if line.startswith("totals:")]
    return int(lines[0].split()[1])


def instructions(millpond, build, name, out):
    """Instructions a request of a build."""
    _, _, connections, _, each = REQUESTS[name]
    server = serve(build, name, out)
    try:
        # What is done once, such as the first batch, is done before anything counts.
        load(millpond, name, each // 4, Path(f"{out}-warm-up"))
        for times in (1, 3):
            control(server, "-i", "on")
            load(millpond, name, times * each, Path(f"{out}-{times}"))
            control(server, "-i", "off")
            if times == 1:
                # The first part goes to a file of its own, the last one is written at the end.
                control(server, "-d")
        server.terminate()
        if server.wait(timeout=300) != 0:
            sys.exit(f"the server ended with {server.returncode}, see {out}.log")
    finally:
        server.kill()
    few, many = total(Path(f"{out}.out.1")), total(Path(f"{out}.out"))
    # Connecting takes far fewer than the requests do, so that the second sum is nearly three times the first.
    if not (few > 0 and many > 2 * few):
        sys.exit(f"{name}: {few} instructions, and {many} for three times as many requests: not all of them were counted")
    return (many - few) / (2 * each * connections)


def each(command, calls, out):
    """Instructions of one of the calls that a program makes, by their number as its last word: what starting takes is the same for all."""
    counts = []
    for times in (1, 3):
        file = Path(f"{out}-{times}.out")
        valgrind = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={file}"]
        # Texts hash alike in each run.
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        ended = subprocess.run(valgrind + [*command, str(times * calls)], stdout=subprocess.DEVNULL, env=environment)
        if ended.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))} ended with {ended.returncode} under valgrind")
        counts.append(total(file))
    return (counts[1] - counts[0]) / (2 * calls)


def work(bare, words, out):
    """Instructions of the work of one call alone."""
    return each([bare, "work", *words], 10_000, out)


def local(folder, case):
    print(each([sys.executable, Path(__file__).with_name("local.py"), case, "calls"], 10_000, Path(folder, f"callgrind-{case}")))


def around_work(millpond, bare, folder):
    """What the server does for a lookup beside its work, over what it does for an echo beside that."""
    tables = str(Path(folder).parent / "tables/items")
    around = []
    for name, words in (("lookup-d16", ("lookup", tables)), ("echo-d16", ("echo",))):
        whole = instructions(millpond, millpond, name, Path(folder, f"callgrind-{name}-around"))
        alone = work(bare, words, Path(folder, f"callgrind-{name}-work"))
        print(f"{name}: {whole:.0f} instructions, {alone:.0f} of them the work's", file=sys.stderr)
        around.append(whole - alone)
    print(around[0] / around[1])


def main(millpond, before, folder, name):
    if name == "around-work":
        return around_work(millpond, before, folder)
    now = instructions(millpond, millpond, name, Path(folder, f"callgrind-{name}-now"))
    then = instructions(millpond, before, name, Path(folder, f"callgrind-{name}-before"))
    print(f"{name}: {then:.0f} instructions before, {now:.0f} now", file=sys.stderr)
    print(now / then)


if sys.argv[1:2] == ["local"]:
    local(*sys.argv[2:])
else:
    main(*sys.argv[1:])
