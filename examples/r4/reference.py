"""What OpenCV and ONNX Runtime make of a photograph. Each works with one thread; both are loaded when they are first used. Needs numpy."""

import numpy as np

# Of what a model takes.
SIDE = 224
# What photographs are normalised by, of the sides of 0 to 1.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def pixels_of(jpeg):
    """The pixels [height, width, 3] of a photograph, red first."""
    import cv2

    cv2.setNumThreads(1)
    return cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR_RGB)


def x_of(pixels):
    """The model's input [1, 3, 224, 224] for pixels [height, width, 3], red first."""
    import cv2

    small = cv2.resize(pixels, (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
    scaled = (small.astype(np.float32) / 255 - np.float32(MEAN)) / np.float32(STD)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1))[None]


def runner(file):
    """What runs the model of a file, or the model itself as bytes: from its only input to its first output."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    (x,) = session.get_inputs()
    return lambda value: session.run(None, {x.name: value})[0]
