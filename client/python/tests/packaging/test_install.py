"""The package as pip installs it: from its folder, and from a wheel, each in an environment that has nothing else.

And a wheel for free-threaded Python, where one is found. All are built in the dev profile into the repository's own target folder, so what `make test` has built is not built again. pip fetches
maturin, as it does for everybody.
"""

import contextlib
import email
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]
TIMEOUT_S = 1200
DEV = ["--config-settings=build-args=--profile dev --locked"]
# Nothing is beside it that could be imported instead.
USE = """
import importlib.metadata, millpond
@millpond.backend
def shout(batch): return [text.upper() for text in batch]
with millpond.Pipeline({"stages": {"shout": {"backend": shout}}}) as pipe:
    print(pipe({"data": "calm"})["shout"], pipe.submit({"data": "a"}).result()["shout"])
with millpond.serve({"methods": {"echo": {"kind": "echo"}}}) as server, millpond.Client(server.address) as client:
    print(client.call("echo", {"a": 1}))
print(importlib.metadata.version("millpond") == millpond.__version__, millpond.__file__)
"""

# Interpreters without the lock: PyO3 supports them from 3.14 on.
FREE_THREADED = ("python3.14t", "python3.15t")
# The package does not bring the lock back, and many threads at once get their own answers.
THREADS = """
import sys, threading, millpond
@millpond.backend(instances=2)
def doubled(batch): return [number * 2 for number in batch]
pipe = millpond.Pipeline({"stages": {"it": {"backend": doubled}}})
wrong = []
def call(own):
    for at in range(2000):
        sent, by = own * 10_000 + at, (pipe, lambda inputs: pipe.submit(inputs).result())[at % 2]
        if by({"data": sent}) != {"it": 2 * sent}: wrong.append(sent)
threads = [threading.Thread(target=call, args=(own,)) for own in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not wrong, wrong
print(sys._is_gil_enabled())
"""


def run(*command, cwd=None):
    found = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=TIMEOUT_S, cwd=cwd)
    if found.returncode:
        raise AssertionError(f"{command}: status {found.returncode}\n{found.stdout}{found.stderr}")
    return found.stdout


@contextlib.contextmanager
def cpu_seconds_told(what):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    yield
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{what} in the dev profile: {seconds:.0f} s of CPU", file=sys.stderr)


class Environment(unittest.TestCase):
    # What the environment is of.
    python_of = sys.executable

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.python = self.folder / "venv" / "bin" / "python"
        run(self.python_of, "-m", "venv", "--without-pip", self.folder / "venv")

    def pip(self, *arguments):
        return run(self.python_of, "-m", "pip", "--disable-pip-version-check", *arguments)

    def wheel(self):
        with cpu_seconds_told("pip wheel"):
            self.pip("wheel", "--quiet", "--no-deps", "--wheel-dir", self.folder, *DEV, PACKAGE)
        (wheel,) = self.folder.glob("*.whl")
        return wheel

    def install(self, wheel):
        self.pip("--python", self.python, "install", "--quiet", "--no-index", "--no-deps", wheel)

    def check_use(self):
        found = run(self.python, "-I", "-c", USE, cwd=self.folder).splitlines()
        self.assertEqual(found[:2], ["b'CALM' b'A'", "{'a': 1}"])
        self.assertTrue(found[2].startswith(f"True {self.folder}"), found[2])


class Installed(Environment):
    def test_from_its_folder(self):
        with cpu_seconds_told("pip install"):
            self.pip("--python", self.python, "install", "--quiet", "--no-deps", *DEV, PACKAGE)
        self.check_use()

    def test_from_a_wheel(self):
        wheel = self.wheel()
        self.assertRegex(wheel.name, r"^millpond-.*-cp311-abi3-.*linux.*\.whl$")
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
            about = email.message_from_bytes(archive.read(metadata))
        for name in ("__init__.py", "py.typed", "_native.pyi", "_native.abi3.so"):
            self.assertIn(f"millpond/{name}", names)
        self.assertFalse([name for name in names if "test" in name.lower()])
        self.assertIn("Inference pipelines", about["Summary"])
        self.assertIn("@millpond.backend", about.get_payload())
        self.install(wheel)
        self.check_use()


class FreeThreaded(Environment):
    @classmethod
    def setUpClass(cls):
        cls.python_of = next(filter(None, map(shutil.which, FREE_THREADED)), None)
        if cls.python_of is None:
            raise unittest.SkipTest(f"none of {', '.join(FREE_THREADED)} is found")

    def test_from_a_wheel_of_its_own(self):
        wheel = self.wheel()
        self.assertRegex(wheel.name, r"^millpond-.*-(cp3\d+)-\1t-.*linux.*\.whl$")
        self.install(wheel)
        self.check_use()
        self.assertEqual(run(self.python, "-I", "-c", THREADS), "False\n")


if __name__ == "__main__":
    unittest.main()
