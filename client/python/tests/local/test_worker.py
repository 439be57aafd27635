"""Functions as models of a real server, in worker processes: answers, all that a function may do wrong, and the ends of processes."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from pathlib import Path

import ml_dtypes
import numpy
from package import PACKAGE

sys.path.insert(0, str(PACKAGE.parents[1] / "tests" / "interop"))

from millpond_server import Millpond, missing  # noqa: E402

import millpond  # noqa: E402
from millpond import _shared  # noqa: E402

TIMEOUT_S = 60
FUNCTIONS = Path(__file__).with_name("functions.py")
SUMS = 'function = "sums"\ninputs = ["x: f32[N, 2]", "words: bytes[N]"]\noutputs = ["y: f32[N, 1]", "echo: bytes[N]", "pid: i64[N]", "rows: i32[N]"]'
INTEGERS = {f"{kind}{bits}": f"<{kind}{bits // 8}" for kind in "iu" for bits in (64, 32, 16, 8)}
DTYPES = {"f32": "<f4", "f64": "<f8", "f16": "<f2", "bf16": ml_dtypes.bfloat16, "bool": "?", **INTEGERS}
FAULTY = 'function = "faulty"\ninputs = ["fault: bytes[N]", "x: f32[N, ?]"]\noutputs = ["y: f32[N, ?]"]'


def model(name, keys, source='file = "functions.py"'):
    return f'[models.{name}]\nbackend = "python"\n{source}\npython = "{sys.executable}"\n{keys}\n'


def column(data, kind="f32", shape=None):
    return {"shape": shape or [len(data)], "type": kind, "data": data}


def until(condition, what):
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(what())
        time.sleep(0.01)


def workers(server):
    """The worker processes of this server: their numbers."""
    found = []
    for task in Path(f"/proc/{server.process.pid}/task").iterdir():
        try:
            children = (task / "children").read_text().split()
        except FileNotFoundError:
            # The thread has ended since, and its children are another one's by now: a worker is a child of a thread that stays.
            continue
        for pid in children:
            if b"millpond-worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(int(pid))
    return sorted(found)


def is_there(pid):
    """Whether it runs; one that its parent has not looked at has no command line any more."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except FileNotFoundError:
        return False


class Workers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if reason := missing():
            raise AssertionError(reason)

    def serve(self, models, path=PACKAGE):
        """A server of these models, and a client of it."""
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = str(path)
        try:
            self.server = self.enterContext(Millpond(tables=models, files={"functions.py": FUNCTIONS.read_bytes()}))
        finally:
            os.environ.pop("PYTHONPATH")
            if before is not None:
                os.environ["PYTHONPATH"] = before
        self.client = self.enterContext(millpond.Client(self.server.address, connections=2))

    def infer(self, model, inputs, deadline_ms=TIMEOUT_S * 1000):
        # The client itself would wait no longer than its own deadline.
        answer = self.client.call("infer", {"model": model, "inputs": inputs, "_deadline_ms": deadline_ms})
        return {name: output["data"] for name, output in answer["outputs"].items()}

    def fault(self, fault, deadline_ms=TIMEOUT_S * 1000):
        inputs = {"fault": column([fault], "bytes"), "x": column([1.5], shape=[1, 1])}
        return self.infer("m", inputs, deadline_ms)["y"]

    def assert_fails(self, fault, words, deadline_ms=TIMEOUT_S * 1000):
        """The call fails with these words, and the next one does not."""
        with self.assertRaises(millpond.StatusError) as failed:
            self.fault(fault, deadline_ms)
        self.assertEqual(failed.exception.code, 30108)
        self.assertIn(words, failed.exception.message)
        self.assertEqual(self.fault("none"), self.good)

    def serve_faulty(self, keys=""):
        self.serve(model("m", f"{FAULTY}\n{keys}"))
        self.good = self.fault("none")
        return workers(self.server)

    def wait_for_log(self, words):
        until(lambda: words in self.server.log(), lambda: f"{words} is not in\n{self.server.log()}")


class Answers(Workers):
    def test_rows_of_several_calls_are_one_batch(self):
        self.serve(model("m", f"{SUMS}\ninstances = 1"))
        inputs = {"x": column([1, 2, 3, 4], shape=[2, 2]), "words": column(["ä", b"\xff\x00"], "bytes")}
        found = self.infer("m", inputs)
        self.assertEqual(memoryview(found["y"]).cast("f").tolist(), [3, 7])
        self.assertEqual(found["echo"], ["ä".encode(), b"\xff\x00"])
        self.assertEqual(memoryview(found["rows"]).cast("i").tolist(), [2, 2])
        self.assertEqual(memoryview(found["pid"]).cast("q").tolist(), workers(self.server) * 2)
        # More than the first memories hold, and little again.
        many = {"x": column(numpy.ones((4000, 2), "f4"), shape=[4000, 2]), "words": column(["w"] * 4000, "bytes")}
        self.assertEqual(set(memoryview(self.infer("m", many)["y"]).cast("f")), {2.0})
        self.assertEqual(self.infer("m", inputs), found)

    def test_every_type_goes_in_and_comes_out(self):
        types = [*DTYPES, "bytes"]
        values = {"bool": [True, False], "bytes": [b"", b"xy"]}
        values |= {kind: [numpy.iinfo(dtype).min, numpy.iinfo(dtype).max] for kind, dtype in INTEGERS.items()}
        inputs = [f'"{kind}: {kind}[N, ?]"' for kind in types]
        outputs = [f'"{kind}_out: {kind}[N, ?]"' for kind in types]
        self.serve(model("m", f'function = "same"\ninputs = [{", ".join(inputs)}]\noutputs = [{", ".join(outputs)}]'))
        given = {kind: column(values.get(kind, [1, 2]), kind, [1, 2]) for kind in types}
        outputs = self.client.call("infer", {"inputs": given})["outputs"]
        for kind in types:
            with self.subTest(kind):
                output = outputs[f"{kind}_out"]
                self.assertEqual((output["type"], output["shape"]), (kind, [1, 2]))
                expected = values.get(kind, [1, 2])
                data = output["data"] if kind == "bytes" else numpy.frombuffer(output["data"], DTYPES[kind]).tolist()
                self.assertEqual(data, expected)

    def test_an_object_of_a_class_is_a_processs_own(self):
        self.serve(model("m", 'function = "Counter"\ninputs = ["x: f32[N]"]\noutputs = ["y: f32[N]"]'))
        count = lambda: memoryview(self.infer("m", {"x": column([1.0])})["y"]).cast("f")[0]
        first = count()
        self.assertEqual([count(), count()], [first + 1, first + 2])
        self.wait_for_log("set ['batch_size_max'] in the model's section")

    def test_a_model_without_rows_runs_one_call_at_a_time(self):
        self.serve(model("m", 'function = "same"\ninputs = ["x: f32[2, ?]"]\noutputs = ["x_out: f32[2, ?]"]'))
        found = self.infer("m", {"x": column([1, 2], shape=[2, 1])})
        self.assertEqual(memoryview(found["x_out"]).cast("f").tolist(), [1, 2])

    def answer_of_example(self, name):
        """What the call in the README gives that asks for this one of the examples."""
        example = PACKAGE.parents[1] / "examples" / "python"
        section = (example / f"{name}.toml").read_text().replace("function =", f'python = "{sys.executable}"\nfunction =')
        self.serve(re.sub(r'file = "(.*)"', rf'file = "{example}/\1"', section))
        calls = dict(re.findall(r"python/(\w+)\.toml.*?millpond call infer '(.*?)'", (example / "README.md").read_text(), re.DOTALL))
        return self.client.call("infer", json.loads(calls[name]))["outputs"]

    def test_the_examples_answer_as_their_calls_say(self):
        [score] = numpy.frombuffer(self.answer_of_example("python")["score"]["data"], "<f4")
        self.assertAlmostEqual(score, 0.5**0.5, 6)
        words = self.answer_of_example("words")
        self.assertEqual(words["words"]["data"], [b"to", b"be", b"or", b"not"])
        self.assertEqual(numpy.frombuffer(words["counts"]["data"], "<i8").tolist(), [2, 2, 1, 1])

    def test_instances_are_processes(self):
        self.serve(model("m", f"{SUMS}\ninstances = 3"))
        self.assertEqual(len(workers(self.server)), 3)


class Faults(Workers):
    def test_what_a_function_raises_or_gives_wrong_fails_its_call_alone(self):
        before = self.serve_faulty()
        for fault, words in [
            ("raise", "KeyError: 'a key that is not there'"),
            ("exit", "SystemExit: it left"),
            ("interrupt", "failed: KeyboardInterrupt"),
            ("long", "KeyError: 'ééé"),
            ("unspeakable", "Error, which cannot be shown"),
            ("nothing", "output `y` is object, and f32 is declared"),
            ("dict", "it gave ['z'], which no output is called"),
            ("empty", "it gave no ['y']; it gave []"),
            ("more", "it gave ['z'], which no output is called"),
            ("rows", "output `y` has shape [0, 1]; expected [1, ?]"),
            ("rank", "output `y` has shape [1, 1, 1"),
            ("type", "output `y` is float64, and f32 is declared; convert it, as with .astype"),
            ("order", "output `y` is >f4, and f32 is declared"),
            ("ragged", "ValueError: "),
            ("objects", "output `y` is object, and f32 is declared"),
            ("overflow", "output `y` holds 1e+300, which is no f32"),
            ("huge", "its outputs take 4398046511104 bytes, and shared_bytes_max is 1073741824"),
            ("nan", "output `y` is NaN at element 0"),
            ("memory", "MemoryError: "),
            ("unheard of", "KeyError: 'unheard of'"),
        ]:
            with self.subTest(fault):
                self.assert_fails(fault, words)
        self.assertEqual(self.fault("list"), self.good)
        self.assertEqual(memoryview(self.fault("integers")).cast("f").tolist(), [1])
        # No process was lost by any of them.
        self.assertEqual(workers(self.server), before)
        # The line of the function that raised, as Python shows it.
        self.wait_for_log('"raise": lambda x: {}["a key that is not there"]')

    def test_a_function_that_takes_memory_without_end_meets_its_bound(self):
        before = self.serve_faulty(f"memory_bytes_max = {512 << 20}")
        for _ in range(2):
            self.assert_fails("leak", "MemoryError")
        self.assertEqual(workers(self.server), before)

    def test_a_call_that_fails_does_not_fail_those_of_its_batch(self):
        self.serve_faulty()
        inputs = {"fault": column(["none", "raise"], "bytes"), "x": column([1, 2], shape=[2, 1])}
        results = []

        def ask(fault):
            try:
                results.append((fault, self.fault(fault)))
            except millpond.StatusError as error:
                results.append((fault, error.code))

        asking = [threading.Thread(target=ask, args=(fault,)) for fault in ["none", "raise", "none", "raise"] * 4]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
        self.assertEqual(sorted(results, key=str), sorted([("none", self.good)] * 8 + [("raise", 30108)] * 8, key=str))
        with self.assertRaises(millpond.StatusError):
            self.infer("m", inputs)

    def test_printing_reading_and_forking_do_not_reach_the_protocol(self):
        # A function that starts programs may have to wait for a disk that is busy with something else.
        before = self.serve_faulty(f"run_ms_max = {TIMEOUT_S * 1000}")
        self.assertEqual(self.fault("chatter"), self.good)
        self.assertEqual(self.fault("fork"), self.good)
        self.assertEqual(self.fault("terminate"), self.good)
        self.assertEqual(self.fault("none"), self.good)
        self.assertEqual(workers(self.server), before)
        for words in ["loaded by", "line 7 of a chatty function", "and not a message", "in a process that it forked from"]:
            self.wait_for_log(words)

    def test_a_crash_fails_its_call_and_the_next_one_has_another_process(self):
        self.serve_faulty()
        for fault, words in [
            ("crash", "its worker process ended (signal: 11 (SIGSEGV)"),
            ("quit", "its worker process ended (exit status: 3)"),
            ("crash beside a child", "its worker process ended (exit status: 5)"),
        ]:
            with self.subTest(fault):
                before = workers(self.server)
                self.assert_fails(fault, words)
                self.assertNotEqual(workers(self.server), before)
        # Where it was in Python when it crashed.
        self.wait_for_log("Fatal Python error: Segmentation fault")

    def test_a_hang_ends_at_the_deadline_of_its_call(self):
        self.serve_faulty()
        for fault in ("hang", "hold"):
            with self.subTest(fault):
                self.assert_fails(fault, "its worker process hung: it was ended after", deadline_ms=300)

    def test_a_hang_ends_at_its_bound(self):
        self.serve_faulty("run_ms_max = 300")
        self.assert_fails("hang", "its worker process hung: it was ended after")

    def test_bounds_of_memory(self):
        self.serve_faulty("shared_bytes_max = 65536\nmemory_bytes_max = 2000000000")
        self.assert_fails("huge", "and shared_bytes_max is 65536")
        limits = Path(f"/proc/{workers(self.server)[0]}/limits").read_text()
        self.assertRegex(limits, r"Max data size +2000000000 +2000000000")


class Numbers(unittest.TestCase):
    def test_numbers_that_are_too_large_are_refused(self):
        port = lambda kind: _shared.Port({"name": "y", "type": kind, "shape": [None]})
        for kind, number in ("f16", 70000), ("f16", 7e4), ("f32", 1e300), ("bf16", 1e300):
            with self.subTest(kind), self.assertRaisesRegex(_shared.Refused, re.escape(f"output `y` holds {number}, which is no {kind}")):
                port(kind).output([1, number], None)
        for kind, numbers in ("f16", [1.5, 65504, numpy.inf, -numpy.inf, numpy.nan]), ("f32", [3e38, 1e-300]), ("f64", [1e300]):
            given = port(kind).output(numbers, None)
            numpy.testing.assert_array_equal(given, numpy.asarray(numbers, DTYPES[kind]))


class Starts(Workers):
    def assert_refused(self, keys, words, path=PACKAGE, **given):
        with self.assertRaises(AssertionError) as refused:
            self.serve(model("m", keys, **given), path)
        self.assertIn(words, str(refused.exception))

    def test_what_cannot_be_loaded_is_named(self):
        called = Path(self.enterContext(tempfile.TemporaryDirectory())) / "json.py"
        called.write_text("")
        self.assert_refused(FAULTY.replace("faulty", "unmarked"), "marked are ['Counter', ")
        self.assert_refused(FAULTY.replace("faulty", "nowhere"), "functions has no `nowhere` that millpond.backend marks")
        self.assert_refused(FAULTY, "ModuleNotFoundError: No module named 'nowhere_to_be_found'", source='module = "nowhere_to_be_found"')
        self.assert_refused(FAULTY, "called like the module json, which is loaded already", source=f'file = "{called}"')

    def test_an_interpreter_that_lacks_something_says_what(self):
        self.assert_refused(FAULTY, "cannot import the package millpond", path="nowhere")
        # Without the packages of its environment.
        bare = Path(self.enterContext(tempfile.TemporaryDirectory())) / "python"
        bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
        bare.chmod(0o755)
        refused = model("m", FAULTY).replace(sys.executable, str(bare))
        with self.assertRaises(AssertionError) as failed:
            self.serve(refused)
        self.assertIn("cannot import numpy", str(failed.exception))


class Ends(Workers):
    def test_a_stop_ends_all_processes(self):
        self.serve(model("m", f"{SUMS}\ninstances = 2"))
        before = workers(self.server)
        # As a service manager, which signals every process of a service.
        for pid in before:
            os.kill(pid, signal.SIGTERM)
        self.infer("m", {"x": column([1, 2], shape=[1, 2]), "words": column(["w"], "bytes")})
        self.assertEqual(workers(self.server), before)
        self.server.process.terminate()
        self.assertEqual(self.server.process.wait(TIMEOUT_S), 0)
        until(lambda: not any(map(is_there, before)), lambda: f"of {before} some are left")

    def test_a_killed_server_leaves_no_process_even_in_a_hang_that_holds_the_interpreter(self):
        before = self.serve_faulty("instances = 2\nrun_ms_max = 3600000")
        self.assertEqual(len(before), 2)
        inputs = {"fault": column(["hold"], "bytes"), "x": column([1.5], shape=[1, 1])}
        self.client.oneway("infer", {"model": "m", "inputs": inputs, "_deadline_ms": 3_600_000})
        self.wait_for_log("it holds the interpreter")
        self.server.process.kill()
        self.server.process.wait(TIMEOUT_S)
        until(lambda: not any(map(is_there, before)), lambda: f"of {before} some are left")

    def test_a_killed_program_leaves_no_worker_while_a_process_lives_that_it_forked(self):
        script = """
            import os, sys, threading, time
            sys.path[:0] = [sys.argv[1]]
            import millpond
            os.environ["PYTHONPATH"] = sys.argv[1]
            model = {"backend": "python", "file": sys.argv[2], "function": "pids", "batch": "list", "inputs": ["x: i64[]"], "outputs": ["pid: i64[]"]}
            stage = {"model": {"model": "w", "input": "inputs.data"}}
            pipes = [millpond.Pipeline({"models": {"w": model}, "stages": {"it": stage}}) for _ in range(2)]
            pipes.pop(0).close()
            child = os.fork()
            if child == 0:
                time.sleep(1000)
            print(child, int(pipes[0]({"data": 1})["it"]), flush=True)
            time.sleep(1000)
            """
        command = [sys.executable, "-c", textwrap.dedent(script), str(PACKAGE), str(FUNCTIONS)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
            child, worker = map(int, program.stdout.readline().split())
            self.addCleanup(os.kill, child, signal.SIGKILL)
            self.assertTrue(is_there(worker))
            program.kill()
        until(lambda: not is_there(worker), lambda: f"worker {worker} is left")
        self.assertTrue(is_there(child))


if __name__ == "__main__":
    unittest.main()
