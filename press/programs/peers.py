#!/usr/bin/env python3
"""Makes the environment of a peer once, in target/press-peers/NAME: peers.py NAME. Says on the last line why it cannot.

The versions are those that the scenarios were written against.
"""

import pathlib
import subprocess
import sys

PEERS = {
    "millpond": ["numpy==2.2.6"],
    "omniback": ["omniback==0.2.24"],
    "thrift": ["thrift==0.25.0"],
    "triton": ["nvidia-pytriton==0.7.0", "tritonclient==2.73.0"],
}


def main() -> None:
    name = sys.argv[1]
    folder, wanted = pathlib.Path("target/press-peers") / name, "\n".join(PEERS[name])
    installed = folder / "installed"
    if installed.is_file() and installed.read_text() == wanted:
        return
    python = folder / "bin/python"
    for command in ([sys.executable, "-m", "venv", "--clear", folder], [python, "-m", "pip", "install", "--quiet", *PEERS[name]]):
        if subprocess.run(command, check=False).returncode != 0:
            sys.exit(f"{name} does not install here: pip install {' '.join(PEERS[name])}")
    installed.write_text(wanted)


if __name__ == "__main__":
    main()
