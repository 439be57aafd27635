"""A small R1 set against plain numpy: `.demo/venv/bin/python -m unittest discover -s examples/r1`."""

import json
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
    import onnx
    from onnx import numpy_helper

    import make_r1
    import offline
except ModuleNotFoundError as missing:
    raise unittest.SkipTest(f"{missing}; run it with .demo/venv/bin/python") from missing


class MakeR1(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder)
            make_r1.make(directory, keys=200, count=50)
            cls.weights = {w.name: numpy_helper.to_array(w) for w in onnx.load(directory / "model.onnx").graph.initializer}
            cls.table = offline.read_table(directory / "embeddings.parquet")
            cls.lines = (directory / "requests.jsonl").read_text().splitlines()
            cls.expected = [json.loads(line)["scores"] for line in (directory / "expected.jsonl").read_text().splitlines()]

    def test_answers_follow_from_table_and_weights(self):
        for line, expected in zip(self.lines, self.expected, strict=True):
            x = np.stack([
                np.concatenate([self.table[make_r1.feature_key(str(slot), value)] for slot, value in enumerate(sample)])
                for sample in json.loads(line)["samples"]
            ])
            for layer in range(3):
                x = x @ self.weights[f"weight{layer}"] + self.weights[f"bias{layer}"]
                x = 1 / (1 + np.exp(-x)) if layer == 2 else np.maximum(x, 0)
            np.testing.assert_allclose(expected, x[:, 0], atol=1e-5)

    def test_requests_are_distinct_and_scores_differ(self):
        self.assertEqual(len(set(self.lines)), 50)
        self.assertEqual({len(json.loads(line)["samples"]) for line in self.lines}, {15})
        flat = np.ravel(self.expected)
        self.assertGreater(flat.std(), 0.1)
        self.assertTrue(((flat > 0) & (flat < 1)).all())


if __name__ == "__main__":
    unittest.main()
