"""A Millpond server of its own for a test: one ordered store in memory, free ports, gone at the end. Plain Python 3.11.

Its invariant: whatever ends the test, no process of it is left.
"""

import os
import subprocess
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Bytes of a frame that it takes; small, so that a test can send more.
FRAME_BYTES_MAX = 64 * 1024
# One net thread: what came first on any connection is read first.
CONFIGURATION = f"""
[server]
listen = "127.0.0.1:0"
threads = 1
frame_bytes_max = {FRAME_BYTES_MAX}
[admin]
listen = "127.0.0.1:0"
[log]
file = "millpond.log"
[ordered.events]
durability = "memory"
"""
# How long it may take to say where it listens, and to stop.
TIMEOUT_S = 60


def program():
    """The binary: MILLPOND_BIN, from the repository's root unless absolute, or what cargo built last."""
    target = os.environ.get("CARGO_TARGET_DIR") or "target"
    return (ROOT / (os.environ.get("MILLPOND_BIN") or Path(target) / "debug" / "millpond")).resolve()


def missing():
    """Why there is no server to test, or None."""
    found = program()
    if os.access(found, os.X_OK) and found.is_file():
        return None
    return f"{found} is missing: build it with `cargo build -p millpond-cli`, or name it in MILLPOND_BIN"


class Millpond:
    """A running server, from `with` to its end; `address` is its data port's, `resp` its RESP port's.

    `server` are further lines of `[server]`, `tables` what follows the configuration, `files` what lies beside it, as bytes by name;
    `listen` is a free port of this machine unless it names one.
    """

    def __init__(self, server="", tables="", files=None, listen="127.0.0.1:0"):
        self._folder = tempfile.TemporaryDirectory(prefix="millpond-interop-")
        self._configuration = CONFIGURATION.replace("[admin]", f"{server}\n[admin]", 1) + tables
        self._configuration = self._configuration.replace("127.0.0.1:0", listen, 1)
        self._files = files or {}
        self.folder = Path(self._folder.name)
        self._child = None
        self.address = ""
        self.resp = ""

    def __enter__(self):
        configuration = self.folder / "millpond.toml"
        configuration.write_text(self._configuration)
        for name, content in self._files.items():
            (self.folder / name).write_bytes(content)
        self._child = subprocess.Popen(
            [program(), "serve", "--config", configuration], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        late = threading.Timer(TIMEOUT_S, self._child.kill)
        late.start()
        try:
            said = self._child.stdout.readline()
            _, found, rest = said.partition("millpond serves on ")
            if not found:
                raise AssertionError(f"the server did not start: {said!r}, {self._child.communicate()[1][-600:]}")
            self.address = rest.split(",")[0].strip()
            self.resp = rest.partition(", RESP on ")[2].split(",")[0].strip()
        except BaseException:
            self._end()
            raise
        finally:
            late.cancel()
        return self

    def __exit__(self, *_):
        self._end()

    @property
    def process(self):
        """The running process, for tests that end it themselves."""
        return self._child

    def log(self):
        """What it has logged so far."""
        return (self.folder / "millpond.log").read_text()

    def _end(self):
        self._child.kill()
        self._child.communicate()
        self._folder.cleanup()
