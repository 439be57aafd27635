"""Payloads from Python to the server and back, and what cannot be one."""

import array
import ctypes
import random
import struct
import tempfile
import types
from pathlib import Path

from served import Millpond, Served, run

import millpond

SEED = 20_241_122
# Characters of a payload's repr: what is written so is surely a frame that the server under test takes.
REPR_MAX = 20_000


def random_value(rng, depth):
    kinds = ["none", "bool", "int", "float", "str", "bytes"] + (["list", "dict"] * 2 if depth else [])
    match rng.choice(kinds):
        case "none":
            return None
        case "bool":
            return rng.random() < 0.5
        case "int":
            bits = rng.randrange(65)
            return rng.randrange(2**bits) if rng.random() < 0.6 else -rng.randrange(2 ** min(bits, 63))
        case "float":
            return rng.choice([0.0, -0.0, 5e-324, 1.7976931348623157e308, rng.gauss(0, 1e9), rng.random()])
        case "str":
            return "".join(chr(rng.choice([rng.randrange(128), rng.randrange(0xD800), 0x1F600])) for _ in range(rng.randrange(40)))
        case "bytes":
            return rng.randbytes(rng.choice([0, 1, 31, 255, 256, 300]))
        case "list":
            return [random_value(rng, depth - 1) for _ in range(random_size(rng))]
        case "dict":
            return random_dict(rng, depth - 1)


def random_size(rng):
    # Mostly small; sometimes on either side of where the header grows.
    return rng.choice([15, 16, 18]) if rng.random() < 0.1 else rng.randrange(5)


def random_dict(rng, depth):
    first = rng.choice('aé"😀')
    return {f"{first}{n}": random_value(rng, depth) for n in range(random_size(rng))}


class Trips(Served):
    def setUp(self):
        self.client = self.enterContext(millpond.Client(self.address))

    def back(self, payload):
        return self.client.call("echo", payload)

    def check(self, payload):
        found = self.back(payload)
        self.assertEqual(found, payload)
        # 1, 1.0 and True are equal, and not the same; nor are 0.0 and -0.0. Order counts as well.
        self.assertEqual(repr(found), repr(payload))

    def test_random_payloads_come_back_the_same(self):
        rng, sent = random.Random(SEED), 0
        while sent < 300:
            payload = random_dict(rng, 3)
            if len(repr(payload)) > REPR_MAX:
                continue
            sent += 1
            with self.subTest(seed=SEED, number=sent):
                self.check(payload)

    def test_every_width_of_number(self):
        edges = [0, 31, 32, 127, 128, 255, 256, 2**15, 2**16, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1]
        self.check({"up": edges, "down": [-n for n in edges if n <= 2**63], "below": [-n - 1 for n in edges if n < 2**63]})

    def test_every_width_of_length(self):
        for size in (0, 1, 15, 16, 31, 32, 255, 256, 40_000):
            self.check({"text": "x" * size})
            self.check({"bytes": bytes(size)})
            self.check({"list": [1] * size})
            self.check({f"{n}": n for n in range(min(size, 5_000))})

    def test_what_comes_back_as_something_else(self):
        self.assertEqual(self.back({"a": (1, (2,))}), {"a": [1, [2]]})
        self.assertEqual(self.back({"a": bytearray(b"xy")}), {"a": b"xy"})

        class Number(int):
            pass

        class Named(dict):
            pass

        self.assertEqual(self.back(Named(a=Number(7))), {"a": 7})

    def test_the_deepest_payload(self):
        def nested(depth):
            value = 1
            for _ in range(depth - 1):
                value = [value]
            return {"a": value}

        self.check(nested(60))
        with self.assertRaisesRegex(ValueError, r'payload\["a"\](\[0\]){59} is nested more than 60 deep'):
            self.back(nested(61))

    def test_a_payload_inside_itself(self):
        payload = {"a": []}
        payload["a"].append(payload)
        with self.assertRaisesRegex(ValueError, r'payload\["a"\]\[0\]\["a"\].* does it hold itself\?'):
            self.back(payload)

    def test_a_small_object_that_would_be_a_large_payload(self):
        value = [0] * 10
        for _ in range(40):
            value = [value] * 10
        with millpond.Client(self.address, frame_bytes_max=100_000) as client:
            with self.assertRaisesRegex(millpond.UnsendableError, "over the limit of 100000; split the call"):
                client.call("echo", {"a": value})

    def test_what_no_payload_holds_is_named_with_its_place(self):
        for payload, kind, expected in (
            ([], TypeError, "the payload is a list; expected a dict"),
            ({"a": {1}}, TypeError, r'payload\["a"\] is a set; expected None, bool'),
            ({"a": [0, 1, 2, {"b": object()}]}, TypeError, r'payload\["a"\]\[3\]\["b"\] is a object'),
            ({"a": {1: 2}}, TypeError, r'payload\["a"\] has a key of type int; expected str'),
            ({None: 2}, TypeError, "payload has a key of type NoneType"),
            ({"a": (1, 2**64)}, ValueError, r'payload\["a"\]\[1\] is out of range; integers go from -2\*\*63 to 2\*\*64 - 1'),
            ({"a": -(2**63) - 1}, ValueError, r'payload\["a"\] is out of range'),
            ({"a": float("nan")}, ValueError, r'payload\["a"\] is NaN; floats must be finite'),
            ({"a": [float("-inf")]}, ValueError, r'payload\["a"\]\[0\] is -inf'),
            ({"a": "\ud800"}, ValueError, r'payload\["a"\] has text with half of a surrogate pair'),
            ({"\ud800": 1}, ValueError, "payload has text with half of a surrogate pair"),
            ({'quo"te': {"x": {1}}}, TypeError, r'payload\["quo\\"te"\]\["x"\] is a set'),
        ):
            with self.subTest(expected), self.assertRaisesRegex(kind, expected):
                self.back(payload)
        # What is refused is not sent, and disturbs nobody.
        self.check({"a": 1})

    def test_an_object_that_cannot_be_read(self):
        released = memoryview(bytearray(4))
        released.release()
        with self.assertRaisesRegex(ValueError, r'payload\["a"\] cannot be read: .*released'):
            self.back({"a": released})


class Array:
    """As much of numpy's arrays as the client looks at; the tests need no numpy."""

    def __init__(self, items, kind, name, size=None, ndim=1):
        self.items, self.ndim = items, ndim
        self.size = len(items) if size is None else size
        self.dtype = types.SimpleNamespace(kind=kind, name=name)

    def tolist(self):
        return self.items

    def view(self, name):
        return memoryview(array.array({"uint16": "H"}[name], self.items))

    def __float__(self):
        return self.items[0]


class Blocks(Served):
    def setUp(self):
        self.client = self.enterContext(millpond.Client(self.address))

    def sent(self, block):
        return self.client.call("echo", {"block": block})["block"]

    def test_arrays_of_every_kind_of_number(self):
        for code in "bBhHiIlLqQfd":
            numbers = array.array(code, [1, 2, 100])
            self.assertEqual(self.sent(numbers), numbers.tobytes(), code)
            self.assertEqual(self.sent(memoryview(numbers)), numbers.tobytes(), code)
        self.assertEqual(self.sent(array.array("f")), b"")
        self.assertEqual(self.sent((ctypes.c_float * 2)(1.0, 2.0)), struct.pack("<2f", 1.0, 2.0))

    def test_arrays_with_steps_and_dimensions(self):
        numbers = memoryview(array.array("f", range(6)))
        self.assertEqual(self.sent(numbers[::2]), struct.pack("<3f", 0, 2, 4))
        self.assertEqual(self.sent(numbers[::-1]), struct.pack("<6f", 5, 4, 3, 2, 1, 0))
        self.assertEqual(self.sent(numbers.cast("B").cast("f", [2, 3])), struct.pack("<6f", *range(6)))

    def test_an_array_without_dimensions_is_a_number(self):
        for code, number in (("f", 1.5), ("q", -7), ("B", 200), ("d", -0.5)):
            scalar = memoryview(array.array(code, [number])).cast("B").cast(code, [])
            self.assertEqual(self.sent(scalar), number)

    def test_arrays_of_something_else_are_refused(self):
        swapped = (ctypes.c_float.__ctype_be__ * 2)(1.0, 2.0)
        for block in (swapped, memoryview(b"abc").cast("c"), array.array("u", "ab"), (ctypes.py_object * 1)(None)):
            with self.subTest(block), self.assertRaisesRegex(TypeError, r'payload\["block"\] is a .* of items of format'):
                self.sent(block)

    def test_arrays_of_texts_are_lists(self):
        for kind, name, items in (
            ("U", "str32", ["a", "é", ""]),
            ("T", "StringDType128", ["a"]),
            ("S", "bytes16", [b"a", b"\xff"]),
            ("O", "object", [["a", b"b"], [None, 1]]),
        ):
            with self.subTest(kind):
                self.assertEqual(self.sent(Array(items, kind, name)), items)
        with self.assertRaisesRegex(TypeError, r'payload\["block"\]\[1\] is a set'):
            self.sent(Array(["a", {1}], "O", "object"))

    def test_an_array_of_texts_that_holds_itself_or_is_too_large(self):
        inside = Array([], "O", "object")
        inside.items = inside
        with self.assertRaisesRegex(ValueError, "does it hold itself"):
            self.sent(inside)
        with self.assertRaisesRegex(millpond.UnsendableError, "over the limit"):
            self.sent(Array(["a"], "U", "str32", size=10**12))

    def test_arrays_of_bfloat16(self):
        self.assertEqual(self.sent(Array([0x3F80, 0xC000], "V", "bfloat16")), struct.pack("<2H", 0x3F80, 0xC000))
        self.assertEqual(self.sent(Array([1.5], "V", "bfloat16", ndim=0)), 1.5)

    def test_tensors_of_other_types_are_refused_by_name(self):
        for element_type, data in (
            ("f16", array.array("H", [0x3C00] * 3)),
            ("bf16", array.array("H", [0x3F80] * 3)),
            ("bytes", ["a", b"b", ""]),
        ):
            x = {"shape": [1, 3], "type": element_type, "data": data}
            with self.subTest(element_type), self.assertRaisesRegex(millpond.StatusError, f"must be f32, found {element_type}"):
                self.client.call("infer", {"model": "sums", "inputs": {"x": x}}, deadline_ms=60_000)

    def test_tensors_through_a_model(self):
        x = {"shape": [2, 3], "type": "f32", "data": array.array("f", [1, 2, 3, 10, 20, 30])}
        answer = self.client.call("infer", {"model": "sums", "inputs": {"x": x}}, deadline_ms=60_000)
        y = answer["outputs"]["y"]
        self.assertEqual((y["shape"], y["type"], struct.unpack("<2f", y["data"])), ([2, 1], "f32", (6.0, 60.0)))

    def test_rows_of_a_table(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="millpond-python-"))
        run("features", "random", "--out", folder, "--name", "films", "--rows", "10", "--dim", "2")
        tables = f"""
[features.films]
path = "{Path(folder) / "films"}"
"""
        with Millpond(tables=tables) as server, millpond.Client(server.address) as client:
            answer = client.call("features.lookup", {"table": "films", "keys": array.array("Q", [3, 99, 3])})
        self.assertEqual((answer["version"], answer["dim"], answer["found"]), (1, 2, b"\x05"))
        rows = array.array("f", answer["values"]).tolist()
        self.assertEqual(rows[2:4], [0.0, 0.0])
        self.assertEqual(rows[:2], rows[4:])
        self.assertTrue(any(rows[:2]))
