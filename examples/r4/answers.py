"""Draws the models of report R4, and writes requests with what OpenCV and ONNX Runtime answer to them.

    .demo/r4/venv/bin/python examples/r4/answers.py WORK

A pipeline of r4.toml has NAME.jsonl and NAME.expected.jsonl, a line a photograph. The same seed and the same packages give the same files.
Run by make_r4.py, which makes the environment and fetches the photographs.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from networks import finder, resnet18, resnet50
from reference import pixels_of, runner, x_of
from stamp import Stamp, digest_files

HERE = Path(__file__).resolve().parent
SEED = 20261125
# Of the scenarios: shares that decoders and resizers of other makers change by less.
TOLERANCE = 0.002
PHOTOGRAPHS = ("china.jpg", "flower.jpg")
MODELS = {"resnet18": resnet18, "resnet50": resnet50, "finder": finder}
# The pipelines of r4.toml that answer with the shares of one model, by that model.
CLASSIFIERS = {"resnet50_1": "resnet50", "resnet50_4": "resnet50", "resnet18": "resnet18"}
PIPELINES = ("decode", *CLASSIFIERS, "find", "classify", "chain")
OUTPUTS = (
    *(f"{name}.onnx" for name in MODELS),
    *(f"{name}{end}" for name in PIPELINES for end in (".jsonl", ".expected.jsonl")),
    "r4.toml",
)


def part_of(pixels, box):
    """The pixels in a box of left, top, right and bottom, in sides of the image."""
    height, width, _ = pixels.shape
    left, top, right, bottom = (int(np.floor(float(at) * side + 0.5)) for at, side in zip(box, (width, height, width, height)))
    return pixels[top:bottom, left:right]


def are_told_apart(answers):
    """Whether the answers to different photographs are finite, and differ by far more than r4-decode.toml and r4-resnet.toml let pass."""
    scale = 255 if answers[0].dtype == np.uint8 else 1
    first, second = (answer.astype(np.float64).ravel() / scale for answer in answers)
    return np.isfinite(first + second).all() and abs(first - second).max() > 10 * TOLERANCE


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def request(pipeline, photograph, **more):
    """A call of `run`; the file stands for its bytes."""
    return {"pipeline": pipeline, "inputs": {"jpeg": {"$file": photograph}, **more}}


def tensor(array):
    return {"shape": list(array.shape), "type": "f32", "data": [float(number) for number in array.ravel()]}


def draw_models(work):
    """Writes the models; gives what runs each for one input."""
    runs = {}
    for name, build in MODELS.items():
        print(f"drawing {name}", flush=True)
        model = build(np.random.default_rng(SEED))
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, work / f"{name}.onnx")
        runs[name] = runner(work / f"{name}.onnx")
    return runs


def answer(work, runs):
    """Writes requests and answers."""
    requests = {name: [] for name in PIPELINES}
    answers = {name: [] for name in PIPELINES}
    for photograph in PHOTOGRAPHS:
        path = work / photograph
        pixels = pixels_of(path.read_bytes())
        x = x_of(pixels)
        answers["decode"].append(pixels)
        for name, model in CLASSIFIERS.items():
            answers[name].append(runs[model](x))
        box = runs["finder"](x)
        answers["find"].append(box)
        for name in ("classify", "chain"):
            answers[name].append(runs["resnet50"](x_of(part_of(pixels, box[0, 0]))))
        for name in PIPELINES:
            more = {"boxes": tensor(box)} if name == "classify" else {}
            requests[name].append(request(name, str(path), **more))
    for name, rows in answers.items():
        if not are_told_apart(rows):
            sys.exit(f"{name}: the answers are not finite, or cannot be told from each other")
        numbers = [row.ravel().tolist() for row in rows]
        write_lines(work / f"{name}.jsonl", requests[name])
        write_lines(work / f"{name}.expected.jsonl", ({"outputs": {"y": row}} for row in numbers))


def main():
    work = Path(sys.argv[1])
    sources = [HERE / name for name in ("answers.py", "networks.py", "reference.py", "r4.toml")]
    versions = {package.__name__: package.__version__ for package in (np, onnx, onnxruntime)}
    stamp = Stamp(work, digest_files(sources) | versions | {"work": str(work)}, OUTPUTS)
    if stamp.is_current():
        return
    stamp.forget()
    answer(work, draw_models(work))
    shutil.copyfile(HERE / "r4.toml", work / "r4.toml")
    stamp.write()


if __name__ == "__main__":
    main()
