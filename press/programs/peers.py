#!/usr/bin/env python3
"""Makes the environment of a peer once, in target/press-peers/NAME: peers.py NAME. Says on the last line why it cannot.

The versions are those that the scenarios were written against.
"""

import pathlib
import subprocess
import sys

# What runs the models of report R4's images in a peer.
ONNX_RUNTIME = "onnxruntime==1.31.1"
PEERS = {
    "millpond": ["numpy==2.2.6"],
    "omniback": ["omniback==0.2.24", ONNX_RUNTIME, "opencv-python-headless==5.0.0.93"],
    "opencv": ["opencv-python-headless==5.0.0.93"],
    "thrift": ["thrift==0.25.0"],
    # It wants a numpy below 2, and a later OpenCV one above.
    "triton": ["nvidia-pytriton==0.7.0", "tritonclient==2.73.0", ONNX_RUNTIME, "opencv-python-headless==4.11.0.86"],
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
