"""Sets up the work folder: a private Python environment and MovieLens 100K. Standard library only.

    python3.11 examples/movielens/fetch.py [--work .demo] [--environment]

WORK/venv gets the pinned requirements, WORK/ml-100k three files out of a wheel that carries them. Every file is
checked against its SHA-256 before it is used. A second run finds everything in place and does nothing. With
`--environment` the data is left out: the tests need none of it.
"""

import argparse
import os
import shutil
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from narrate import CommandFailed, run, say
from stamp import digest_file

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"

WHEEL = "recbole==1.2.1"
WHEEL_SHA256 = "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407"
WHEEL_FOLDER = "recbole/dataset_example/ml-100k"
DATA_SHA256 = {
    "ml-100k.inter": "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
    "ml-100k.user": "4f670007d9cfbeb9807e757209af1555b9bcc186bde25e767f67cb67c6dd5972",
    "ml-100k.item": "51d7cdf777ce5c0f5b32c1d947a4a81fe07d75e78abbe761e0cd4d0756064532",
}

TERMS = """\
MovieLens 100K belongs to GroupLens Research, University of Minnesota. Its terms, in short:
  - use it for research; commercial use needs their permission;
  - do not pass the data on, and do not claim that GroupLens endorses what you make of it;
  - acknowledge it in publications: F. M. Harper and J. A. Konstan, "The MovieLens Datasets: History and
    Context", ACM Transactions on Interactive Intelligent Systems 5 (4), 2015, doi 10.1145/2827872.
It is fetched to your machine only; neither the data nor anything made from it is part of Millpond."""


def interpreter(work):
    """The private environment's Python."""
    return work / "venv" / "bin" / "python"


def prepare_environment(work, requirements=REQUIREMENTS, *options):
    """Makes WORK/venv and installs the requirements, with further options of pip; returns whether there was anything to do."""
    mark = work / "venv" / "requirements.sha256"
    wanted = f"{digest_file(requirements)} python{sys.version_info.major}.{sys.version_info.minor}\n"
    if interpreter(work).exists() and mark.is_file() and mark.read_text() == wanted:
        return False
    say(f"making a private Python environment in {work / 'venv'}")
    shutil.rmtree(work / "venv", ignore_errors=True)
    venv.create(work / "venv", symlinks=True)
    # This interpreter's own pip installs into the new environment, which saves unpacking a second pip.
    pip(work, "installing the requirements", "install", *options, "--requirement", requirements)
    mark.write_text(wanted)
    return True


def pip(work, doing, *arguments):
    """Runs pip for the private environment."""
    command = [sys.executable, "-m", "pip", "--python", interpreter(work), "--disable-pip-version-check"]
    run([*command, *arguments, "--progress-bar", "off"], doing, env={**os.environ, "PYTHONUNBUFFERED": "1"})


def data_is_whole(folder):
    """True when the three files are there, unchanged."""
    return all((folder / name).is_file() and digest_file(folder / name) == sha for name, sha in DATA_SHA256.items())


def prepare_data(work):
    """Fetches the three files of MovieLens 100K; returns whether there was anything to do."""
    folder = work / "ml-100k"
    if data_is_whole(folder):
        return False
    say("fetching MovieLens 100K")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as temporary:
        pip(work, f"downloading {WHEEL}", "download", "--no-deps", "--dest", temporary, WHEEL)
        wheel = next(Path(temporary).glob("*.whl"))
        found = digest_file(wheel)
        if found != WHEEL_SHA256:
            raise CommandFailed(f"{wheel.name} has SHA-256 {found}, expected {WHEEL_SHA256}: not used")
        with zipfile.ZipFile(wheel) as archive:
            for name in DATA_SHA256:
                (folder / name).write_bytes(archive.read(f"{WHEEL_FOLDER}/{name}"))
    if not data_is_whole(folder):
        raise CommandFailed(f"a file in {folder} is not the expected one; delete the folder and run this again")
    return True


def prepare(work, data=True):
    """The environment, and the data where it is asked for; shows the terms whenever data was fetched."""
    work.mkdir(parents=True, exist_ok=True)
    made = prepare_environment(work)
    if not data:
        say(f"the Python environment of the examples is {'ready' if made else 'in place'}: {work / 'venv'}")
        return
    fetched = prepare_data(work)
    if fetched:
        say(TERMS)
    if made or fetched:
        say(f"ready: {work}")
    else:
        say(f"environment and MovieLens 100K (GroupLens: research use, no redistribution) are in place: {work}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=HERE.parents[1] / ".demo", help="folder to fill")
    parser.add_argument("--environment", action="store_true", help="the Python environment alone, without the data")
    options = parser.parse_args()
    try:
        prepare(options.work.resolve(), data=not options.environment)
    except CommandFailed as failed:
        sys.exit(f"fetch.py: {failed}")


if __name__ == "__main__":
    main()
