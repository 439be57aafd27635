"""Pipelines in this process: calls, threads, futures, errors, and what a backend may do wrong."""

import array
import asyncio
import concurrent.futures
import gc
import logging
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import weakref
from pathlib import Path

import numpy
from package import PACKAGE

import millpond

TIMEOUT_S = 60


@millpond.backend
def echo(batch):
    return batch


@millpond.backend
def shout(batch):
    return [text.upper() for text in batch]


@millpond.backend
def kinds(batch):
    return [repr(type(value).__name__) for value in batch]


def stage(backend, **keys):
    return {"stages": {"it": {"backend": backend, **keys}}}


def run(script):
    """What a process printed that ran it, and its status."""
    script = f"import sys; sys.path[:0] = [{str(PACKAGE)!r}]\n" + textwrap.dedent(script)
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=TIMEOUT_S)
    return found.stdout + found.stderr, found.returncode


class Local(unittest.TestCase):
    def pipe(self, config, **options):
        return self.enterContext(millpond.Pipeline(config, **options))

    def it(self, backend, **keys):
        """A function that calls a pipeline of that one stage."""
        pipe = self.pipe(stage(backend, **keys))
        return lambda data, **options: pipe({"data": data}, **options)["it"]


class Calls(Local):
    def test_values_come_back_as_they_went_in(self):
        call = self.it(echo)
        self.assertEqual(call("é"), "é".encode())
        for value in (b"\xff", [b"a", b"b"], [b"a"], 5, 1.5, True):
            with self.subTest(value):
                self.assertEqual(call(value), value)
                self.assertIs(type(call(value)), type(value))
        given = numpy.arange(6, dtype="float32").reshape(2, 3)
        found = call(given)
        self.assertTrue(numpy.shares_memory(found, given))
        numpy.testing.assert_array_equal(found, given)
        images = [numpy.zeros((2, 3), "uint8"), numpy.ones((4, 1), "uint8")]
        for found, given in zip(call(images), images, strict=True):
            self.assertTrue(numpy.shares_memory(found, given))
        numpy.testing.assert_array_equal(call(array.array("q", [1, 2])), [1, 2])
        self.assertEqual(self.it(kinds)(given), b"'ndarray'")

    def test_many_requests_at_once(self):
        pipe = self.pipe(stage(shout))
        self.assertEqual(pipe([{"data": "a"}, {"data": "b"}]), [{"it": b"A"}, {"it": b"B"}])
        self.assertEqual(pipe([]), [])
        with self.assertRaisesRegex(TypeError, r'inputs\[1\]\["data"\] is a set; expected an array'):
            pipe([{"data": "a"}, {"data": {1}}])

    def test_stages_follow_each_other(self):
        for stages in (
            {"it": {"backend": echo}, "shout": {"backend": shout, "next": ["it"]}},
            {"it": {"backend": echo, "from": "shout"}, "shout": {"backend": shout}},
            [{"name": "shout", "backend": shout}, {"name": "it", "backend": echo}],
        ):
            with self.subTest(stages):
                self.assertEqual(self.pipe({"stages": stages})({"data": "a"}), {"it": b"A"})

    def test_branches_and_filters(self):
        stages = {
            "loud": {"backend": shout},
            "same": {"backend": echo},
            "more": {"backend": echo, "from": "loud", "filter": {"skip": "loud.value == \"A\""}},
        }
        pipe = self.pipe({"stages": stages, "outputs": ["loud", "same", "more"]})
        self.assertEqual(pipe({"data": "b"}), {"loud": b"B", "same": b"b", "more": b"B"})
        self.assertEqual(pipe({"data": "a"}), {"loud": b"A", "same": b"a"})

    def test_several_inputs_by_name(self):
        @millpond.backend
        def joined(batch):
            return [request["right"] + request["left"] for request in batch]

        pipe = self.pipe(stage(joined, inputs={"left": "inputs.a", "right": "inputs.b"}))
        self.assertEqual(pipe({"a": "x", "b": "y"}), {"it": b"yx"})

    def test_models_and_lists_of_stages(self):
        config = {
            "models": {"shouting": {"backend": shout}, "sums": {"backend": "practice", "behaviour": "wait", "us": 1, "width": 3}},
            "stages": [
                {"name": "loud", "call": {"model": "shouting", "from": "inputs.text"}},
                {"name": "sums", "model": {"model": "sums", "input": "inputs.x"}},
            ],
            "outputs": ["loud", "sums"],
        }
        found = self.pipe(config)({"text": "a", "x": numpy.ones((2, 3), "float32")})
        self.assertEqual((found["loud"], found["sums"].tolist()), (b"A", [[3], [3]]))

    def test_a_file(self):
        text = """
            [models.sums]
            backend = "practice"
            behaviour = "wait"
            us = 1
            width = 2
            [pipelines.one]
            request = "values"
            stages = [{ name = "sums", model = { model = "sums", input = "inputs.x" } }]
            [pipelines.two]
            request = "values"
            stages = [{ name = "total", model = { model = "sums", input = "inputs.x" } }]
        """
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "millpond.toml"
            file.write_text(text, encoding="utf-8")
            with self.assertRaisesRegex(millpond.ConfigError, 'it has the pipelines \\["one", "two"\\]; say which by pipeline='):
                millpond.Pipeline(file)
            with self.assertRaisesRegex(millpond.ConfigError, 'there is no pipeline "three"'):
                millpond.Pipeline(str(file), pipeline="three")
            found = self.pipe(file, pipeline="two")({"x": numpy.ones((1, 2), "float32")})
        self.assertEqual(found["total"].tolist(), [[2]])
        with self.assertRaisesRegex(millpond.ConfigError, "nowhere.toml: cannot be read"):
            millpond.Pipeline("nowhere.toml")

    def test_a_class_has_an_object_for_each_instance(self):
        made = []

        @millpond.backend(instances=2)
        class Counting:
            def __init__(self):
                made.append(threading.get_ident())
                self.calls = 0

            def forward(self, batch):
                self.calls += len(batch)
                return [threading.get_ident() for _ in batch]

        call = self.it(Counting)
        self.assertEqual(len(set(made)), 2)
        self.assertIn(call(1), made)

    def test_a_class_that_cannot_be_made_says_why(self):
        @millpond.backend
        class Broken:
            def __init__(self):
                raise OSError("no weights")

            def __call__(self, batch):
                return batch

        with self.assertLogs("millpond", logging.ERROR), self.assertRaisesRegex(millpond.ConfigError, "OSError: no weights"):
            millpond.Pipeline(stage(Broken))

    def test_statistics_count(self):
        @millpond.backend
        def choosy(batch):
            return [ValueError("not 2") if item == 2 else item for item in batch]

        pipe = self.pipe(stage(choosy))
        pipe([{"data": 1}] * 3)
        stats = pipe.stats()
        self.assertEqual(stats["pipeline"], "pipeline")
        model = stats["models"]["it"]
        counts = {name: model[name] for name in ("accepted", "answered", "rows", "refused", "queue_full", "too_late", "standing")}
        self.assertEqual(counts, {"accepted": 3, "answered": 3, "rows": 3, "refused": 0, "queue_full": 0, "too_late": 0, "standing": 0})
        with self.assertRaises(millpond.ModelError):
            pipe({"data": 2})
        (counts,) = pipe.stats()["stages"].values()
        self.assertEqual((counts["answered"], counts["failed"], counts["skipped"]), (3, 1, 0))
        self.assertGreater(counts["work_s"], 0)
        self.assertGreaterEqual(counts["wait_s"], 0)

    def test_a_closed_pipeline_takes_no_calls(self):
        with millpond.Pipeline(stage(echo)) as pipe:
            pipe({"data": 1})
        pipe.close()
        for call in (pipe, pipe.submit):
            with self.assertRaisesRegex(millpond.ClosedError, 'pipeline "pipeline" was closed; make a new one'):
                call({"data": 1})

    def test_what_is_lent_is_given_back(self):
        call = self.it(echo)
        given = numpy.ones(3, "float32")
        gone = weakref.ref(given)
        for _ in range(3):
            call(given)
        del given
        gc.collect()
        call(1)  # What another thread let go is collected by a call.
        gc.collect()
        self.assertIsNone(gone())


class Threads(Local):
    def test_threads_share_a_pipeline(self):
        call = self.it(echo)

        def calls(thread):
            return [call(f"{thread} {n}") for n in range(200)]

        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            for thread, found in enumerate(threads.map(calls, range(8))):
                self.assertEqual(found, [f"{thread} {n}".encode() for n in range(200)])

    def test_short_calls_of_many_threads_take_turns(self):
        """The interpreter changes hands wherever it can, also inside of the backend."""
        inside, most, calls = [], [], 300

        @millpond.backend
        def echo(batch):
            inside.append(1)
            most.append(len(inside))
            inside.pop()
            return batch

        before = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, before)
        with millpond.Pipeline({"stages": {"echo": {"backend": echo}}}) as pipe:
            for _ in range(50):  # Calls that were short keep the interpreter.
                pipe({"data": 0})
            sys.setswitchinterval(1e-6)
            found = [[] for _ in range(10)]

            def ask(at):
                found[at] = [pipe({"data": at * calls + number})["echo"] for number in range(calls)]

            threads = [threading.Thread(target=ask, args=(at,)) for at in range(10)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(TIMEOUT_S)
            self.assertEqual(sum(found, []), list(range(10 * calls)))
            self.assertEqual(max(most), 1)

    def ran_meanwhile(self, call):
        """How often another thread has run during the call."""
        ticks, end = [], threading.Event()

        def tick():
            while not end.wait(0.001):
                ticks.append(1)

        thread = threading.Thread(target=tick)
        thread.start()
        try:
            before = len(ticks)
            call()
            return len(ticks) - before
        finally:
            end.set()
            thread.join()

    def test_a_call_with_more_to_work_on_than_short_ones_lets_the_interpreter_go(self):
        pipe = self.pipe({"stages": [{"name": "s", "softmax": {"from": "inputs.x"}}]})
        small, large = numpy.zeros((1, 4), "f4"), numpy.zeros((1000, 5000), "f4")
        for _ in range(2):
            for _ in range(300):
                pipe({"x": small})
            self.assertGreaterEqual(self.ran_meanwhile(lambda: pipe({"x": large})), 3)

    def test_calls_after_a_long_one_let_the_interpreter_go(self):
        """Calls that are refused are short, and bring as many bytes: nothing tells which call will be long."""
        pipe = self.pipe({"stages": [{"name": "s", "softmax": {"from": "inputs.x"}}]})
        large = numpy.zeros((1000, 5000), "f4")

        def short(times):
            for _ in range(times):
                with self.assertRaises(millpond.Error):
                    pipe({"x": large.view("i4")})

        short(300)
        pipe({"x": large})
        for _ in range(3):
            short(10)
            self.assertGreaterEqual(self.ran_meanwhile(lambda: pipe({"x": large})), 3)

    def test_a_backend_that_lets_the_interpreter_go_holds_nobody_up(self):
        """One thread is inside of a backend that waits; the other calls the same pipeline meanwhile, and gets its answer."""
        inside, go_on = threading.Event(), threading.Event()

        @millpond.backend(instances=2, batch_size_max=1)
        def waits(batch):
            if batch == [b"wait"]:
                inside.set()
                self.assertTrue(go_on.wait(TIMEOUT_S))
            return batch

        for calls in (0, 50):  # Calls that were short keep the interpreter.
            inside.clear(), go_on.clear()
            call = self.it(waits)
            for _ in range(calls):
                call("quick")
            with concurrent.futures.ThreadPoolExecutor(1) as threads:
                waiting = threads.submit(call, "wait")
                self.assertTrue(inside.wait(TIMEOUT_S))
                for _ in range(50):
                    self.assertEqual(call("quick"), b"quick")
                self.assertFalse(waiting.done())
                go_on.set()
                self.assertEqual(waiting.result(TIMEOUT_S), b"wait")

    def test_batches_hold_requests_of_several_threads(self):
        sizes, go_on = [], threading.Event()

        @millpond.backend(batch_size_max=4, inline_us_max=0)
        def sized(batch):
            sizes.append(len(batch))
            self.assertTrue(go_on.wait(TIMEOUT_S))
            return batch

        pipe = self.pipe(stage(sized))
        first = pipe.submit({"data": 0})
        while not sizes:
            time.sleep(0.001)
        others = [pipe.submit({"data": n}) for n in range(1, 7)]
        go_on.set()
        self.assertEqual([one.result(TIMEOUT_S)["it"] for one in [first, *others]], list(range(7)))
        self.assertEqual(sizes[:2], [1, 4])


class Futures(Local):
    def test_submitted_calls(self):
        pipe = self.pipe(stage(shout))
        futures = [pipe.submit({"data": f"a{n}"}) for n in range(20)]
        concurrent.futures.wait(futures, TIMEOUT_S)
        self.assertEqual([future.result()["it"] for future in futures], [f"A{n}".encode() for n in range(20)])
        called = threading.Event()
        pipe.submit({"data": "a"}).add_done_callback(lambda future: called.set())
        self.assertTrue(called.wait(TIMEOUT_S))
        with self.assertRaisesRegex(TypeError, "is a set"):
            pipe.submit({"data": {1}})

    def test_awaited_calls(self):
        pipe = self.pipe(stage(shout))

        async def main():
            many = await asyncio.gather(*(pipe.call_async({"data": f"a{n}"}) for n in range(20)))
            return many, await pipe.submit({"data": "b"})

        many, one = asyncio.run(main())
        self.assertEqual(many, [{"it": f"A{n}".encode()} for n in range(20)])
        self.assertEqual(one, {"it": b"B"})

    def test_a_cancelled_call_does_not_run(self):
        ran, inside, go_on = [], threading.Event(), threading.Event()

        @millpond.backend(batch_size_max=1, inline_us_max=0)
        def noted(batch):
            ran.extend(batch)
            inside.set()
            self.assertTrue(go_on.wait(TIMEOUT_S))
            return batch

        pipe = self.pipe(stage(noted))
        first = pipe.submit({"data": 1})
        self.assertTrue(inside.wait(TIMEOUT_S))
        second, third = pipe.submit({"data": 2}), pipe.submit({"data": 3})
        self.assertTrue(second.cancel())
        go_on.set()
        self.assertEqual((first.result(TIMEOUT_S), third.result(TIMEOUT_S)), ({"it": 1}, {"it": 3}))
        self.assertEqual(ran, [1, 3])
        self.assertTrue(second.cancelled())

    def test_a_deadline_passes(self):
        inside, go_on = threading.Event(), threading.Event()

        @millpond.backend(batch_size_max=1, inline_us_max=0)
        def slow(batch):
            inside.set()
            self.assertTrue(go_on.wait(TIMEOUT_S))
            return batch

        pipe = self.pipe(stage(slow))
        first = pipe.submit({"data": 1})
        self.assertTrue(inside.wait(TIMEOUT_S))
        late = pipe.submit({"data": 2}, deadline_ms=20)
        time.sleep(0.03)
        go_on.set()
        self.assertEqual(first.result(TIMEOUT_S), {"it": 1})
        with self.assertRaises(millpond.TimeoutError) as raised:
            late.result(TIMEOUT_S)
        self.assertEqual((raised.exception.deadline_ms, raised.exception.may_have_run), (20, False))

    def test_wrong_deadlines(self):
        pipe = self.pipe(stage(echo))
        for deadline_ms, kind, words in (
            ("5", TypeError, r"deadline_ms is '5', a str; expected milliseconds as a number, or None"),
            ([5] * 100, TypeError, r"deadline_ms is \[5, 5, .*…, a list; expected"),
            (float("nan"), ValueError, "deadline_ms is NaN; expected milliseconds, from 0 to 1.8e22"),
            (-1, ValueError, "deadline_ms is -1; expected milliseconds, from 0 to 1.8e22"),
            (1e30, ValueError, "deadline_ms is 1e30; expected milliseconds, from 0 to 1.8e22"),
            (10**400, ValueError, "deadline_ms is out of range; expected milliseconds, from 0 to 1.8e22"),
        ):
            calls = (pipe, pipe.submit, lambda *args, **named: asyncio.run(pipe.call_async(*args, **named)))
            for call in calls:
                with self.subTest(words), self.assertRaisesRegex(kind, words):
                    call({"data": 1}, deadline_ms=deadline_ms)
        # A deadline that has passed is none that is wrong, and one far ahead is as good as none.
        with self.assertRaises(millpond.TimeoutError):
            pipe({"data": 1}, deadline_ms=0)
        self.assertEqual(pipe({"data": 1}, deadline_ms=1e20), {"it": 1})

    def test_better_priorities_go_first(self):
        inside, go_on, order = threading.Event(), threading.Event(), []

        @millpond.backend(batch_size_max=1, inline_us_max=0)
        def slow(batch):
            order.append(batch)
            inside.set()
            self.assertTrue(go_on.wait(TIMEOUT_S))
            return batch

        pipe = self.pipe(stage(slow))
        calls = [pipe.submit({"data": 1})]
        self.assertTrue(inside.wait(TIMEOUT_S))
        calls += [pipe.submit({"data": data}, priority=level) for data, level in ((2, 9), (3, None), (4, 0))]
        go_on.set()
        for number, call in enumerate(calls, 1):
            self.assertEqual(call.result(TIMEOUT_S), {"it": number})
        self.assertEqual(order, [[1], [4], [3], [2]])
        with self.assertRaisesRegex(ValueError, "priority is 10; expected a level"):
            pipe({"data": 1}, priority=10)

    def test_a_full_queue_refuses(self):
        inside, go_on = threading.Event(), threading.Event()

        @millpond.backend(batch_size_max=1, inline_us_max=0, queue_max=1)
        def slow(batch):
            inside.set()
            self.assertTrue(go_on.wait(TIMEOUT_S))
            return batch

        pipe = self.pipe(stage(slow))
        first = pipe.submit({"data": 1})
        self.assertTrue(inside.wait(TIMEOUT_S))
        second = pipe.submit({"data": 2})
        with self.assertRaises(millpond.OverloadedError) as raised:
            pipe.submit({"data": 3}).result(TIMEOUT_S)
        self.assertEqual((raised.exception.model, raised.exception.may_have_run), ("it", False))
        go_on.set()
        self.assertEqual([one.result(TIMEOUT_S) for one in (first, second)], [{"it": 1}, {"it": 2}])

    def test_a_callback_that_waits_for_another_answer_is_refused(self):
        pipe = self.pipe(stage(echo))
        found = concurrent.futures.Future()

        def wait(_):
            try:
                pipe.submit({"data": 2}).result(TIMEOUT_S)
            except millpond.Error as error:
                found.set_result((str(error), pipe({"data": 3})))

        gate = threading.Event()

        @millpond.backend
        def late(batch):
            gate.wait(TIMEOUT_S)
            return batch

        begun = self.pipe(stage(late)).submit({"data": 1})
        begun.add_done_callback(wait)
        gate.set()
        words, outputs = found.result(TIMEOUT_S)
        self.assertIn("give that one a callback", words)
        self.assertEqual(outputs, {"it": 3})


class Failures(Local):
    def failing(self, backend, words, data=1):
        """The error of a call, whose traceback is in the log where something was raised."""
        call = self.it(backend)
        with self.assertRaisesRegex(millpond.ModelError, words) as raised:
            call(data)
        self.assertEqual(raised.exception.model, "it")
        return raised.exception

    def test_an_exception(self):
        @millpond.backend
        def raises(batch):
            raise KeyError("here")

        with self.assertLogs("millpond", logging.ERROR) as logged:
            error = self.failing(raises, "KeyError: 'here'")
        self.assertIn("in raises", error.traceback)
        self.assertIn("in raises", logged.output[0])
        self.assertTrue(error.may_have_run)

    def test_an_item_fails_alone(self):
        @millpond.backend
        def picky(batch):
            return [ValueError(f"not {value}") if value == 2 else value for value in batch]

        pipe = self.pipe(stage(picky))
        futures = [pipe.submit({"data": n}) for n in (1, 2, 3)]
        with self.assertRaisesRegex(millpond.ModelError, "ValueError: not 2"):
            futures[1].result(TIMEOUT_S)
        self.assertEqual([futures[n].result(TIMEOUT_S) for n in (0, 2)], [{"it": 1}, {"it": 3}])

    def test_wrong_results(self):
        for given, words in (
            (lambda batch: None, "gave a NoneType; expected a list of 1 results"),
            (lambda batch: [1, 2], "gave 2 results for 1 requests"),
            (lambda batch: [], "gave 0 results for 1 requests"),
            (lambda batch: [{1}], "a result is a set; expected an array"),
            (lambda batch: [[]], "a result is an empty list"),
        ):
            with self.subTest(words):
                self.failing(millpond.backend(given), words)

    def test_a_backend_that_calls_its_own_pipeline(self):
        pipes = []

        @millpond.backend
        def again(batch):
            return [pipes[0]({"data": 1})["it"] for _ in batch]

        pipes.append(self.pipe(stage(again)))
        with self.assertLogs("millpond", logging.ERROR), self.assertRaisesRegex(millpond.ModelError, "would wait for itself"):
            pipes[0]({"data": 1})

    def test_a_backend_whose_thread_calls_its_own_pipeline_waits_until_the_deadline(self):
        pipes, raised = [], []

        def ask():
            for given in {"data": 1}, [{"data": 1}, {"data": 2}]:
                try:
                    pipes[0](given, deadline_ms=20)
                except millpond.TimeoutError as error:
                    raised.append((error.method, error.deadline_ms))

        @millpond.backend
        def again(batch):
            if not raised:
                thread = threading.Thread(target=ask)
                thread.start()
                thread.join(TIMEOUT_S)
            return batch

        pipes.append(self.pipe(stage(again)))
        self.assertEqual(pipes[0]({"data": 1}), {"it": 1})
        self.assertEqual(raised, [("pipeline", 20.0)] * 2)
        self.assertEqual(pipes[0]({"data": 2}), {"it": 2})

    def test_a_backend_that_calls_another_pipeline(self):
        inner = self.pipe(stage(shout))

        @millpond.backend
        def outer(batch):
            return [inner({"data": text})["it"] for text in batch]

        call = self.it(outer)
        for _ in range(50):
            self.assertEqual(call("a"), b"A")

    def test_inputs_that_do_not_fit(self):
        pipe = self.pipe(stage(echo))
        with self.assertRaisesRegex(millpond.InputError, 'key "inputs.dta" is unknown; pipeline "pipeline" reads'):
            pipe({"dta": 1})
        with self.assertRaisesRegex(millpond.InputError, 'key "inputs.data" is missing'):
            pipe({})
        for given, words in (
            (5, "inputs is a int; expected a dict"),
            ({5: 1}, "inputs has a key of type int"),
            ({"data": None}, r'inputs\["data"\] is a NoneType'),
            ({"data": [1, 2]}, "is a list of numbers; make it an array first"),
            ({"data": [numpy.ones(2), "a"]}, "is a str; expected an array"),
        ):
            with self.subTest(words), self.assertRaisesRegex(TypeError, words):
                pipe(given)
        with self.assertRaisesRegex(ValueError, "is an empty list"):
            pipe({"data": []})

    def test_wrong_configurations(self):
        for config, words in (
            ({"stage": 1}, 'key "stage" is unknown; expected one of'),
            ({}, r"it has the pipelines \[\]"),
            ([], "it is a list; expected a dict, or the path"),
            (stage(len), "stages.it.backend is a builtin_function_or_method; expected a function or class that is marked"),
            (stage("onnx"), "stages.it.backend is 'onnx'; expected a function or class .* a stage names a model"),
            ({"stages": {"it": {"model": "ranker"}}}, 'string "ranker", expected a table, as model = { model = "ranker" }'),
            (stage(echo, instnces=1), "unknown field `instnces`"),
            (stage(echo, instances=0), "instances is 0; expected at least 1"),
            ({"stages": {"it": {"backend": echo, "inputs": {"a": "nowhere"}}}}, "nowhere"),
            ({"stages": {"it": {"hash": echo}}}, "stages.it.hash is a function; .*belongs under `backend`"),
            ({"models": {"it": {"backend": echo}}, **stage(echo)}, "models.it is defined, and a stage"),
            ({"models": {"m": {"backend": echo, "path": "x"}}, **stage(echo)}, 'models.m: key "path" is unknown'),
            ({"stages": {"it": {"call": {"model": "none"}}}}, '"none", which no'),
            ({"stages": {5: {}}}, "stages has a key of type int"),
        ):
            with self.subTest(words), self.assertRaisesRegex(millpond.ConfigError, words):
                millpond.Pipeline(config)
        deep = {}
        for _ in range(100):
            deep = {"a": deep}
        with self.assertRaisesRegex(millpond.ConfigError, "is nested too deep"):
            millpond.Pipeline({"stages": deep})

    def test_marks_are_checked(self):
        with self.assertRaisesRegex(TypeError, "a backend is a function or a class; found 5, a int; options have names, as in batch_size_max=8"):
            millpond.backend(5)
        with self.assertRaisesRegex(TypeError, "no option batch_max; expected some of instances, batch_size_max, "):
            millpond.backend(batch_max=5)
        for wrong in ("8", 8.0, True):
            with self.subTest(wrong), self.assertRaisesRegex(TypeError, f"batch_size_max is {wrong!r}; expected an int"):
                millpond.backend(batch_size_max=wrong)
        with self.assertRaisesRegex(TypeError, "<built-in function len> cannot be marked: it takes no attributes; call it in a function"):
            millpond.backend(len)
        with self.assertRaisesRegex(TypeError, "class Nothing has neither"):

            @millpond.backend
            class Nothing:
                pass


class Processes(unittest.TestCase):
    def test_a_forked_process_makes_its_own(self):
        found, status = run(
            """
            import os, millpond
            @millpond.backend
            def echo(batch): return batch
            pipe = millpond.Pipeline({"stages": {"it": {"backend": echo}}})
            pipe({"data": 1}), pipe.submit({"data": 1}).result()
            child = os.fork()
            if child == 0:
                for call in (pipe, pipe.submit):
                    try: call({"data": 1})
                    except millpond.Error as error: assert "before a fork" in str(error), error
                own = millpond.Pipeline({"stages": {"it": {"backend": echo}}})
                print(own({"data": 2}), own.submit({"data": 3}).result(), flush=True)
                own.close()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            print(pipe({"data": 4}))
            """
        )
        self.assertEqual((found, status), ("{'it': 2} {'it': 3}\n{'it': 4}\n", 0))

    def test_a_backend_that_forks_ends_the_child(self):
        found, status = run(
            """
            import os, millpond
            @millpond.backend
            def forks(batch):
                child = os.fork()
                if child: assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 70
                return batch
            pipe = millpond.Pipeline({"stages": {"it": {"backend": forks}}})
            for _ in range(3): print(pipe({"data": 1}), flush=True)
            """
        )
        self.assertEqual(status, 0, found)
        self.assertEqual(found.count("came back in a process that it forked"), 3)
        self.assertEqual(found.count("{'it': 1}"), 3)

    def test_ctrl_c_ends_a_call(self):
        """Whether the backend runs on a thread of its own or on the caller's."""
        found, status = run(
            """
            import logging, os, signal, threading, time, millpond
            logging.disable()
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background ignores it
            def sleeps(batch):
                if batch == [b"sleep"]:
                    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
                    time.sleep(1)
                return batch
            class Sleeps:
                def __call__(self, batch): return sleeps(batch)
            for backend in (Sleeps, sleeps):
                pipe = millpond.Pipeline({"stages": {"it": {"backend": millpond.backend(backend)}}})
                for _ in range(50): pipe({"data": "quick"})
                try: pipe({"data": "sleep"})
                except KeyboardInterrupt: print("interrupted", flush=True)
                print(pipe({"data": 1}), flush=True)
            """
        )
        self.assertEqual((found, status), ("interrupted\n{'it': 1}\n" * 2, 0))

    def test_a_list_may_be_longer_than_a_queue(self):
        with millpond.Pipeline(stage(echo)) as pipe:
            answers = pipe([{"data": at} for at in range(10_000)])
        self.assertEqual([answer["it"] for answer in answers], list(range(10_000)))

    def test_lists_of_branches_wait_for_nobody_with_the_interpreter(self):
        """Quick calls keep it; where branches wait for each other's threads, none may, also for lists."""
        found, status = run(
            """
            import threading, time, millpond
            @millpond.backend
            def left(batch):
                if any(item == b"slow" for item in batch): time.sleep(0.0001)
                return batch
            @millpond.backend
            def right(batch): return batch
            stages = {name: {"backend": backend, "from": "inputs.data"} for name, backend in (("left", left), ("right", right))}
            pipe = millpond.Pipeline({"stages": stages, "outputs": ["left", "right"]})
            for _ in range(100): pipe([{"data": b"quick"}])
            def calls():
                for at in range(300): pipe([{"data": bytes(64)}, {"data": b"slow" if at % 3 else bytes(64)}])
            threads = [threading.Thread(target=calls) for _ in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            print("ended")
            """
        )
        self.assertEqual((found, status), ("ended\n", 0))

    def test_a_callback_that_exits_costs_no_other_answer(self):
        found, status = run(
            """
            import logging, millpond, threading
            logging.disable()
            added = threading.Event()
            @millpond.backend
            def echo(batch):
                # A callback of a future that is done runs where it is added.
                added.wait()
                return batch
            pipe = millpond.Pipeline({"stages": {"it": {"backend": echo}}})
            def exits(future): raise SystemExit(3)
            first = pipe.submit({"data": 1})
            first.add_done_callback(exits)
            added.set()
            taken = pipe.submit({"data": 2})
            try: taken.set_result("its holder's own")
            except Exception: pass
            print([pipe.submit({"data": at}).result(timeout=30)["it"] for at in range(3)])
            """
        )
        self.assertEqual((found.splitlines()[-1], status), ("[0, 1, 2]", 0), found)

    def test_a_program_may_end_with_an_open_pipeline(self):
        found, status = run(
            """
            import millpond
            @millpond.backend
            class Echo:
                def __call__(self, batch): return batch
            pipe = millpond.Pipeline({"stages": {"it": {"backend": Echo}}})
            print(pipe({"data": 1}), pipe.submit({"data": 1}).result())
            """
        )
        self.assertEqual((found, status), ("{'it': 1} {'it': 1}\n", 0))


class Serving(unittest.TestCase):
    def test_a_server_in_this_process(self):
        config = {
            "models": {"sums": {"backend": "practice", "behaviour": "wait", "us": 1, "width": 3}},
            "methods": {"echo": {"kind": "echo"}},
        }
        with millpond.serve(config) as server, millpond.Client(server.address) as client:
            self.assertEqual(client.call("echo", {"a": 1}), {"a": 1})
            x = {"shape": [1, 3], "type": "f32", "data": numpy.ones((1, 3), "float32")}
            found = client.call("infer", {"model": "sums", "inputs": {"x": x}})
            self.assertEqual(numpy.frombuffer(found["outputs"]["y"]["data"], "<f4").tolist(), [3])
            self.assertIn(server.address, repr(server))
        server.stop()
        with self.assertRaises(millpond.ConnectError):
            millpond.Client(server.address)

    def test_functions_run_on_no_net_thread(self):
        """It would wait for the interpreter, and all of its connections with it."""
        threads = set()

        @millpond.backend
        def where(batch):
            threads.add(Path(f"/proc/self/task/{threading.get_native_id()}/comm").read_text().strip())
            return batch

        pipeline = {"request": "values", "stages": {"where": {"backend": where}}}
        with millpond.serve({"pipelines": {"it": pipeline}}) as server, millpond.Client(server.address) as client:
            for _ in range(300):
                client.call("run", {"pipeline": "it", "inputs": {"data": "a"}})
        self.assertEqual({name.partition("-")[0] for name in threads}, {"infer"}, threads)

    def test_what_cannot_be_served(self):
        with self.assertRaisesRegex(millpond.ConfigError, "unknown field `servr`"):
            millpond.serve({"servr": {}})
        nested = []
        nested.append(nested)
        with self.assertRaisesRegex(millpond.ConfigError, "nested too deep"):
            millpond.serve({"server": {"cpus": nested}})
        with millpond.serve({}) as server:
            port = int(server.address.rpartition(":")[2])
            with self.assertRaisesRegex(millpond.ConfigError, "server.listen"):
                millpond.serve({}, port=port)


if __name__ == "__main__":
    unittest.main()
