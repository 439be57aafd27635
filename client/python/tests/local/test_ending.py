"""The end of a program while threads are in its pipelines: no crash, and no word of it."""

import unittest

from package import PACKAGE  # noqa: F401, it finds the package
from test_pipelines import run

# Each of them can crash only where its threads want the interpreter at a bad moment.
TRIES = 8
CALLED = """
import sys, threading, time
import millpond

@millpond.backend(instances=2)
def function(batch):
    time.sleep(0.001)
    return batch

@millpond.backend
def quick(batch):
    return batch

@millpond.backend(instances=2)
class Object:
    def __call__(self, batch):
        return batch

pipe = millpond.Pipeline({"stages": {"it": {"backend": globals()[BACKEND]}}})
called = threading.Semaphore(0)

def call(by):
    while True:
        by({"data": b"x"})
        called.release()

for by in (pipe, lambda inputs: pipe.submit(inputs).result()) * 3:
    threading.Thread(target=call, args=(by,), daemon=True).start()
for _ in range(100):
    called.acquire()
"""


class Ending(unittest.TestCase):
    def test_daemon_threads_that_call(self):
        for backend in ("function", "quick", "Object"):
            for _ in range(TRIES):
                with self.subTest(backend):
                    self.assertEqual(run(f"BACKEND = {backend!r}\n{CALLED}"), ("", 0))

    def test_submitted_calls_that_nobody_waits_for(self):
        script = """
            import time
            import millpond
            @millpond.backend(instances=2)
            def count(batch):
                for _ in range(100):
                    time.sleep(0.0001)
                return batch
            pipe = millpond.Pipeline({"stages": {"it": {"backend": count}}})
            for _ in range(50):
                pipe.submit({"data": 1})
            """
        for _ in range(TRIES):
            self.assertEqual(run(script), ("", 0))

    def test_a_backend_that_calls_another_pipeline_comes_out(self):
        found, status = run(
            """
            import threading, time
            import millpond
            entered = threading.Event()
            @millpond.backend
            def slow(batch):
                entered.set()
                time.sleep(0.3)
                return batch
            @millpond.backend
            def outer(batch):
                inner({"data": 1})
                print("out")
                return batch
            inner = millpond.Pipeline({"stages": {"it": {"backend": slow}}})
            pipe = millpond.Pipeline({"stages": {"it": {"backend": outer}}})
            pipe.submit({"data": 1})
            entered.wait()
            """
        )
        self.assertEqual((found, status), ("out\n", 0))

    def test_what_runs_at_the_end_may_call(self):
        found, status = run(
            """
            import atexit, millpond
            @millpond.backend
            def echo(batch):
                return batch
            pipe = millpond.Pipeline({"stages": {"it": {"backend": echo}}})
            atexit.register(lambda: print(pipe({"data": 1})))
            """
        )
        self.assertEqual((found, status), ("{'it': 1}\n", 0))


if __name__ == "__main__":
    unittest.main()
