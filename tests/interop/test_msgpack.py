"""What the msgpack codec adds to its package: a str of any bytes, and refusals. Python 3.11."""

import unittest

from errors import PayloadInvalid
from msgpack_codec import bytes_of, decode, encode, text_of


class ByHand(unittest.TestCase):
    """Bytes taken from the specification's tables."""

    def check(self, value, data):
        data = bytes.fromhex(data)
        self.assertEqual(encode(value), data, value)
        found = decode(data)
        self.assertEqual((found, type(found)), (value, type(value)))

    def test_values_in_their_shortest_form(self):
        self.check(None, "c0")
        self.check(True, "c3")
        self.check(1.5, "cb 3ff8000000000000")
        self.check(2**64 - 1, "cfffffffffffffffff")
        self.check(-(2**63), "d38000000000000000")
        self.check("é", "a2 c3a9")
        self.check(b"\x01\x02", "c4 02 0102")
        self.check({"a": [1, {"b": None}]}, "81 a161 92 01 81 a162 c0")

    def test_a_str_of_any_bytes(self):
        for raw in (b"\xff\x00", b"text", bytes(range(256))):
            self.assertEqual(bytes_of(text_of(raw)), raw)
            self.assertEqual(bytes_of(decode(encode(text_of(raw)))), raw)
        self.check(text_of(b"\xff\x00"), "a2 ff00")


class Refused(unittest.TestCase):
    def test_bytes(self):
        for data in (
            "", "c1", "cc", "cb00", "a3 6162", "c4 05 00", "c9 ffffffff 01", "dd ffffffff", "df ffffffff", "92 01",
            "81 a161", "80 80", "82 a16101 a16102", "81 c0 01", "81 c3 01", "81 90 01", "91" * 2000 + "90",
        ):
            with self.subTest(data[:20]), self.assertRaises(PayloadInvalid):
                decode(bytes.fromhex(data))

    def test_every_prefix_of_a_value(self):
        data = encode({"a": [1, 2.5, "three", b"four", {"five": None}]})
        for end in range(len(data)):
            with self.assertRaises(PayloadInvalid):
                decode(data[:end])

    def test_values(self):
        deep = []
        for _ in range(2000):
            deep = [deep]
        for value in (2**64, -(2**63) - 1, object(), {1, 2}, "\ud800", deep):
            with self.subTest(str(type(value))), self.assertRaises(PayloadInvalid):
                encode(value)


if __name__ == "__main__":
    unittest.main()
