"""What rapidocr, OpenCV and ONNX Runtime say of a page, with nothing of Millpond.

    .demo/ocr/venv/bin/python examples/ocr/reference.py FOLDER <BOXES

It reads boxes from standard input, [texts, 4, 2] as JSON, corners in pixels from the top left one on, clockwise, and prints as JSON:
`boxes`, those that rapidocr finds in FOLDER/page.png, and `angles`, [texts, 2], the probabilities that FOLDER/angles.onnx gives 0 and 180
degrees for what the boxes of the input cut out. `test_ocr.py` compares the example with both.
"""

import json
import sys
from pathlib import Path

import cv2
import numpy as np
import onnxruntime
from rapidocr_onnxruntime import RapidOCR

# Width and height that the classifier of angles takes, in OpenCV's order.
STRIP = (192, 48)


def strip_of(part):
    """A text that was cut out as the classifier takes it: f32[3, 48, 192], from -1 to 1."""
    scaled = cv2.resize(part, STRIP).astype(np.float32)
    return ((scaled / 255 - 0.5) / 0.5).transpose(2, 0, 1)


def main():
    folder, given = Path(sys.argv[1]), np.array(json.load(sys.stdin), np.float32)
    page = cv2.imread(str(folder / "page.png"))
    engine = RapidOCR()
    boxes, _ = engine.text_det(page)
    strips = np.stack([strip_of(part) for part in engine.get_crop_img_list(page, given)])
    session = onnxruntime.InferenceSession(str(folder / "angles.onnx"), providers=["CPUExecutionProvider"])
    (angles,) = session.run(None, {session.get_inputs()[0].name: strips})
    json.dump({"boxes": boxes.tolist(), "angles": angles.tolist()}, sys.stdout)


if __name__ == "__main__":
    main()
