"""The networks of report R4: `.demo/venv/bin/python -m unittest discover -s examples/r4`."""

import tomllib
import unittest
from pathlib import Path

try:
    import numpy as np
    import onnx

    import answers
    import networks
    import reference
except ModuleNotFoundError as missing:
    raise unittest.SkipTest(f"{missing}; run it with .demo/venv/bin/python") from missing

HERE = Path(__file__).resolve().parent


def runner(build):
    model = build(np.random.default_rng(7))
    onnx.checker.check_model(model, full_check=True)
    return reference.runner(model.SerializeToString())


def images(rows):
    rng = np.random.default_rng(1)
    centres = rng.normal(0, 1, (rows, 3, 1, 1))
    return (centres + rng.normal(0, 1, (rows, *networks.IMAGE))).astype(np.float32)


class Networks(unittest.TestCase):
    def answers(self, build, rows=2):
        """The answers to a batch, which are those to each image alone."""
        run = runner(build)
        whole = run(images(rows))
        alone = [run(image[None]) for image in images(rows)]
        np.testing.assert_allclose(whole, np.concatenate(alone), rtol=1e-3, atol=1e-6)
        return whole

    def test_classifiers_give_shares_that_differ(self):
        for build in (networks.resnet18, networks.resnet50):
            shares = self.answers(build)
            self.assertEqual(shares.shape, (2, networks.CLASSES))
            np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-3)
            self.assertTrue(answers.are_told_apart(list(shares)), build)

    def test_a_box_lies_in_its_image_in_64ths(self):
        boxes = self.answers(networks.finder)
        self.assertEqual(boxes.shape, (2, 1, 4))
        np.testing.assert_array_equal(boxes * 64, np.round(boxes * 64))
        left, top, right, bottom = boxes.reshape(-1, 4).T
        for low, high in ((left, right), (top, bottom)):
            self.assertTrue((0 <= low).all() and (low <= 0.25).all() and (0.75 <= high).all() and (high <= 1).all())

    def test_the_same_seed_gives_the_same_model(self):
        first, second = (networks.resnet18(np.random.default_rng(3)).SerializeToString() for _ in range(2))
        self.assertEqual(first, second)


class Answers(unittest.TestCase):
    def test_answers_that_are_alike_or_not_finite_are_refused(self):
        alike = [np.full((1, 3), 0.5, np.float32), np.full((1, 3), 0.501, np.float32)]
        self.assertFalse(answers.are_told_apart(alike))
        self.assertFalse(answers.are_told_apart([alike[0], np.full((1, 3), np.nan, np.float32)]))
        self.assertTrue(answers.are_told_apart([np.zeros((2, 2), np.uint8), np.full((2, 2), 9, np.uint8)]))

    def test_a_part_is_cut_at_whole_pixels(self):
        pixels = np.arange(4 * 8 * 3).reshape(4, 8, 3)
        part = answers.part_of(pixels, (0.25, 0.25, 0.75, 1.0))
        np.testing.assert_array_equal(part, pixels[1:4, 2:6])

    def test_every_request_is_of_a_pipeline_of_the_configuration(self):
        pipelines = tomllib.loads((HERE / "r4.toml").read_text())["pipelines"]
        for name in answers.PIPELINES:
            self.assertEqual(pipelines[name]["outputs"], ["y"], name)
            more = {"boxes": answers.tensor(np.zeros((1, 1, 4)))} if name == "classify" else {}
            inputs = answers.request(name, "china.jpg", **more)["inputs"]
            self.assertEqual(set(inputs), set(pipelines[name]["inputs"]), name)


if __name__ == "__main__":
    unittest.main()
