"""How often a second the disk of a folder syncs 4 KiB that were appended to a file: the last line printed.

    python3 syncs.py FOLDER

Nothing else is written meanwhile. The file is removed."""

import os
import sys
import time
from pathlib import Path

SECONDS = 3
BLOCK = bytes(4096)


def main(folder):
    path = folder / "syncs"
    file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND)
    try:
        count, began = 0, time.perf_counter()
        while (taken := time.perf_counter() - began) < SECONDS:
            os.write(file, BLOCK)
            os.fsync(file)
            count += 1
        print(count / taken)
    finally:
        os.close(file)
        path.unlink()


main(Path(sys.argv[1]))
