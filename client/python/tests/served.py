"""What the client's tests talk to: the real server, and the scripted peer of tests/interop for what no server does.

The package under test is client/python/millpond, with the native half that `make python` put there.
"""

import os
import signal
import subprocess
import sys
import threading
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent
INTEROP = HERE.parents[2] / "tests" / "interop"
sys.path[:0] = [str(PACKAGE), str(INTEROP)]

from errors import ConnectionLost  # noqa: E402
from millpond_server import Millpond, missing, program  # noqa: E402

# A bound for what hangs; nothing waits for it otherwise.
TIMEOUT_S = 60
TIMEOUT_MS = TIMEOUT_S * 1000
METHODS = """
[methods.echo]
kind = "echo"
[methods.constant]
answer = { text = "one", number = 2, list = [true, 0.5] }
[models.sums]
backend = "practice"
behaviour = "wait"
us = 1
width = 3
"""


class Served(unittest.TestCase):
    """One server for all tests of a class."""

    @classmethod
    def setUpClass(cls):
        if reason := missing():
            raise AssertionError(reason)
        cls.server = cls.enterClassContext(Millpond(tables=METHODS))
        cls.address = cls.server.address


def until_it_closes(peer):
    """A peer's script: reads what comes, and answers nothing."""
    silent(threading.Event())(peer)


def silent(arrived, quests=1):
    """A peer's script that answers nothing, and says whenever so many more quests came."""

    def script(peer):
        try:
            while True:
                for _ in range(quests):
                    peer.receive()
                arrived.set()
        except ConnectionLost:
            pass

    return script


def start(script, *arguments):
    """A Python process that runs `script` with the package in reach, in a process group of its own."""
    command = [sys.executable, "-c", script, *arguments]
    environment = os.environ | {"PYTHONPATH": str(PACKAGE)}
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, start_new_session=True, **piped)


def finish(child):
    """What the process printed, its errors behind it, and its exit status."""
    try:
        out, errors = child.communicate(timeout=TIMEOUT_S)
    except BaseException:
        # Its own children hold the pipes as well.
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        raise
    return out + errors, child.returncode


def run(*command):
    """Runs one of the server's commands, which must succeed."""
    subprocess.run([program(), *command], check=True, capture_output=True, timeout=TIMEOUT_S)
