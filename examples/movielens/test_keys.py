"""The key rule against published FNV-1a vectors. Plain Python 3.11."""

import unittest

from keys import feature_key, fnv1a_64


class Keys(unittest.TestCase):
    def check(self, data, expected):
        self.assertEqual(fnv1a_64(data), expected, data)

    def test_published_vectors(self):
        self.check(b"", 0xCBF29CE484222325)
        self.check(b"a", 0xAF63DC4C8601EC8C)
        self.check(b"foobar", 0x85944171F73967E8)

    def test_a_feature_is_slot_zero_value(self):
        self.assertEqual(feature_key("user", "196"), fnv1a_64(b"user\x00196"))
        self.assertEqual(feature_key("é", "ü"), fnv1a_64("é\0ü".encode()))

    def test_slot_and_value_cannot_trade_letters(self):
        self.assertNotEqual(feature_key("a", "bc"), feature_key("ab", "c"))


if __name__ == "__main__":
    unittest.main()
