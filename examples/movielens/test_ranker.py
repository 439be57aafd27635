"""Gradients, the exported model and the offline evaluation, on generated data.

Needs numpy, pyarrow, onnx and onnxruntime: run it with the private environment's Python
(`.demo/venv/bin/python -m unittest discover -s examples/movielens`); elsewhere it says that it was skipped.
"""

import json
import tempfile
import unittest
from pathlib import Path

import generated
from events import cut

try:
    import numpy as np

    import export
    import offline
    import ranker
    import train
    from rows import rows, vocabulary
except ModuleNotFoundError as missing:
    raise unittest.SkipTest(f"{missing}; run it with .demo/venv/bin/python") from missing


class Ranker(unittest.TestCase):
    def setUp(self):
        self.users, self.films = generated.users(30), generated.films(90)
        self.vocab = vocabulary(self.users, self.films)
        parts = {user: cut(ordered) for user, ordered in generated.events(11).items()}
        self.training = {user: before for user, (before, _) in parts.items()}
        self.held_out = {user: after for user, (_, after) in parts.items() if after}
        self.rows = rows(self.vocab, self.training, self.training)
        self.chosen = ranker.Hyperparameters(learning_rate=5e-3, weight_decay=1e-4, epochs=8)

    def test_gradients_are_the_slopes_of_the_loss(self):
        decay = 0.01
        draw = np.random.default_rng(3)
        parameters = {name: value.astype(np.float64) for name, value in ranker.initial(self.vocab, draw).items()}
        # Away from zero, so that products and biases matter.
        parameters = {name: value + draw.normal(0, 0.3, value.shape) for name, value in parameters.items()}
        chosen = np.arange(40)
        labels = self.rows.labels[chosen]

        def loss():
            x, _ = ranker.blocks(parameters, self.vocab, self.rows, chosen)
            score = 1 / (1 + np.exp(-ranker._layers(parameters, x)[-1][:, 0]))
            decayed = sum(np.sum(parameters[name] ** 2) for name in ("table", "genres"))
            return -np.mean(np.where(labels > 0, np.log(score), np.log(1 - score))) + decay / 2 * decayed

        found = ranker.gradients(parameters, self.vocab, self.rows, chosen, decay)
        step = 1e-6
        for name, value in parameters.items():
            steepest = np.argsort(np.abs(found[name]).ravel())[-5:]
            for place in [*steepest, *draw.integers(0, value.size, 5)]:
                kept = value.flat[place]
                value.flat[place] = kept + step
                above = loss()
                value.flat[place] = kept - step
                below = loss()
                value.flat[place] = kept
                slope = (above - below) / (2 * step)
                self.assertAlmostEqual(found[name].flat[place], slope, delta=1e-5 + 1e-4 * abs(slope), msg=f"{name}[{place}]")

    def test_training_learns_and_repeats(self):
        parameters = ranker.train(self.vocab, self.rows, self.chosen, seed=1)
        again = ranker.train(self.vocab, self.rows, self.chosen, seed=1)
        for name, value in parameters.items():
            np.testing.assert_array_equal(value, again[name])
        labels = self.rows.labels.tolist()
        untrained = ranker.initial(self.vocab, np.random.default_rng(1))
        before = offline.measure(labels, ranker.scores(untrained, self.vocab, self.rows).tolist())
        after = offline.measure(labels, ranker.scores(parameters, self.vocab, self.rows).tolist())
        self.assertLess(after["log_loss"], before["log_loss"])
        self.assertGreater(after["auc"], 0.7)

    def test_scores_do_not_depend_on_anything_from_the_scored_second_on(self):
        parameters = ranker.train(self.vocab, self.rows, self.chosen, seed=1)
        user, ordered = next(iter(generated.events(11).items()))
        scored = {user: ordered[len(ordered) // 2 : len(ordered) // 2 + 1]}
        at = scored[user][0].timestamp
        past = {user: [event for event in ordered if event.timestamp < at]}
        whole = ranker.scores(parameters, self.vocab, rows(self.vocab, scored, {user: ordered}))
        np.testing.assert_array_equal(whole, ranker.scores(parameters, self.vocab, rows(self.vocab, scored, past)))
        # The past itself does count, or this test would prove nothing.
        shorter = ranker.scores(parameters, self.vocab, rows(self.vocab, scored, {user: past[user][:1]}))
        self.assertFalse(np.array_equal(whole, shorter))

    def test_exported_files_score_as_the_trainer_does(self):
        # One film that nobody rated before the cuts and one without genres are asked for too.
        asked_for = {event.film for events in self.held_out.values() for event in events}
        training = {user: [event for event in events if event.film != "14"] for user, events in self.training.items()}
        self.assertIn("14", asked_for)
        train_rows = rows(self.vocab, training, training)
        parameters = ranker.train(self.vocab, train_rows, self.chosen, seed=2)
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder)
            export.write_all(directory, parameters, self.vocab, train_rows, self.films, training, self.held_out)
            found = [score for scores in offline.score_requests(directory) for score in scores]
            titles = json.loads((directory / "titles.json").read_text())
            table = offline.read_table(directory / "embeddings.parquet")
        asked = {user: self.held_out[user] for user in sorted(self.held_out, key=int)}
        expected = ranker.scores(parameters, self.vocab, rows(self.vocab, asked, training))
        np.testing.assert_allclose(found, expected, atol=1e-6)
        self.assertEqual(titles["3"], "Film 3 (1999)")
        self.assertNotIn(offline.feature_key("film", "14"), table)
        self.assertNotIn(offline.feature_key("genres", "14"), table)
        self.assertEqual({vector.shape for vector in table.values()}, {(ranker.DIM,)})

    def test_choice_reads_the_slice_and_keeps_what_it_tried(self):
        self.addCleanup(setattr, train, "EPOCHS_MAX", train.EPOCHS_MAX)
        self.addCleanup(setattr, train, "say", train.say)
        train.EPOCHS_MAX, train.say = 2, lambda text: None
        chosen, tried = train.choose(self.vocab, self.training)
        self.assertEqual(len(tried), len(train.LEARNING_RATES) * len(train.WEIGHT_DECAYS) * 2)
        best = max(tried, key=lambda one: one["auc"])
        self.assertEqual(vars(chosen), {name: best[name] for name in vars(chosen)})


if __name__ == "__main__":
    unittest.main()
