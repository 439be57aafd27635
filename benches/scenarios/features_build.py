"""features_build.py build|delta MILLPOND FOLDER: how fast a table is built from Parquet, and how soon a delta on it serves.

build: million rows a second of `millpond features build` from FOLDER/rows.parquet, which is made of the table `items` where it is not there.
delta: seconds of `features.activate` for a delta of 1 % on 20 million rows that serve, as who asks sees them.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

TABLES = Path(".demo/bench/features-2")
ROWS = 1_000_000


def run(*words):
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)


def parquet(millpond, folder):
    path = folder / "rows.parquet"
    if not path.exists():
        run(millpond, "features", "export", TABLES / "items", "--output", path)
    return path


def build(millpond, folder):
    """One core, as the reader beside it; the version is removed again."""
    path, out = parquet(millpond, folder), folder / "built"
    shutil.rmtree(out, ignore_errors=True)
    began = time.perf_counter()
    run("taskset", "-c", "1", millpond, "features", "build", "--input", path, "--out", out, "--name", "items")
    took = time.perf_counter() - began
    shutil.rmtree(out)
    return ROWS / took / 1e6


def with_delta(millpond, folder):
    """A table whose version 1 is that of `many`, by hard links, and whose version 2 changes 1 % of it."""
    table = folder / "changed"
    if not (table / "00000002").exists():
        shutil.rmtree(table, ignore_errors=True)
        shutil.copytree(TABLES / "many" / "00000001", table / "00000001", copy_function=os.link)
        manifest = json.loads((table / "00000001" / "manifest.json").read_text())
        count = str(manifest["rows"] // 100)
        run(millpond, "features", "random", "--out", folder, "--name", "some", "--rows", count, "--dim", "10", "--seed", "8")
        some = folder / "some.parquet"
        run(millpond, "features", "export", folder / "some", "--output", some)
        run(millpond, "features", "build", "--input", some, "--out", folder, "--name", "changed", "--delta")
    (table / "ACTIVE").unlink(missing_ok=True)
    return table


def call(address, method, body):
    request = urllib.request.Request(f"http://{address}/service/{method}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def delta(millpond, folder):
    table = with_delta(millpond, folder)
    run(millpond, "features", "activate", table, "1")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = "%s:%d" % probe.getsockname()
    config = folder / "delta.toml"
    config.write_text(
        f'[server]\nlisten = "{address}"\nthreads = 1\n[admin]\nlisten = "127.0.0.1:0"\ntoken = "bench"\n'
        f'[log]\nlevel = 4\n[features.items]\npath = "{table.resolve()}"\n'
    )
    server = subprocess.Popen([millpond, "serve", "--config", config], stdout=subprocess.PIPE)
    try:
        server.stdout.readline()
        began = time.perf_counter()
        active = call(address, "features.activate", {"table": "items", "version": 2, "_token": "bench"})["active"]
        took = time.perf_counter() - began
        version = call(address, "features.lookup", {"table": "items", "keys": [1]})["version"]
        if (active, version) != (2, 2):
            sys.exit(f"version {version} serves after version {active} was activated")
        return took
    finally:
        server.terminate()
        server.wait()


def main(what, millpond, folder):
    figure = {"build": build, "delta": delta}[what](millpond, Path(folder))
    print(figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
