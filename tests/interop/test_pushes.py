"""A Millpond server that calls its clients: by frames, in WebSocket messages, encrypted; answered, refused, late, and oneway.

Plain Python 3.11. Methods of kind "duplex" stand for whatever may push.
"""

import unittest

import channel
import frames
from captured import captured
from client import LATER, Client
from curves import CURVES, KeyPair
from errors import AnswerError
from http_call import HttpClient, HttpError
from millpond_server import Millpond, missing
from test_millpond import Raw

# A bound for a server that hangs; no test waits for it otherwise.
TIMEOUT_S = 30
# No secret: the tests' own.
PRIVATE_KEY = 0x1234567890ABCDEF1234567890ABCDEF1234567890ABCDEF1234567890ABCDEF
UNKNOWN, TIMED_OUT, UNKNOWN_METHOD, INVALID_CONNECTION = 20001, 20003, 20004, 20012
METHODS = """
[methods."duplex demo"]
kind = "duplex"
push = "duplex quest"
timeout_ms = 60000
[methods.impatient]
kind = "duplex"
push = "slow"
timeout_ms = 1
[methods.early]
kind = "duplex"
push = "duplex quest"
payload = { int = 2 }
answer = { Simple = "one", Simple2 = 2 }
early = true
[methods.telling]
kind = "duplex"
push = "told"
early = true
oneway = true
"""


class Pushed(unittest.TestCase):
    """One server for all tests of a class."""

    # What the clients of the class connect with.
    OPTIONS = {}

    @classmethod
    def setUpClass(cls):
        if reason := missing():
            raise unittest.SkipTest(reason)
        cls.server = cls.enterClassContext(Millpond("in_flight_per_connection_max = 4\n", METHODS))

    def client(self):
        return self.enterContext(Client.connect(self.server.address, timeout_s=TIMEOUT_S, **self.OPTIONS))

    def refused(self, code, call, *arguments):
        with self.assertRaises(AnswerError) as raised:
            call(*arguments)
        self.assertEqual(raised.exception.code, code, raised.exception)
        return raised.exception


class Frames(Pushed):
    def test_a_call_is_answered_what_its_caller_answers(self):
        client = self.client()
        pushed = []

        def answer(push):
            pushed.append(push.seq)
            return {"was": push.params, "deep": [{"n": [None, -5, 1.5]}]}

        client.on_push("duplex quest", answer)
        for encoding in frames.FLAGS:
            for params in ({}, {"text": "中", "n": 1}):
                found = client.quest("duplex demo", params, encoding=encoding)
                self.assertEqual(found, {"was": params, "deep": [{"n": [None, -5, 1.5]}]})
        self.assertEqual(pushed, [1, 2, 3, 4], "the server counts by itself, from 1")

    def test_more_calls_than_may_be_in_flight_stand_before_their_answers(self):
        client = self.client()
        client.on_push("duplex quest", lambda push: {"echo": push.params["n"]})
        seqs = client.start_all([("duplex demo", {"n": n}) for n in range(50)])
        for n in reversed(range(50)):
            self.assertEqual(client.answer(seqs[n]), {"echo": n})

    def test_answers_of_pushes_in_any_order(self):
        client = self.client()
        kept = []

        def keep(push):
            kept.append(push)
            return LATER

        client.on_push("duplex quest", keep)
        seqs = client.start_all([("duplex demo", {"n": n}) for n in range(3)])
        client.serve_pushes(3)
        for push in reversed(kept):
            push.answer({"n": push.params["n"]})
        self.assertEqual([client.answer(seq) for seq in seqs], [{"n": n} for n in range(3)])

    def test_what_the_client_refuses_is_refused(self):
        client = self.client()
        error = self.refused(UNKNOWN_METHOD, client.quest, "duplex demo")
        self.assertIn("unknown method 'duplex quest'", error.ex)

        def fail(push):
            raise AnswerError(100, "not today")

        client.on_push("duplex quest", fail)
        error = self.refused(UNKNOWN, client.quest, "duplex demo")
        self.assertIn("code 100: not today", error.ex)

    def test_a_late_answer(self):
        client = self.client()
        kept = []

        def keep(push):
            kept.append(push)
            return LATER

        client.on_push("slow", keep)
        self.refused(TIMED_OUT, client.quest, "impatient")
        kept[0].answer({"late": 1})
        client.on_push("duplex quest", lambda push: {"fine": 1})
        self.assertEqual(client.quest("duplex demo"), {"fine": 1})

    def test_an_early_answer_and_a_push_after_it(self):
        client = self.client()
        seen = []

        def answer(push):
            seen.append(push.params)
            return {}

        client.on_push("duplex quest", answer)
        self.assertEqual(client.quest("early", {"mine": 1}), {"Simple": "one", "Simple2": 2})
        self.assertEqual(seen, [], "the answer comes first")
        client.serve_pushes(1)
        self.assertEqual(seen, [{"int": 2}])

    def test_oneway_pushes(self):
        client = self.client()
        seen = []
        client.on_push("told", lambda push: seen.append((push.seq, push.params)))
        self.assertEqual(client.quest("telling", {"n": 1}), {})
        client.quest("telling", {"n": 2}, oneway=True)
        client.serve_pushes(2)
        self.assertEqual(seen, [(None, {"n": 1}), (None, {"n": 2})])


class WebSockets(Frames):
    OPTIONS = {"websocket_path": "/service/any"}


class Bytes(Pushed):
    def test_the_captured_answer_byte_for_byte(self):
        raw = self.enterContext(Raw(self.server.address))
        raw.send(frames.encode(frames.quest("duplex demo", {"int": 1}, 9)))
        push = raw.receive()
        expected = frames.quest("duplex quest", {"int": 1}, 1)
        self.assertEqual(frames.encode(push), frames.encode(expected))
        # FPNN's own client answered its server's first push so.
        raw.send(captured("push_answer"))
        answer = frames.encode(raw.receive())
        self.assertEqual(answer, captured("push_answer")[:12] + b"\x09\0\0\0" + captured("push_answer")[16:])

    def test_nobody_is_called_over_http(self):
        with HttpClient(self.server.address, timeout_s=TIMEOUT_S) as http:
            error = self.refused(INVALID_CONNECTION, http.post, "duplex demo", {})
            self.assertIsInstance(error, HttpError)
            self.assertIn("ts", http.post("*ping", {}))


class Encrypted(unittest.TestCase):
    def test_both_modes(self):
        if reason := missing():
            self.skipTest(reason)
        tables = f'{METHODS}[server.fpnn_encryption]\ncurve = "secp256k1"\nprivate_key = "fpnn.key"\n'
        try:
            server = self.enterContext(Millpond(tables=tables, files={"fpnn.key": PRIVATE_KEY.to_bytes(32)}))
        except AssertionError as error:
            if "this build has no encryption" in str(error):
                self.skipTest("the server's build has no feature fpnn-encryption")
            raise
        public = KeyPair(CURVES["secp256k1"], PRIVATE_KEY).public
        for stream_mode in (False, True):
            with self.subTest(stream_mode=stream_mode):
                encryption = channel.Encryption("secp256k1", public, 128, stream_mode)
                with Client.connect(server.address, encryption=encryption, timeout_s=TIMEOUT_S) as client:
                    client.on_push("duplex quest", lambda push: {"got": push.params})
                    for n in range(3):
                        self.assertEqual(client.quest("duplex demo", {"n": n}), {"got": {"n": n}})
                    told = []
                    client.on_push("told", lambda push: told.append(push.params))
                    self.assertEqual(client.quest("telling", {"n": 7}), {})
                    client.serve_pushes(1)
                    self.assertEqual(told, [{"n": 7}])


if __name__ == "__main__":
    unittest.main()
