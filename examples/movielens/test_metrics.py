"""AUC and log loss against their definitions. Plain Python 3.11."""

import math
import random
import unittest

from metrics import auc, log_loss


def auc_by_pairs(labels, scores):
    """The definition, pair by pair."""
    won = [
        1.0 if high > low else 0.5 if high == low else 0.0
        for high, liked in zip(scores, labels) if liked
        for low, other in zip(scores, labels) if not other
    ]
    return sum(won) / len(won)


class Metrics(unittest.TestCase):
    def test_auc_equals_counting_pairs(self):
        draw = random.Random(20261121)
        for case in range(200):
            count = draw.randint(2, 40)
            labels = [1, 0] + [draw.randint(0, 1) for _ in range(count - 2)]
            # Few distinct scores, so that ties within and across the classes are common.
            scores = [draw.randint(0, 6) / 7 for _ in range(count)]
            self.assertAlmostEqual(auc(labels, scores), auc_by_pairs(labels, scores), places=12, msg=f"case {case}")

    def test_auc_of_order_reverse_and_constant(self):
        self.assertEqual(auc([0, 0, 1, 1], [0.1, 0.2, 0.3, 0.4]), 1.0)
        self.assertEqual(auc([1, 1, 0, 0], [0.1, 0.2, 0.3, 0.4]), 0.0)
        self.assertEqual(auc([1, 0, 1], [0.5, 0.5, 0.5]), 0.5)

    def test_auc_needs_both_classes(self):
        with self.assertRaisesRegex(ValueError, "2 positive and 0 negative"):
            auc([1, 1], [0.1, 0.2])

    def test_log_loss(self):
        self.assertAlmostEqual(log_loss([1, 0], [0.8, 0.4]), -(math.log(0.8) + math.log(0.6)) / 2)
        self.assertAlmostEqual(log_loss([1], [0.0]), -math.log(1e-7))


if __name__ == "__main__":
    unittest.main()
