"""Configurations in torchpipe's form: requests edited in place, roots by name, what has no counterpart refused."""

import pathlib
import tempfile
import threading
import unittest

import package  # noqa: F401

import millpond
from millpond import torchpipe


class Torchpipe(unittest.TestCase):
    def test_a_request_is_edited_in_place(self):
        pipe = torchpipe.pipe({"same": {"backend": "Identity"}})
        request = {"data": b"calm", "result": "old", "other": 1}
        self.assertIsNone(pipe(request))
        self.assertEqual(request, {"data": b"calm", "result": b"calm", "other": 1})
        several = [{"data": b"a"}, {"data": b"b"}, {"data": b"c"}]
        pipe(several)
        self.assertEqual([request["result"] for request in several], [b"a", b"b", b"c"])

    def test_roots_are_named(self):
        config = {"a": {"backend": "Identity"}, "b": {"backend": "Identity", "next": "c"}, "c": {"backend": "Identity"}}
        pipe = torchpipe.pipe(config)
        requests = [{"data": b"1", "node_name": "a"}, {"data": b"2", "node_name": "b"}]
        pipe(requests)
        self.assertEqual([request["result"] for request in requests], [b"1", b"2"])
        for request in {"data": b""}, {"data": b"", "node_name": "c"}:
            with self.assertRaisesRegex(KeyError, r"expected one of \['a', 'b'\]"):
                pipe(request)

    def test_a_file_is_read_and_its_keys_are_logged(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "pipe.toml")
            path.write_text('batching_timeout = 5\n[same]\nbackend = "Identity"\n')
            with self.assertLogs("millpond.torchpipe", "INFO") as logged:
                pipe = torchpipe.pipe(path)
            request = {"data": b"x"}
            pipe(request)
            self.assertEqual(request["result"], b"x")
        self.assertTrue(any('batching_timeout = "5"' in line for line in logged.output), logged.output)

    def test_what_has_no_counterpart_is_refused_by_name(self):
        with self.assertRaisesRegex(millpond.ConfigError, "`Own` has no counterpart; register it in the program"):
            torchpipe.pipe({"own": {"backend": "Own"}})
        with self.assertRaisesRegex(millpond.ConfigError, "expected a dict of dicts"):
            torchpipe.pipe(1)
        with self.assertRaisesRegex(KeyError, "has no data"):
            torchpipe.pipe({"same": {"backend": "Identity"}})({})

    def test_threads_call_it_at_a_time(self):
        pipe, wrong = torchpipe.pipe({"same": {"backend": "Identity"}}), []

        def call(number):
            for count in range(200):
                request = {"data": b"%d-%d" % (number, count)}
                pipe(request)
                if request["result"] != request["data"]:
                    wrong.append(request)

        threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
