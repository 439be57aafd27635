#!/usr/bin/env python3
"""Rows a second of a model of ort_models.py, on the last line: ort_load.py WAY MODEL [SECONDS].

    bare       ONNX Runtime's own interface: one thread runs one full batch after the other, which lie ready
    pipeline   the same batch size by millpond.Pipeline with one instance: twice as many threads as a batch has rows, one row a call
    one-core   the same with the threads that call on the core of the model
    bare-two   two threads that each run batches by a session of their own
    two        millpond.Pipeline with two instances and batches that may wait 5 ms, twice as many threads as their batches have rows: report R4's row

All of them load the same library, with one thread in a session. The bare loop of one thread has core 0; what is not said to have a core has
all of them: the threads that call a pipeline work beside the model. Every answer is compared with the expected one after the clock has stopped. What a figure rests on (rows
and time of a batch) goes to standard error.
"""

import os
import pathlib
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from local import BUILT, DEADLINE_MS, package

FOLDER = BUILT / "bench-models"
# Rows of a batch by model.
BATCH = {"dense": 8, "resnet18": 4, "resnet50": 4}
# The bars are about batches that take so long at least.
BATCH_S_MIN = 0.005
# Of an answer, and of shares that are next to nothing: batches of other sizes add in another order.
TOLERANCE, NOTHING = 1e-3, 1e-6
CORE = 0
# Report R4's "2 instances, max batch 4, 5 ms".
DELAY_US = 5_000


def same(answer, expected, times=1) -> bool:
    """Whether answers are equal within `times` the tolerance."""
    return np.allclose(answer, expected, rtol=times * TOLERANCE, atol=times * NOTHING)


def read(model: str):
    """The model's file, its inputs [ROWS, ...] and what is expected of them [ROWS, 1000]."""
    files = [FOLDER / f"{model}.{end}" for end in ("onnx", "inputs.npy", "expected.npy")]
    for file in files:
        if not file.is_file():
            sys.exit(f"{file} is not there; make it with .demo/venv/bin/python benches/scenarios/ort_models.py")
    return files[0], np.load(files[1]), np.load(files[2])


def bare(file, inputs, expected, batch: int, seconds: float, instances: int = 1) -> float:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    sessions = [onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"]) for _ in range(instances)]
    name = sessions[0].get_inputs()[0].name
    places = [slice(at, at + batch) for at in range(0, len(inputs), batch)]
    batches = [{name: np.ascontiguousarray(inputs[place])} for place in places]
    for session in sessions:
        for fed in batches:
            session.run(None, fed)
    started = time.perf_counter()

    def loop(session) -> tuple[list, float]:
        answers: list = []
        while (now := time.perf_counter()) < started + seconds:
            answers.append(session.run(None, batches[len(answers) % len(batches)])[0])
        return answers, now - started

    with ThreadPoolExecutor(instances) as threads:
        loops = list(threads.map(loop, sessions))
    for answers, took in loops:
        for number, answer in enumerate(answers):
            check(answer, expected[places[number % len(places)]], f"batch {number}")
        if took / len(answers) < BATCH_S_MIN:
            sys.exit(f"a batch of {batch} takes {took / len(answers) * 1e3:.2f} ms, and the bar is about {BATCH_S_MIN * 1e3:.0f} and more; raise BATCH")
        print(f"batches of {batch}, {took / len(answers) * 1e3:.2f} ms each", file=sys.stderr)
    return sum(batch * len(answers) / took for answers, took in loops)


def pipeline(file, inputs, expected, batch: int, seconds: float, instances: int = 1, delay_us: int = 0) -> float:
    import onnxruntime

    package()
    import millpond

    # What the bare loop loads.
    library = pathlib.Path(onnxruntime.__file__).parent / "capi"
    model = {"path": str(file), "threads": 1, "instances": instances, "batch_size_max": batch, "warm_up": [batch], "batch_delay_us_max": delay_us}
    stages = {"y": {"model": {"model": "bench"}}}
    pipe = millpond.Pipeline({"onnxruntime": {"library": str(library)}, "models": {"bench": model}, "stages": stages})
    rows = [np.ascontiguousarray(row[None]) for row in inputs]
    callers = 2 * batch * instances
    answers: list[list] = [[] for _ in range(callers)]
    begin, end = threading.Barrier(callers + 1), [float("inf")]

    def ask(caller: int) -> None:
        own = answers[caller]
        begin.wait()
        while time.perf_counter() < end[0]:
            at = (caller + len(own) * callers) % len(rows)
            own.append((at, pipe({"data": rows[at]}, deadline_ms=DEADLINE_MS)["y"]))

    for at, row in enumerate(rows):
        check(pipe({"data": row})["y"], expected[at : at + 1], f"row {at}")
    before = pipe.stats()["models"]["bench"]
    threads = [threading.Thread(target=ask, args=(caller,)) for caller in range(callers)]
    for thread in threads:
        thread.start()
    started = time.perf_counter()
    end[0] = started + seconds
    begin.wait()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - started
    after = pipe.stats()["models"]["bench"]
    done, runs = (after[key] - before[key] for key in ("rows", "batches"))
    if done != sum(map(len, answers)):
        sys.exit(f"the model ran {done} rows for {sum(map(len, answers))} answers: a call failed, or was run twice")
    for at, answer in sum(answers, []):
        check(answer, expected[at : at + 1], f"row {at}")
    print(f"{done / runs:.2f} rows a batch, {took / runs * 1e3:.2f} ms each", file=sys.stderr)
    return done / took


def check(answer, expected, what: str) -> None:
    if answer.shape != expected.shape or not same(answer, expected):
        sys.exit(f"{what}: the answer, of shape {answer.shape}, is not the expected one, of shape {expected.shape}")


# What runs, and whether all of it has one core.
WAYS = {
    "bare": (bare, True),
    "pipeline": (pipeline, False),
    "one-core": (pipeline, True),
    "bare-two": (partial(bare, instances=2), False),
    "two": (partial(pipeline, instances=2, delay_us=DELAY_US), False),
}


def main() -> None:
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in WAYS or sys.argv[2] not in BATCH:
        sys.exit(f"usage: ort_load.py {'|'.join(WAYS)} {'|'.join(BATCH)} [SECONDS]")
    run, has_one_core = WAYS[sys.argv[1]]
    model, seconds = sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 8.0
    if has_one_core:
        os.sched_setaffinity(0, {CORE})
    print(run(*read(model), BATCH[model], seconds))


if __name__ == "__main__":
    main()
