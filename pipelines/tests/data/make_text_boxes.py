"""Prints the boxes that rapidocr's post-processing finds in a map of four texts: the reference of numeric/text_boxes/tests.rs.

    pip install opencv-python-headless==5.0.0.93 pyclipper==1.4.0 shapely six rapidocr-onnxruntime==1.4.4
    python pipelines/tests/data/make_text_boxes.py

Not part of any build: what it printed stands in the test. Its invariant: the test makes the same map, by the same formula.
"""

import math

import numpy as np
from rapidocr_onnxruntime.ch_ppocr_det.utils import DBPostProcess

HEIGHT, WIDTH = 96, 160
# Of each text the middle, half its sides, its angle and its highest probability.
TEXTS = [(40, 16, 30, 5, 0.0, 1.0), (112, 40, 36, 6, 0.3, 0.95), (40, 66, 28, 4, -0.5, 0.9), (120, 82, 6, 5, 0.0, 0.55)]


def probabilities():
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float64)
    texts = np.zeros((HEIGHT, WIDTH))
    for middle_x, middle_y, long, high, angle, peak in TEXTS:
        u = (x - middle_x) * math.cos(angle) + (y - middle_y) * math.sin(angle)
        v = (y - middle_y) * math.cos(angle) - (x - middle_x) * math.sin(angle)
        behind = np.maximum(abs(u) - long, abs(v) - high)
        texts = np.maximum(texts, np.clip(0.5 - behind / 4, 0, 1) * peak)
    return texts.astype(np.float32)


for dilate in (False, True):
    found = DBPostProcess(thresh=0.3, box_thresh=0.5, unclip_ratio=1.6, use_dilation=dilate)
    boxes, scores = found(probabilities()[None, None], (2 * HEIGHT, 3 * WIDTH))
    print(dilate, boxes.tolist(), [round(float(score), 4) for score in scores])
