"""Functions of a server that get a list of requests: their shapes, their failures alone and together, by `infer` and in pipelines."""

import json
import threading
import time
import unittest
import urllib.request

import numpy
from test_worker import DTYPES, TIMEOUT_S, Workers, column, model, workers

import millpond

KEYS = """function = "requests"
batch = "list"
instances = 1
inputs = ["text: bytes[]", "image: u8[?, ?]", "words: bytes[?]"]
outputs = ["length: i64[]", "means: f32[?]", "shouted: bytes[?]", "together: i64[]"]
"""
LENGTHS = 'function = "lengths"\nbatch = "list"\ninputs = ["text: bytes[]"]\noutputs = ["n: i64[]"]'


def asked(text, image=((1, 2), (3, 4)), words=("a", "é")):
    image = numpy.asarray(image, "u1")
    return {
        "text": column([text], "bytes", []) | {"shape": []},
        "image": column(image.tobytes(), "u8", list(image.shape)),
        "words": column(list(words), "bytes"),
    }


class Requests(Workers):
    def ask(self, text, deadline_ms=TIMEOUT_S * 1000, **given):
        outputs = self.infer("m", asked(text, **given), deadline_ms)
        number = lambda name: int.from_bytes(outputs[name], "little", signed=True)
        return number("length"), memoryview(outputs["means"]).cast("f").tolist(), outputs["shouted"], number("together")

    def assert_fails(self, text, words, **given):
        with self.assertRaises(millpond.StatusError) as failed:
            self.ask(text, **given)
        self.assertEqual(failed.exception.code, 30108)
        self.assertIn(words, failed.exception.message)
        self.assertEqual(self.ask("none")[0], 4)

    def at_once(self, texts):
        """What each of these comes to, in threads: together as far as the server has it so."""
        found = [None] * len(texts)

        def ask(at):
            try:
                found[at] = self.ask(texts[at], image=[[at] * (at + 1)])
            except millpond.StatusError as error:
                found[at] = error.message

        threads = [threading.Thread(target=ask, args=(at,)) for at in range(len(texts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def test_requests_of_any_shapes_share_runs(self):
        self.serve(model("m", KEYS))
        self.assertEqual(self.ask("four"), (4, [1.5, 3.5], [b"A", "É".encode()], 1))
        self.assertEqual(self.ask("", image=numpy.zeros((0, 3)), words=[]), (0, [], [], 1))
        end, together = time.monotonic() + TIMEOUT_S, 1
        while together == 1 and time.monotonic() < end:
            found = self.at_once(["x" * at for at in range(12)])
            for at, (length, means, shouted, _) in enumerate(found):
                self.assertEqual((length, means, shouted), (at, [at], [b"A", "É".encode()]))
            together = max(found, key=lambda answer: answer[3])[3]
        self.assertGreater(together, 1)

    def test_every_type_goes_in_and_comes_out(self):
        shapes = {"": [], "row": [2], "square": [1, 2]}
        declared = lambda suffix: ", ".join(
            f'"{kind}{name}{suffix}: {kind}[{", ".join("?" * len(shape))}]"' for kind in [*DTYPES, "bytes"] for name, shape in shapes.items()
        )
        keys = f'function = "again"\nbatch = "list"\nbatch_size_max = 8\ninputs = [{declared("")}]\noutputs = [{declared("_out")}]'
        self.serve(model("m", keys))
        values = {"bool": [True, False], "bytes": ["", b"xy"]}
        given = {}
        for kind in [*DTYPES, "bytes"]:
            for name, shape in shapes.items():
                data = values.get(kind, [1, 2])[: 1 if shape == [] else 2]
                given[kind + name] = {"shape": shape, "type": kind, "data": data}
        outputs = self.client.call("infer", {"inputs": given})["outputs"]
        for name, tensor in given.items():
            with self.subTest(name):
                output = outputs[f"{name}_out"]
                self.assertEqual((output["type"], output["shape"]), (tensor["type"], tensor["shape"]))
                data = output["data"]
                if tensor["type"] != "bytes":
                    data = numpy.frombuffer(data, DTYPES[tensor["type"]]).tolist()
                self.assertEqual(data, [item.encode() if item == "" else item for item in tensor["data"]])

    def test_a_request_that_fails_fails_alone(self):
        self.serve(model("m", KEYS))
        before = workers(self.server)
        for text, words in [
            ("exception", "ValueError: not this one"),
            ("exit", "SystemExit: it left"),
            ("unspeakable", "Unspeakable, which cannot be shown"),
            ("nothing", "it gave a NoneType; expected a dict of ['length', 'means', 'shouted', 'together']"),
            ("nan", "output `means` is NaN at element 0"),
            ("type", "output `length` is float64, and i64 is declared"),
            ("large", "output `length` holds 9223372036854775808, which is no i64"),
            ("ragged", "ValueError: "),
            ("texts", "output `shouted` holds a int; expected bytes or str"),
            ("unknown", "it gave ['z'], which no output is called"),
            ("missing", "it gave no ['means', 'shouted', 'together']; it gave ['length']"),
            ("raise", "KeyError: 'a key that is not there'"),
            ("few", "it gave 0 results for 1 requests; expected one for each"),
            ("lie", "it gave 0 results for 1 requests; expected one for each"),
            ("no list", "it gave a dict; expected a list of 1 results, one for each request"),
            ("huge", "it gave a ndarray; expected a dict of"),
        ]:
            with self.subTest(text):
                self.assert_fails(text, words)
        texts = ["fine", "exception", "raise", "few"] * 4
        for text, found in zip(texts, self.at_once(texts)):
            if text == "fine":
                self.assertEqual(found[0], 4)
            else:
                self.assertIsInstance(found, str)
        self.assertEqual(workers(self.server), before)
        self.wait_for_log('"raise": lambda batch: {}["a key that is not there"]')

    def test_a_crash_and_a_hang_fail_their_request_alone(self):
        self.serve(model("m", KEYS + "run_ms_max = 400"))
        self.ask("none")
        self.assert_fails("quit", "its worker process ended (exit status: 3)")
        self.assert_fails("hang", "its worker process hung: it was ended after")
        texts = ["fine", "quit", "fine", "fine"]
        fine = [found[0] for text, found in zip(texts, self.at_once(texts)) if text == "fine"]
        self.assertEqual(fine, [4, 4, 4])

    def test_pipelines_give_it_single_items(self):
        stages = """[[pipelines.p.stages]]
name = "n"
model = { model = "m", input = "inputs.text" }
[pipelines.p]
request = "values"
outputs = ["n"]
"""
        stages = "\n".join([*stages.splitlines()[3:], *stages.splitlines()[:3]])
        self.serve(model("m", LENGTHS) + stages)
        answer = self.client.call("run", {"pipeline": "p", "inputs": {"text": "four"}})
        self.assertEqual(int.from_bytes(answer["outputs"]["n"]["data"], "little"), 4)
        with self.assertRaises(millpond.StatusError) as refused:
            self.client.call("run", {"pipeline": "p", "inputs": {"text": ["a", "b"]}})
        self.assertIn('model "m" takes text: bytes[]; this request gives it [2]', refused.exception.message)
        # The same by HTTP.
        body = json.dumps({"pipeline": "p", "inputs": {"text": "abc"}}).encode()
        with urllib.request.urlopen(f"http://{self.server.address}/service/run", body, TIMEOUT_S) as response:
            self.assertEqual(json.load(response)["outputs"]["n"]["data"], [3])
        body = json.dumps({"inputs": {"text": {"shape": [], "type": "bytes", "data": ["ab"]}}}).encode()
        with urllib.request.urlopen(f"http://{self.server.address}/service/infer", body, TIMEOUT_S) as response:
            self.assertEqual(json.load(response)["outputs"]["n"], {"shape": [], "type": "i64", "data": [2]})


if __name__ == "__main__":
    unittest.main()
