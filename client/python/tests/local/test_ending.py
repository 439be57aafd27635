"""The end of a program while threads are in its pipelines: no crash, and no word of it."""

import textwrap
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

    def test_older_exit_handlers_may_wait_for_threads_that_call(self):
        script = """
            import atexit, threading
            stop, threads = threading.Event(), []
            def end():
                stop.set()
                for thread in threads:
                    thread.join()
                print("joined")
            if IS_OLDER:
                atexit.register(end)
            import millpond
            if not IS_OLDER:
                atexit.register(end)
            @millpond.backend
            def function(batch):
                return batch
            @millpond.backend
            class Object:
                def __call__(self, batch):
                    return batch
            called = threading.Semaphore(0)
            def work(backend):
                pipe = millpond.Pipeline({"stages": {"it": {"backend": backend}}})
                with pipe:
                    while not stop.is_set():
                        pipe({"data": 1})
                        called.release()
            for backend in (function, Object):
                threads.append(threading.Thread(target=work, args=(backend,), daemon=True))
                threads[-1].start()
            for _ in range(100):
                called.acquire()
            """
        for is_older in (True, False):
            with self.subTest(is_older=is_older):
                self.assertEqual(run(f"IS_OLDER = {is_older}\n" + textwrap.dedent(script)), ("joined\n", 0))

    def test_older_exit_handlers_may_call(self):
        found, status = run(
            """
            import atexit
            def end():
                print(pipe({"data": 1}), pipe.submit({"data": 2}).result(10), pipe([{"data": 3}]))
            atexit.register(end)
            import millpond
            @millpond.backend
            class Echo:
                def __call__(self, batch):
                    return batch
            pipe = millpond.Pipeline({"stages": {"it": {"backend": Echo}}})
            # Some versions of Python start no thread while handlers run, and this call starts the one that delivers answers.
            pipe.submit({"data": 0}).result()
            """
        )
        self.assertEqual((found, status), ("{'it': 1} {'it': 2} [{'it': 3}]\n", 0))

    def test_older_exit_handlers_may_take_a_lock_that_is_held_around_calls(self):
        script = """
            import atexit, threading, time
            lock = threading.Lock()
            def end():
                with lock:
                    print("taken")
            atexit.register(end)
            import millpond
            @millpond.backend
            class Echo:
                def __call__(self, batch):
                    return batch
            pipe = millpond.Pipeline({"stages": {"it": {"backend": Echo}}})
            called = threading.Semaphore(0)
            def work():
                while True:
                    with lock:
                        pipe({"data": 1})
                    called.release()
                    time.sleep(0.0001)
            threading.Thread(target=work, daemon=True).start()
            for _ in range(20):
                called.acquire()
            """
        for _ in range(TRIES):
            self.assertEqual(run(script), ("taken\n", 0))

    def test_the_end_waits_for_backends_after_all_exit_handlers(self):
        found, status = run(
            """
            import atexit, time
            atexit.register(lambda: print("older"))
            import millpond
            @millpond.backend
            def slow(batch):
                time.sleep(0.5)
                print("out")
                return batch
            pipe = millpond.Pipeline({"stages": {"it": {"backend": slow}}})
            pipe.submit({"data": 1})
            time.sleep(0.1)
            """
        )
        self.assertEqual((found, status), ("older\nout\n", 0))


if __name__ == "__main__":
    unittest.main()
