"""r2_nodes.py prepare MILLPOND FOLDER NODES ROWS, or serve MILLPOND FOLDER NODES ADDRESS ADMIN: the servers of r2-nodes.toml, over Unix sockets.

prepare: a table of so many rows in FOLDER/whole, and of it what each of NODES nodes holds.
serve: starts the nodes and becomes a server without rows, which asks them. The nodes end with it.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1


def map_of(folder, nodes):
    listed = ", ".join(f'{{ name = "n{number}", addresses = ["unix:{folder}/n{number}.sock"] }}' for number in range(nodes))
    return f"version = 1\nbuckets = 1000\nreplicas = 1\nnodes = [{listed}]\n"


def prepare(millpond, folder, nodes, rows):
    def features(*words):
        subprocess.run([millpond, "features", *map(str, words)], check=True, stdout=subprocess.DEVNULL)

    folder.mkdir(parents=True, exist_ok=True)
    map_file, done = folder / "map.toml", folder / "done"
    wanted = map_of(folder, nodes)
    made = f"{rows} rows\n{wanted}"
    if done.exists() and done.read_text() == made:
        return
    map_file.write_text(wanted)
    features("random", "--out", folder / "whole", "--name", "items", "--rows", rows, "--dim", "10", "--seed", "7", "--keep")
    whole = folder / "items.parquet"
    whole.unlink(missing_ok=True)
    features("export", folder / "whole" / "items", "--output", whole)
    for number in range(nodes):
        out = folder / f"n{number}"
        features("build", "--input", whole, "--out", out, "--name", "items", "--map", map_file, "--node", f"n{number}")
    done.write_text(made)


def config(folder, listen, also, admin, table):
    # Keys of a node that is given up are missing, and the press calls that wrong: a machine that stands still for seconds is to answer late.
    return (
        f"[server]\nlisten = {json.dumps(listen)}\nlisten_also = {json.dumps(also)}\nthreads = 1\ncpus = [0]\ndeadline_ms_default = 60000\n[admin]\nlisten = {json.dumps(admin)}\n[log]\nlevel = 5\n"
        f"[nodes]\nmap = {json.dumps(str(folder / 'map.toml'))}\nconnect_timeout_ms = 30000\nanswer_timeout_ms = 30000\n{table}"
    )


def start(millpond, folder, number):
    """A node that is ready."""
    socket = folder / f"n{number}.sock"
    section = f'name = "n{number}"\n[features.items]\npath = {json.dumps(str(folder / f"n{number}" / "items"))}\nspread = true\n'
    path = folder / f"n{number}.toml"
    path.write_text(config(folder, "127.0.0.1:0", [f"unix:{socket}"], "127.0.0.1:0", section))
    libc, parent = ctypes.CDLL(None), os.getpid()

    def die_with_parent():
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    node = subprocess.Popen([millpond, "serve", "--config", path], stdout=subprocess.PIPE, preexec_fn=die_with_parent)
    if not node.stdout.readline():
        sys.exit(f"node n{number} did not start; see its log above")


def serve(millpond, folder, nodes, address, admin):
    for number in range(nodes):
        start(millpond, folder, number)
    path = folder / "proxy.toml"
    path.write_text(config(folder, address, [], admin, "[features.items]\nspread = true\n"))
    os.execv(millpond, [millpond, "serve", "--config", str(path)])


def main(what, millpond, folder, nodes, *more):
    folder = Path(folder).resolve()
    if what == "prepare":
        prepare(millpond, folder, int(nodes), *more)
    else:
        serve(millpond, folder, int(nodes), *more)


if __name__ == "__main__":
    main(*sys.argv[1:])
