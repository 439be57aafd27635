"""What the programs of report R4's images share: photographs, settings of models, and whether an answer is right. examples/r4/make_r4.py makes the files.

Each caller calls with one photograph after the other. What is expected is what r4-decode.toml and r4-resnet.toml hold press's own rows against.
"""

import itertools
import json
import pathlib
import sys
import tomllib

import callers

FOLDER = pathlib.Path(".demo/r4")
# Of 255 for samples of images, else of shares, as in the scenarios.
DECODE_TOLERANCE, TOLERANCE = 4.0, 0.002
# An image has 819,840 samples, and reading them takes as long as decoding: one answer of so many is compared, which is odd so that
# it is not always the same photograph's.
IMAGES_A_LOOK = 19


def photographs():
    """The bytes of the files that requests name."""
    requests = map(json.loads, (FOLDER / "decode.jsonl").open())
    return [pathlib.Path(request["inputs"]["jpeg"]["$file"]).read_bytes() for request in requests]


def configuration():
    return tomllib.loads((FOLDER / "r4.toml").read_text())


def settings():
    """Millpond's own: file, instances, batch_size_max and batch_delay_us_max of each model, by its name."""
    models = configuration()["models"]
    return {name: {"batch_delay_us_max": 0} | model | {"path": FOLDER / model["path"]} for name, model in models.items()}


def pipelines(*names):
    return {name: configuration()["pipelines"][name] for name in names}


def run(name, caller_of):
    """Serves press with callers of a pipeline of r4.toml; `caller_of` opens what one of them needs and gives its call: from a photograph to numbers."""
    import numpy

    is_image = name == "decode"
    tolerance, every = (DECODE_TOLERANCE, IMAGES_A_LOOK) if is_image else (TOLERANCE, 1)
    lines = map(json.loads, (FOLDER / f"{name}.expected.jsonl").open())
    expected = [numpy.array(line["outputs"]["y"], numpy.int16 if is_image else numpy.float32) for line in lines]

    def check(found, at):
        found = numpy.asarray(found).ravel()
        if found.shape != expected[at].shape:
            raise callers.Wrong(f"photograph {at}: found {found.size} numbers, expected {expected[at].size}")
        # So written, a NaN is wrong as well.
        if not (off := abs(found - expected[at]).max()) <= tolerance:
            raise callers.Wrong(f"photograph {at}: a number is off by {off}, expected at most {tolerance}")

    in_turns(caller_of, check, every)


def run_alone(caller_of):
    """The same of a call that gives the bytes back."""
    sent = photographs()
    in_turns(caller_of, lambda found, at: callers.expect(found == sent[at], True))


def in_turns(caller_of, check, every=1):
    sent = photographs()

    def make(caller):
        call, numbers = caller_of(), itertools.count(caller)

        def one():
            number = next(numbers)
            at = number % len(sent)
            found = call(sent[at])
            if number % every == 0:
                check(found, at)

        return one

    callers.run(make)


def reference():
    """The module of the example that decodes, resizes and classifies by OpenCV and ONNX Runtime, with one thread each."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/r4"))
    import reference

    return reference


def classifier(model):
    """A function from photographs to the shares of their classes [photographs, 1000], which runs the model once for all."""
    import numpy

    by = reference()
    run_model = by.runner(settings()[model]["path"])
    return lambda jpegs: run_model(numpy.concatenate([by.x_of(by.pixels_of(jpeg)) for jpeg in jpegs]))
