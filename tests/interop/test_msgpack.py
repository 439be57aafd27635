"""The msgpack codec: every first byte by hand, generated values both ways, and bytes that are none. Plain Python 3.11."""

import math
import random
import struct
import unittest

from errors import PayloadInvalid
from msgpack_codec import DEPTH_MAX, Ext, Float32, RawText, decode, encode

SEED = 20_240_613
ROUNDS = 400
# Where the width of an int, and of a length, changes.
INT_EDGES = [
    0, 1, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1,
    -1, -32, -33, -128, -129, -32768, -32769, -(2**31), -(2**31) - 1, -(2**63),
]
LENGTH_EDGES = [0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536]


class ByHand(unittest.TestCase):
    """Bytes taken from the specification's tables."""

    def check(self, value, data):
        data = bytes.fromhex(data)
        self.assertEqual(encode(value), data, value)
        found = decode(data)
        self.assertEqual((found, type(found)), (value, type(value)))

    def test_scalars(self):
        self.check(None, "c0")
        self.check(False, "c2")
        self.check(True, "c3")
        self.check(1.5, "cb 3ff8000000000000")
        self.check(Float32(1.5), "ca 3fc00000")
        self.check("é", "a2 c3a9")
        self.check(RawText(b"\xff\x00"), "a2 ff00")
        self.check(b"\x01\x02", "c4 02 0102")

    def test_ints(self):
        for value, data in (
            (0, "00"), (127, "7f"), (128, "cc80"), (255, "ccff"), (256, "cd0100"), (65536, "ce00010000"),
            (2**32, "cf0000000100000000"), (2**64 - 1, "cfffffffffffffffff"),
            (-1, "ff"), (-32, "e0"), (-33, "d0df"), (-129, "d1ff7f"), (-32769, "d2ffff7fff"), (-(2**63), "d38000000000000000"),
        ):
            self.check(value, data)

    def test_containers_and_extensions(self):
        self.check({}, "80")
        self.check([1, [2]], "92 01 91 02")
        self.check({"a": {"b": None}}, "81 a161 81 a162 c0")
        for size, first in ((1, "d4"), (2, "d5"), (4, "d6"), (8, "d7"), (16, "d8"), (3, "c703")):
            self.check(Ext(-1, bytes(size)), first + "ff" + "00" * size)

    def test_widths_that_are_longer_than_they_need_be_are_read(self):
        for value, data in (
            (5, "cc05"), (5, "cd0005"), (5, "ce00000005"), (5, "cf0000000000000005"), (5, "d30000000000000005"), (-1, "d1ffff"),
            ("a", "d90161"), ("a", "da000161"), ("a", "db0000000161"), (b"a", "c5000161"), (b"a", "c60000000161"),
            ([1], "dc000101"), ([1], "dd0000000101"), ({"a": 1}, "de0001a16101"), ({"a": 1}, "df00000001a16101"),
            (Ext(1, b"a"), "c9000000010161"),
        ):
            self.assertEqual(decode(bytes.fromhex(data)), value, data)

    def test_what_python_may_hand_over(self):
        self.assertEqual(decode(encode((1, bytearray(b"a"), memoryview(b"b")))), [1, b"a", b"b"])
        self.assertTrue(math.isnan(decode(encode(math.nan))))


class Generated(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(SEED)

    def test_edges(self):
        for value in INT_EDGES:
            self.assertEqual(decode(encode(value)), value)
        for length in LENGTH_EDGES:
            for value in ("x" * length, b"y" * length, [None] * length, {str(at): at for at in range(length)}, Ext(7, b"z" * length)):
                self.assertEqual(decode(encode(value)), value, length)

    def value(self, depth):
        """A random value; fewer containers the deeper it lies."""
        pick = self.random.randrange(11 if depth < 4 else 9)
        if pick == 9:
            return [self.value(depth + 1) for _ in range(self.random.randrange(9))]
        if pick == 10:
            keys = ("".join(self.random.choices("aä中\U0001f600 ", k=self.random.randrange(40))) for _ in range(9))
            return {key: self.value(depth + 1) for key in keys}
        return (
            lambda: None,
            lambda: self.random.random() < 0.5,
            lambda: self.random.choice(INT_EDGES),
            lambda: self.random.randrange(-(2**63), 2**64) >> self.random.randrange(64),
            lambda: struct.unpack(">d", struct.pack(">d", self.random.uniform(-1e300, 1e300)))[0],
            lambda: Float32(self.random.uniform(-1e30, 1e30)),
            lambda: "".join(chr(self.random.randrange(0x20, 0xD800)) for _ in range(self.random.choice([0, 5, 31, 32, 90]))),
            lambda: self.random.randbytes(self.random.choice([0, 3, 255, 256, 70_000 if depth == 0 else 300])),
            lambda: Ext(self.random.randrange(-128, 128), self.random.randbytes(self.random.randrange(40))),
        )[pick]()

    def test_values_come_back_and_so_do_their_bytes(self):
        for turn in range(ROUNDS):
            value = self.value(0)
            data = encode(value)
            found = decode(data)
            self.assertEqual(found, value, f"turn {turn} of seed {SEED}")
            self.assertEqual(encode(found), data, f"turn {turn} of seed {SEED}")

    def test_damaged_bytes_give_a_value_or_a_refusal(self):
        for turn in range(ROUNDS):
            data = bytearray(encode(self.value(1)))
            data[self.random.randrange(len(data))] = self.random.randrange(256)
            with self.subTest(turn=turn, seed=SEED):
                try:
                    decode(data)
                except PayloadInvalid:
                    pass


class Refused(unittest.TestCase):
    def test_bytes(self):
        for data in (
            "", "c1", "cc", "cb00", "a3 6162", "c4 05 00", "c9 ffffffff 01", "dd ffffffff", "df ffffffff", "92 01",
            "81 a161", "80 80", "82 a16101 a16102", "81 c0 01", "81 c3 01", "81 90 01", "91" * (DEPTH_MAX + 1) + "90",
        ):
            with self.subTest(data), self.assertRaises(PayloadInvalid):
                decode(bytes.fromhex(data))

    def test_every_prefix_of_a_value(self):
        data = encode({"a": [1, 2.5, "three", b"four", {"five": None}, Ext(1, b"six")]})
        for end in range(len(data)):
            with self.assertRaises(PayloadInvalid):
                decode(data[:end])

    def test_values(self):
        deep = []
        for _ in range(DEPTH_MAX + 1):
            deep = [deep]
        for value in (2**64, -(2**63) - 1, {1.5: 1}, {True: 1}, {None: 1}, object(), {1, 2}, Ext(128, b""), "\ud800", deep):
            with self.subTest(str(value)[:40]), self.assertRaises(PayloadInvalid):
                encode(value)


if __name__ == "__main__":
    unittest.main()
