#!/usr/bin/env python3
"""One figure of local calls, on the last line: local.py CASE CLIENTS [SECONDS]. Or so many calls and no figure: local.py CASE calls COUNT. Or the
package alone, for another scenario: local.py package.

    hello-native, hello-python, two-stages   calls a second of millpond.Pipeline: bytes in, the same bytes out
    peer-native, peer-python                 the same of omniback's pipe
    batch                                    the median of a call in milliseconds; batches of up to 4, which may wait 10 ms to fill
    returning, returning-p50                 calls a second, and their median in milliseconds, of a model of 2 ms and 0.1 ms a row, four rows a run
    interpreter                              calls a second of a function of Python's, to show what the interpreter itself gives ten threads
    decode, peer-decode                      images a second: scikit-learn's china.jpg to blue, green, red; cv2.imdecode

It measures one case in one process, threads of Python as clients. The peer's package is installed into an environment of its own.
"""

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILT = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PEERS = ["omniback==0.2.24", "opencv-python-headless==5.0.0.93"]
# For its picture alone.
PICTURES = "scikit-learn==1.9.1"
DATA = b"hello"
# Every call has one, as those of the models in ort_load.py.
DEADLINE_MS = 10_000
# How many calls go by between two looks at the clock, where calls are counted.
CALLS_A_LOOK = 16


def package() -> None:
    """The package with the release build of its native half, apart from the one that tests use."""
    copy = BUILT / "bench-python"
    native = BUILT / "release" / "libmillpond_native.so"
    if not native.is_file():
        sys.exit(f"{native} is not there; build it with `cargo build --release -p millpond-client-python`")
    shutil.copytree(ROOT / "client/python/millpond", copy / "millpond", dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copyfile(native, copy / "millpond/_native.abi3.so")
    sys.path.insert(0, str(copy))


def peers() -> pathlib.Path:
    """The environment of the peers, made once."""
    folder, wanted = BUILT / "bench-peers", "\n".join([*PEERS, PICTURES])
    installed = folder / "installed"
    if not (installed.is_file() and installed.read_text() == wanted):
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        install = [folder / "bin/python", "-m", "pip", "install", "--quiet"]
        subprocess.run([*install, *PEERS], check=True)
        subprocess.run([*install, "--no-deps", PICTURES], check=True)
        installed.write_text(wanted)
    return folder


def in_peers() -> None:
    """Goes on in the peers' environment."""
    python = peers() / "bin/python"
    if pathlib.Path(sys.prefix).resolve() != (BUILT / "bench-peers").resolve():
        os.execv(python, [str(python), *sys.argv])


def picture() -> bytes:
    """A photograph of 640 x 427 pixels."""
    found = list((BUILT / "bench-peers").glob("lib/python*/site-packages/sklearn/datasets/images/china.jpg"))
    return found[0].read_bytes()


def ours(case: str):
    package()
    import millpond

    @millpond.backend
    def echo(batch):
        return batch

    native = {"identity": {}, "instances": 1}
    row = memoryview(bytearray(4)).cast("f", [1, 1])
    model = {"backend": "practice", "behaviour": "wait", "us": 0, "batch_size_max": 4, "batch_delay_us_max": 10_000}
    returning = {"backend": "practice", "behaviour": "wait", "us": 2000, "us_per_row": 100, "batch_size_max": 4, "instances": 1}
    if case == "decode":
        peers()
    config, data = {
        "hello-native": ({"stages": {"echo": native}}, DATA),
        "hello-python": ({"stages": {"echo": {"backend": echo, "batch_size_max": 4}}}, DATA),
        "two-stages": ({"stages": [{"name": "first", **native}, {"name": "echo", **native}]}, DATA),
        "batch": ({"models": {"sum": model}, "stages": {"echo": {"model": {"model": "sum"}}}}, row),
        "returning": ({"models": {"sum": returning}, "stages": {"echo": {"model": {"model": "sum"}}}}, row),
        "decode": ({"stages": {"echo": {"decode": {"color": "bgr"}, "instances": 1}}}, picture() if case == "decode" else b""),
    }[case.removesuffix("-p50")]
    pipe = millpond.Pipeline(config)
    if case != "decode":
        assert bytes(pipe({"data": data})["echo"]) == bytes(data)

    def call():
        pipe({"data": data}, deadline_ms=DEADLINE_MS)

    return call


def interpreters():
    """Some microseconds of Python."""
    def call():
        total = 0
        for number in range(60):
            total += number
        return total

    return call


def theirs(case: str):
    in_peers()
    if case == "peer-decode":
        import cv2
        import numpy

        cv2.setNumThreads(1)
        data = numpy.frombuffer(picture(), numpy.uint8)
        return lambda: cv2.imdecode(data, cv2.IMREAD_COLOR)
    import omniback

    class Echo:
        def init(self, parameters, options):
            pass

        def forward(self, requests):
            for request in requests:
                request["result"] = request["data"]

        def max(self):
            return 4

    omniback.register("Echo", Echo)
    pipe = omniback.pipe({"echo": {"backend": "Echo" if case == "peer-python" else "Identity"}})
    request = {"data": DATA}
    pipe(request)
    assert request["result"] == DATA

    def call():
        pipe({"data": DATA})

    return call


def main() -> None:
    case = sys.argv[1]
    if case == "package":
        package()
        return
    if sys.argv[2] == "calls":
        call = ours(case)
        for _ in range(int(sys.argv[3])):
            call()
        return
    clients = int(sys.argv[2])
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 3.0
    call = interpreters() if case == "interpreter" else (theirs if case.startswith("peer") else ours)(case)
    took: list[list[float]] = [[] for _ in range(clients)]
    counts = [0] * clients
    begin, end = threading.Barrier(clients + 1), [float("inf")]

    def count(client: int) -> None:
        begin.wait()
        done, until = 0, end[0]
        while time.perf_counter() < until:
            for _ in range(CALLS_A_LOOK):
                call()
            done += CALLS_A_LOOK
        counts[client] = done

    def clock(client: int) -> None:
        begin.wait()
        own, until = took[client], end[0]
        while (before := time.perf_counter()) < until:
            call()
            own.append(time.perf_counter() - before)

    is_timed = case == "batch" or case.endswith("-p50")
    warm = time.perf_counter() + 0.5
    while time.perf_counter() < warm:
        call()
    threads = [threading.Thread(target=clock if is_timed else count, args=(at,)) for at in range(clients)]
    for thread in threads:
        thread.start()
    started = time.perf_counter()
    end[0] = started + seconds
    begin.wait()
    for thread in threads:
        thread.join()
    if is_timed:
        print(statistics.median(sum(took, [])) * 1e3)
    else:
        if case.startswith("hello") and min(counts) < sum(counts) / clients / 10:
            sys.exit(f"{case}: threads had {counts} answers; expected a tenth of its share for each at least")
        print(sum(counts) / (time.perf_counter() - started))


if __name__ == "__main__":
    main()
