"""The item mean, by hand on small cases. Plain Python 3.11."""

import unittest

from baseline import MEANS, item_means, strongest
from events import Event


def rated(*pairs):
    """Events of one user from (film, rating) pairs."""
    return [Event("1", film, rating, place, place) for place, (film, rating) in enumerate(pairs)]


class Baseline(unittest.TestCase):
    def test_means_and_priors(self):
        training = rated(("a", 5.0), ("a", 1.0), ("b", 4.0), ("b", 4.0))
        means, overall = item_means(training, MEANS["share of likes"], 0.0)
        self.assertEqual((means, overall), ({"a": 0.5, "b": 1.0}, 0.75))
        means, overall = item_means(training, MEANS["mean rating"], 2.0)
        self.assertEqual((means, overall), ({"a": 3.25, "b": 3.75}, 3.5))

    def test_strongest_is_the_best_tried_and_reads_training_films_only(self):
        training = rated(("a", 5.0), ("b", 1.0), ("c", 3.0), ("c", 4.0))
        found = strongest(training, rated(("a", 4.0), ("b", 2.0), ("unseen", 1.0), ("c", 5.0)))
        self.assertEqual(found["auc"], max(one["auc"] for one in found["all"]))
        self.assertEqual(len(found["all"]), 14)
        # Only the overall mean is known of the unseen film, whatever it got: it lies between b and a.
        self.assertLess(strongest(training, rated(("a", 1.0), ("unseen", 5.0)))["auc"], 0.5)


if __name__ == "__main__":
    unittest.main()
