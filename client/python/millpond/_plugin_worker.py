"""The worker process of a plugin with `isolate = true`: a pipeline or a server in a process of Python's starts it, nobody else."""

from __future__ import annotations

import signal

from millpond import _native


def main() -> None:
    # A terminal or a service manager sends its signal to every process, and the one that asked ends this one. Programs that the plugin starts
    # must not ignore them too.
    for kind in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(kind, lambda *_: None)
        signal.siginterrupt(kind, False)
    _native.serve_plugin()


if __name__ == "__main__":
    main()
