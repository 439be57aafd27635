"""The texts of a page against what rapidocr, OpenCV and ONNX Runtime say of it. Needs what fetch_models.py fetches."""

import json
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "client" / "python"))

import numpy as np  # noqa: E402

import millpond  # noqa: E402

FOLDER = ROOT / ".demo" / "ocr"
REFERENCE = FOLDER / "venv" / "bin" / "python"
TIMEOUT_S = 300
# Pixels of the page. rapidocr gives whole ones, and a pixel of the detector's map is a quarter of one.
CORNER_DIFFERENCE_MAX = 1.0
# Samples of parts and strips differ by up to 4 of 255 (docs/images.md), which moves doubtful probabilities most.
ANGLE_DIFFERENCE_MAX = 0.02


class Ocr(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        missing = [str(path) for path in (REFERENCE, FOLDER / "page.png") if not path.exists()]
        if missing:
            raise unittest.SkipTest(f"no {missing[0]}; run python3 examples/ocr/fetch_models.py")
        cls.page = (FOLDER / "page.png").read_bytes()
        configuration = FOLDER / "ocr.toml"
        configuration.write_text((HERE / "ocr.toml").read_text())
        cls.pipe = cls.enterClassContext(millpond.Pipeline(configuration))
        cls.found = cls.pipe({"page": cls.page})
        boxes = json.dumps(cls.found["boxes"].tolist())
        said = subprocess.run(
            [REFERENCE, HERE / "reference.py", FOLDER], input=boxes, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        if said.returncode:
            raise AssertionError(said.stderr)
        cls.reference = {name: np.array(value) for name, value in json.loads(said.stdout).items()}

    def test_the_boxes_are_those_of_rapidocr(self):
        # From the top of the page to its bottom.
        found, expected = (boxes[np.argsort(boxes[:, 0, 1])] for boxes in (self.found["boxes"], self.reference["boxes"]))
        self.assertEqual((found.shape, len(found) > 0), (expected.shape, True))
        np.testing.assert_allclose(found, expected, rtol=0, atol=CORNER_DIFFERENCE_MAX)

    def test_the_angles_are_those_of_onnx_runtime(self):
        np.testing.assert_allclose(self.found["angles"], self.reference["angles"], rtol=0, atol=ANGLE_DIFFERENCE_MAX)

    def test_pages_that_come_together_are_answered_as_alone(self):
        for answer in self.pipe([{"page": self.page}] * 3):
            np.testing.assert_array_equal(answer["boxes"], self.found["boxes"])
            np.testing.assert_allclose(answer["angles"], self.found["angles"], rtol=0, atol=1e-5)

    def test_a_page_that_is_no_image_is_named(self):
        with self.assertRaisesRegex(millpond.InputError, 'stage "page"'):
            self.pipe({"page": b"no image"})


if __name__ == "__main__":
    unittest.main()
