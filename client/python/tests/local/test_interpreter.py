"""What a pipeline or a server finds by the interpreter that runs it, in an environment that is not activated: `venv/bin/python` alone."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from package import PACKAGE

ROOT = PACKAGE.parents[1]
TIMEOUT_S = 120
MODEL = ROOT / "backends/onnxruntime/tests/data/mlp.onnx"
PLAIN = {"PYTHONPATH": str(PACKAGE), "PATH": os.devnull}
# Of a model whose inputs the program does not know, the names of its statistics tell that it was loaded and warmed.
ONNX = """
with millpond.Pipeline({"models": {"mlp": {"path": sys.argv[1]}}, "stages": {"y": {"model": {"model": "mlp"}}}}) as pipe:
    print(json.dumps(sorted(pipe.stats()["models"])))
"""
FUNCTION = """
import sys
import millpond

@millpond.backend
def which(batch):
    return {"y": [sys.executable] * len(batch["x"])}
"""
SERVE = """
model = {"backend": "python", "file": sys.argv[1], "function": "which", "inputs": ["x: f32[N]"], "outputs": ["y: bytes[N]"]}
with millpond.serve({"models": {"which": model}}) as server, millpond.Client(server.address) as client:
    x = {"shape": [1], "type": "f32", "data": array.array("f", [1])}
    print(json.dumps(client.call("infer", {"model": "which", "inputs": {"x": x}})["outputs"]["y"]["data"][0].decode()))
"""
PLUGIN = """
def words(pipe, *words):
    given = {"text": list(words), "x": memoryview(array.array("f", [0] * 2 * len(words))).cast("B").cast("f", [len(words), 2])}
    return pipe(given)

def pipeline(isolate):
    model = {"backend": "plugin", "path": sys.argv[1], "isolate": isolate}
    stage = {"model": {"model": "p", "inputs": {"text": "inputs.text", "x": "inputs.x"}}}
    return millpond.Pipeline({"models": {"p": model}, "stages": {"y": stage}, "outputs": ["y.y", "y.echo"]})

with pipeline(True) as isolated, pipeline(False) as here:
    print(json.dumps([repr(words(isolated, "a", "bc")) == repr(words(here, "a", "bc"))]))
    try:
        words(isolated, "crash")
    except millpond.ModelError as error:
        print(json.dumps(str(error)))
    print(json.dumps(repr(words(isolated, "a")) == repr(words(here, "a"))))
"""


def run(program, argument, env=PLAIN, first=""):
    """The program's lines, in an environment without variables but the package's place; `first` runs before."""
    head = first + "import array, json, sys\nimport millpond\n"
    done = subprocess.run(
        [sys.executable, "-c", head + program, argument],
        env=env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


class Interpreter(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_its_package_of_onnx_runtime_is_loaded(self):
        self.assertEqual(run(ONNX, MODEL), [["mlp"]])

    def test_workers_run_it(self):
        file = self.folder / "which.py"
        file.write_text(FUNCTION)
        self.assertEqual([os.path.normpath(path) for path in run(SERVE, file)], [os.path.normpath(sys.executable)])

    def test_workers_import_from_where_it_does(self):
        file, modules = self.folder / "which.py", self.folder / "modules"
        file.write_text(f"import beside\n{FUNCTION}")
        modules.mkdir()
        (modules / "beside.py").write_text("")
        head = f"import sys\nsys.path[:0] = [{str(PACKAGE)!r}, {str(modules)!r}]\n"
        found = run(SERVE, file, {"PATH": os.devnull}, head)
        self.assertEqual([os.path.normpath(path) for path in found], [os.path.normpath(sys.executable)])

    def test_plugins_run_in_it_apart(self):
        plugin = self.folder / "plugin.so"
        flags = ["-std=c11", "-shared", "-fPIC", "-I", ROOT / "backends/plugin/include", "-o", plugin]
        subprocess.run(["cc", *flags, ROOT / "backends/plugin/tests/faulty.c", "-lm"], check=True, timeout=TIMEOUT_S)
        same, failed, again = run(PLUGIN, plugin)
        self.assertTrue(same and again)
        self.assertIn("SIGSEGV", failed)


if __name__ == "__main__":
    unittest.main()
