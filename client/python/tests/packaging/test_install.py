"""The package as pip installs it: from its folder, and from a wheel, each in an environment that has nothing else.

Both are built in the dev profile into the repository's own target folder, so what `make test` has built is not built again. pip fetches
maturin, as it does for everybody.
"""

import email
import resource
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


def run(*command, cwd=None):
    found = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=TIMEOUT_S, cwd=cwd)
    if found.returncode:
        raise AssertionError(f"{command}: status {found.returncode}\n{found.stdout}{found.stderr}")
    return found.stdout


def pip(*arguments):
    return run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments)


class Installed(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.python = self.folder / "venv" / "bin" / "python"
        run(sys.executable, "-m", "venv", "--without-pip", self.folder / "venv")

    def check_use(self):
        found = run(self.python, "-I", "-c", USE, cwd=self.folder).splitlines()
        self.assertEqual(found[:2], ["b'CALM' b'A'", "{'a': 1}"])
        self.assertTrue(found[2].startswith(f"True {self.folder}"), found[2])

    def test_from_its_folder(self):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        pip("--python", self.python, "install", "--quiet", "--no-deps", *DEV, PACKAGE)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"pip install in the dev profile: {seconds:.0f} s of CPU", file=sys.stderr)
        self.check_use()

    def test_from_a_wheel(self):
        pip("wheel", "--quiet", "--no-deps", "--wheel-dir", self.folder, *DEV, PACKAGE)
        (wheel,) = self.folder.glob("*.whl")
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
        pip("--python", self.python, "install", "--quiet", "--no-index", "--no-deps", wheel)
        self.check_use()


if __name__ == "__main__":
    unittest.main()
