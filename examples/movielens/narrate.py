"""Runs a command so that whoever waits keeps seeing something: its output as it comes, a heartbeat otherwise.

Standard library only. The one invariant: while a command runs, no more than HEARTBEAT_S pass without a line.
"""

import queue
import subprocess
import sys
import threading
import time

# Whoever reads a terminal waits; a file or another program needs no more than a sign of life.
HEARTBEAT_S = 4.0 if sys.stdout.isatty() else 30.0


class CommandFailed(Exception):
    """A command ended with another exit status than 0; its output was printed already."""


def say(text=""):
    """Prints at once."""
    print(text, flush=True)


def _pump(stream, lines):
    with stream:
        for line in stream:
            lines.put(line)
    lines.put(None)


def run(command, doing, **options):
    """Runs a command to its end, printing what it prints; returns its output or raises CommandFailed."""
    started = time.monotonic()
    try:
        child = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", **options,
        )
    except OSError as error:
        raise CommandFailed(f"{doing}: cannot start {command[0]}: {error}") from error
    lines = queue.Queue()
    threading.Thread(target=_pump, args=(child.stdout, lines), daemon=True).start()
    output = []
    try:
        while True:
            try:
                line = lines.get(timeout=HEARTBEAT_S)
            except queue.Empty:
                say(f"  ... {doing}, {time.monotonic() - started:.0f} s")
                continue
            if line is None:
                break
            output.append(line)
            sys.stdout.write("  " + line)
            sys.stdout.flush()
        status = child.wait()
    except BaseException:
        child.terminate()
        child.wait()
        raise
    if status != 0:
        raise CommandFailed(f"{doing}: {' '.join(str(part) for part in command)} ended with status {status}")
    return "".join(output)
