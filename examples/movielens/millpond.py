"""The `millpond` binary as the demo uses it: its sub-commands, a server as a child process, a client of `rank`.

Standard library only. Every command line of the binary stands in this file and nowhere else in the demo.
"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

from narrate import CommandFailed, run, say

READY_TIMEOUT_S = 60
DRAIN_TIMEOUT_S = 30
LOG_TAIL_LINES = 20

LISTEN = re.compile(r'^(listen\s*=\s*)"127\.0\.0\.1:(\d+)"', re.MULTILINE)


class Binary:
    """Runs the sub-commands of one millpond binary."""

    def __init__(self, path):
        self.path = Path(path).resolve()
        if not self.path.is_file():
            raise CommandFailed(f"{self.path} is not there; build it with `cargo build -p millpond-cli` or name it with --millpond")

    def features_build(self, parquet, out, name):
        """Builds the next version of the table OUT/NAME from a Parquet file."""
        command = [self.path, "features", "build", "--input", parquet, "--out", out, "--name", name]
        return run(command, f"building the table {name}")

    def features_verify(self, table):
        """Checks every checksum of a table."""
        return run([self.path, "features", "verify", table], f"verifying {table.name}")

    def ordered_load(self, directory, events):
        """Loads JSON lines of key and value into an ordered store that no server has open."""
        return run([self.path, "ordered", "load", directory, events], "loading events into the ordered store")

    def press_run(self, scenario, out, overrides):
        """Runs a press scenario, some of its keys replaced; its table is printed, its result folder lies in `out`."""
        command = [self.path, "press", "run", scenario, "--out", out]
        for key, value in overrides.items():
            command += ["--set", f"{key}={value}"]
        return run(command, "press")


def free_port(wanted):
    """The wanted port of 127.0.0.1 when it is free, otherwise one that is."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return probe.getsockname()[1]
    raise CommandFailed("127.0.0.1 has no free port")


def place(template, choose=free_port):
    """A server configuration with free ports: (text, server port, admin port); says which ports had to move."""
    ports = []

    def listen(found):
        wanted = int(found.group(2))
        ports.append(choose(wanted))
        if ports[-1] != wanted:
            say(f"port {wanted} is in use; taking {ports[-1]}")
        return f'{found.group(1)}"127.0.0.1:{ports[-1]}"'

    text = LISTEN.sub(listen, template)
    if len(ports) != 2:
        raise CommandFailed(f"the configuration has {len(ports)} listen addresses on 127.0.0.1, expected server and admin")
    return text, ports[0], ports[1]


class Server:
    """`millpond serve` as a child process. A context manager: leaving it by an error stops the child."""

    def __init__(self, binary, config, port, admin_port, log, onnxruntime=None):
        """`onnxruntime` is the environment or folder whose ONNX Runtime the server loads; left out, it searches."""
        self.port = port
        self.admin_port = admin_port
        self.log = log
        self._log_file = open(log, "wb")
        # A session of its own: Ctrl-C reaches the demo, which then stops the server in order.
        self.child = subprocess.Popen(
            [str(binary.path), "serve", "--config", str(config)],
            stdin=subprocess.DEVNULL, stdout=self._log_file, stderr=subprocess.STDOUT, start_new_session=True,
            env=os.environ | ({"ORT_DYLIB_PATH": str(onnxruntime)} if onnxruntime else {}),
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        self._log_file.close()

    def tail(self):
        """The end of the server's log, for an error message."""
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return "\n".join(["the end of its log:", *(f"  | {line}" for line in lines)])

    def wait_ready(self):
        """Waits until /readyz of the admin port answers 200; returns the seconds that took."""
        started = time.monotonic()
        told = started
        while True:
            if self.child.poll() is not None:
                raise CommandFailed(f"the server ended with status {self.child.returncode} before it was ready; {self.tail()}")
            if self._ready():
                return time.monotonic() - started
            now = time.monotonic()
            if now - started > READY_TIMEOUT_S:
                raise CommandFailed(f"the server was not ready after {READY_TIMEOUT_S} s; {self.tail()}")
            if now - told > 4:
                say(f"  ... waiting for the server, {now - started:.0f} s")
                told = now
            time.sleep(0.05)

    def _ready(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def stop(self):
        """Ends the server with SIGTERM: it finishes what it accepted and must exit with status 0."""
        self.child.send_signal(signal.SIGTERM)
        started = time.monotonic()
        while time.monotonic() - started < DRAIN_TIMEOUT_S:
            try:
                status = self.child.wait(timeout=4)
            except subprocess.TimeoutExpired:
                say(f"  ... waiting for the server to drain, {time.monotonic() - started:.0f} s")
                continue
            if status != 0:
                raise CommandFailed(f"the server ended with status {status} after SIGTERM, expected 0; {self.tail()}")
            return
        raise CommandFailed(f"the server still ran {DRAIN_TIMEOUT_S} s after SIGTERM; {self.tail()}")


class Client:
    """Calls a server's methods as HTTP/JSON over one connection that is kept open."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def close(self):
        """Closes the connection."""
        self.connection.close()

    def call(self, method, payload):
        """One call: the answer's map, or CommandFailed with the server's own words."""
        body = json.dumps(payload).encode()
        try:
            self.connection.request("POST", f"/service/{method}", body, {"Content-Type": "application/json"})
            answer = self.connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise CommandFailed(f"{method}: no answer from the server: {error!r}") from error
        try:
            found = json.loads(text)
        except ValueError as error:
            raise CommandFailed(f"{method}: status {answer.status}, not JSON: {text[:200]!r}") from error
        if answer.status != 200:
            raise CommandFailed(f"{method}: status {answer.status}, {found}")
        return found

    def rank(self, user, items, top=None):
        """[(item, score), ...] as the server orders them; every item must be one that was asked for, once."""
        payload = {"pipeline": "rank", "user": user, "items": items}
        if top is not None:
            payload["top"] = top
        answer = self.call("rank", payload)
        ranked = list(zip(answer["items"], answer["scores"], strict=True))
        wanted = len(items) if top is None else min(top, len(items))
        names = {item for item, _ in ranked}
        if len(ranked) != wanted or len(names) != wanted or not names <= set(items):
            raise CommandFailed(f"rank: {wanted} of the {len(items)} items expected, got {answer['items']}")
        return ranked
