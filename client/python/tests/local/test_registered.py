"""Backends that a program registers for a configuration of torchpipe: dicts that they edit, objects that they hand on, batches."""

import pathlib
import tempfile
import threading
import unittest

import package  # noqa: F401
import registered_program

import millpond
from millpond import torchpipe


class Doubles:
    """Doubles what it gets; texts that say `bad` fail."""

    made = 0

    def __init__(self):
        Doubles.made += 1
        self.batches = []

    def init(self, parameters, options):
        self.parameters = parameters
        assert options is None

    def forward(self, requests):
        self.batches.append(len(requests))
        for request in requests:
            if request["data"] == b"bad":
                raise ValueError("it is bad")
            request["result"] = request["data"] * 2

    def max(self):
        return 3


class Lists:
    def forward(self, requests):
        for request in requests:
            request["result"] = [{"word": word} for word in request["data"]]


class Words:
    def forward(self, requests):
        for request in requests:
            request["result"] = [found["word"] for found in request["data"]]


class Silent:
    def forward(self, requests):
        for request in requests:
            request["mine"] = 1


class Registered(unittest.TestCase):
    def setUp(self):
        for backend in Doubles, Lists, Words, Silent:
            torchpipe.register(backend.__name__, backend)

    def test_a_program_changes_its_import_alone(self):
        self.assertEqual(
            registered_program.run(torchpipe),
            [
                # What omniback 0.2.24 gives for the same program.
                (5, 7, ["context", "data"]),
                (None, 7, ["context", "data"]),
                True,
                b"calm??",
            ],
        )

    def test_objects_go_from_one_backend_to_the_next(self):
        pipe = torchpipe.pipe({"lists": {"backend": "S[Lists,Words]", "next": "again"}, "again": {"backend": "Lists"}})
        request = {"data": ["a", "b"]}
        pipe(request)
        self.assertEqual(request["result"], [{"word": "a"}, {"word": "b"}])

    def test_an_object_is_shared_and_gets_its_parameters(self):
        one = Doubles()
        torchpipe.register("One", one)
        config = {"a": {"backend": "One(factor=2)", "instance_num": 2, "own": "x", "next": "b"}, "b": {"backend": "Identity"}}
        with self.assertLogs("millpond.torchpipe", "INFO") as logged:
            pipe = torchpipe.pipe(config)
        self.assertTrue(any('own = "x": given to init of One' in line for line in logged.output), logged.output)
        several = [{"data": b"%d" % number} for number in range(7)]
        pipe(several)
        self.assertEqual([request["result"] for request in several], [b"%d%d" % (number, number) for number in range(7)])
        self.assertLessEqual(max(one.batches), 3)
        self.assertEqual({key: one.parameters[key] for key in ("factor", "own", "node_name")}, {"factor": "2", "own": "x", "node_name": "a"})

    def test_a_class_is_made_for_each_instance(self):
        before = Doubles.made
        pipe = torchpipe.pipe({"a": {"backend": "Doubles", "instance_num": 2, "next": "a.again"}, "a.again": {}})
        request = {"data": b"x"}
        pipe(request)
        self.assertEqual((request["result"], Doubles.made - before), (b"xxxx", 2))

    def test_an_error_is_what_the_backend_raised(self):
        pipe = torchpipe.pipe({"a": {"backend": "Doubles"}})
        with self.assertLogs("millpond", "ERROR"), self.assertRaisesRegex(ValueError, "it is bad") as raised:
            pipe({"data": b"bad"})
        self.assertIsInstance(raised.exception.__cause__, millpond.ModelError)
        request = {"data": b"good"}
        pipe(request)
        self.assertEqual(request["result"], b"goodgood")

    def test_an_error_outlives_a_branch_that_ends_later(self):
        class Alone:
            def max(self):
                return 1

        class Late(Alone):
            def forward(self, requests):
                # Until the other branch has failed.
                failed.wait(10)
                for request in requests:
                    request["result"] = request["data"]

        class Fails(Alone):
            def forward(self, requests):
                if requests[0]["data"] == b"bad":
                    threading.Timer(0.1, failed.set).start()
                    raise LookupError("no such word")
                requests[0]["result"] = requests[0]["data"]

        torchpipe.register("Late", Late)
        torchpipe.register("Fails", Fails)
        config = {
            "a": {"backend": "Identity", "next": "b,c"},
            "b": {"backend": "Fails", "next": "d"},
            "c": {"backend": "Late", "next": "d"},
            "d": {"backend": "Doubles", "map": "b[result:other],c[result:data]"},
        }
        pipe = torchpipe.pipe(config)
        for others in ([], [{"data": b"good"}]):
            requests = [{"data": b"bad"}, *others]
            failed = threading.Event()
            with self.assertLogs("millpond", "ERROR"), self.assertRaisesRegex(LookupError, "no such word"):
                pipe(requests)

    def test_a_backend_never_gets_an_empty_list(self):
        class Takes:
            batches = []

            def forward(self, requests):
                Takes.batches.append(len(requests))
                requests[0]["result"] = requests[0]["data"]

        torchpipe.register("Takes", Takes)
        pipe = torchpipe.pipe({"a": {"backend": "Silent", "next": "b"}, "b": {"backend": "Takes"}})
        with self.assertRaisesRegex(RuntimeError, "backend 'Silent' of node 'a' gave no result"):
            pipe({"data": b"x"})
        self.assertEqual(Takes.batches, [])

    def test_a_node_without_a_result_ends_the_pipeline_or_fails_it(self):
        request = {"data": b"x"}
        torchpipe.pipe({"a": {"backend": "Silent"}})(request)
        self.assertEqual(request, {"data": b"x", "mine": 1})
        for after in "Doubles", "SoftmaxTensor":
            pipe = torchpipe.pipe({"a": {"backend": "Silent", "next": "b"}, "b": {"backend": after}})
            with self.assertRaisesRegex(RuntimeError, "backend 'Silent' of node 'a' gave no result"):
                pipe({"data": b"x"})

    def test_a_split_value_runs_part_by_part(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name, "pipe.toml")
        path.write_text("""
            [parts]
            backend = "Identity"
            jump = "double"
            split = "Split"
            merge = "Merge"
            next = "last"
            [double]
            backend = "Doubles"
            next = "check"
            [check]
            backend = "Bounded"
            [last]
            backend = "Identity"
        """)

        class Bounded:
            def forward(self, requests):
                for request in requests:
                    if len(request["data"]) < 5:
                        request["result"] = request["data"] + b"."

        torchpipe.register("Bounded", Bounded)
        pipe = torchpipe.pipe(path)
        request = {"data": [b"a", b"bc"], "node_name": "parts", "context": 1}
        pipe(request)
        self.assertEqual(list(request["result"]), [b"aa.", b"bcbc."])
        with self.assertRaisesRegex(RuntimeError, "backend 'Bounded' of node 'check' gave no result"):
            pipe({"data": [b"a", b"bcd"], "node_name": "parts"})

    def test_threads_share_batches(self):
        pipe, wrong = torchpipe.pipe({"a": {"backend": "Doubles", "next": "b"}, "b": {"backend": "Doubles"}}), []

        def call(number):
            for count in range(100):
                request = {"data": b"%d-%d" % (number, count), "number": number}
                pipe(request)
                if (request["result"], request["number"]) != (request["data"] * 4, number):
                    wrong.append(request)

        threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_what_is_no_backend_is_refused(self):
        for name, given, expected in [
            (1, Doubles, TypeError),
            ("", Doubles, ValueError),
            ("Print", print, TypeError),
            ("Needs", type("Needs", (), {"__init__": lambda self, size: None, "forward": lambda self, requests: None}), TypeError),
        ]:
            with self.assertRaises(expected):
                torchpipe.register(name, given)
        with self.assertRaisesRegex(millpond.ConfigError, r"register\(\"NAME\", object\)"):
            torchpipe.pipe({"a": {"backend": "Python"}})
        with self.assertRaisesRegex(millpond.ConfigError, "call the other one in its forward"):
            torchpipe.pipe({"a": {"backend": "S[Silent,(or)Doubles]"}})


if __name__ == "__main__":
    unittest.main()
