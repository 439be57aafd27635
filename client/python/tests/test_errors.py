"""Each way for a call to end without an answer, as the class that stands for it."""

import asyncio
import builtins
import pickle
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

from served import TIMEOUT_MS, TIMEOUT_S, Served, until_it_closes

import millpond
from peer import Peer

UNKNOWN_METHOD, KEY_MISSING, OVERLOADED, TOO_LARGE, OUTCOME_UNKNOWN = 20004, 10009, 30101, 30110, 30113


class Raised(Served):
    def raised(self, kind, call, *arguments, **options):
        with self.assertRaises(kind) as raised:
            call(*arguments, **options)
        error = raised.exception
        self.assertIs(type(error), kind)
        self.assertIsInstance(error, millpond.Error)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), str(again), vars(again)), (kind, str(error), vars(error)))
        return error

    def test_nobody_listens(self):
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{held.getsockname()[1]}"
            error = self.raised(millpond.ConnectError, millpond.Client, address)
            self.assertIsInstance(error, ConnectionError)
            self.assertEqual(error.address, address)
            self.assertIn(f"cannot connect to {address}", str(error))
            self.raised(millpond.ConnectError, asyncio.run, millpond.AsyncClient(address).connect())

    def test_the_server_answers_with_an_error(self):
        with millpond.Client(self.address) as client:
            error = self.raised(millpond.StatusError, client.call, "nope", {})
            self.assertEqual((error.code, error.name, error.retryable), (UNKNOWN_METHOD, "UnknownMethod", False))
            self.assertIn("nope", error.message)
            self.assertIn(error.message, str(error))
            error = self.raised(millpond.StatusError, client.call, "ordered.get", {})
            self.assertEqual((error.code, error.name), (KEY_MISSING, "KeyNotFound"))
            error = self.raised(millpond.StatusError, client.call, "echo", {"a": bytes(65_536)})
            self.assertEqual(error.code, TOO_LARGE)
            # The connection ends with a frame like that. A call that is on its way just then is told so; the next one is answered.
            try:
                answer = client.call("echo", {})
            except millpond.ClosedError:
                answer = client.call("echo", {})
            self.assertEqual(answer, {})

    def test_an_error_that_may_pass(self):
        def script(peer):
            peer.send(peer.receive().error(OVERLOADED, "the queue is full"))

        with Peer(script) as peer, millpond.Client(peer.address) as client:
            error = self.raised(millpond.StatusError, client.call, "rank", {})
            found = (error.code, error.name, error.message, error.retryable)
            self.assertEqual(found, (OVERLOADED, "Overloaded", "the queue is full", True))
            self.assertFalse(error.may_have_run)

    def test_a_put_whose_outcome_nobody_knows(self):
        def script(peer):
            peer.send(peer.receive().error(OUTCOME_UNKNOWN, "the log failed"))

        with Peer(script) as peer, millpond.Client(peer.address) as client:
            error = self.raised(millpond.StatusError, client.call, "ordered.put", {})
            found = (error.code, error.name, error.retryable, error.may_have_run)
            self.assertEqual(found, (OUTCOME_UNKNOWN, "OutcomeUnknown", False, True))

    def test_a_deadline_passes(self):
        with Peer(until_it_closes) as peer, millpond.Client(peer.address) as client:
            for deadline_ms in (20, 0.5, 0):
                error = self.raised(millpond.TimeoutError, client.call, "rank", {}, deadline_ms)
                self.assertIsInstance(error, builtins.TimeoutError)
                self.assertEqual((error.address, error.method), (peer.address, "rank"))
                self.assertAlmostEqual(error.deadline_ms, deadline_ms)

    def test_a_late_answer_is_counted(self):
        timed_out = threading.Event()

        def script(peer):
            late = peer.receive()
            timed_out.wait(TIMEOUT_S)
            peer.send(late.answer({}), peer.receive().answer({"in": "time"}))

        with Peer(script) as peer, millpond.Client(peer.address) as client:
            self.raised(millpond.TimeoutError, client.call, "first", {}, 1)
            timed_out.set()
            self.assertEqual(client.call("second", {}), {"in": "time"})
            self.assertEqual(client.late_answers, 1)

    def test_the_connection_closes_first(self):
        with Peer(lambda peer: peer.receive()) as peer, millpond.Client(peer.address) as client:
            error = self.raised(millpond.ClosedError, client.call, "rank", {})
            self.assertIsInstance(error, ConnectionError)
            self.assertEqual(error.address, peer.address)
            self.assertIn("the call may have run", str(error))

    def test_the_server_speaks_something_else(self):
        def script(peer):
            peer.receive()
            peer.send_bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        with Peer(script) as peer, millpond.Client(peer.address) as client:
            error = self.raised(millpond.ProtocolError, client.call, "rank", {})
            self.assertEqual(error.address, peer.address)

    def test_an_answer_that_does_not_decode(self):
        def script(peer):
            for payload in (b"\x93\x01\x02\x03", b"\x81\xa1a", b"\x82\xa1a\x01\xa1a\x02"):
                quest = peer.receive()
                head = b"FPNN\x01\x80\x02\x00" + len(payload).to_bytes(4, "little") + quest.seq.to_bytes(4, "little")
                peer.send_bytes(head + payload)

        with Peer(script) as peer, millpond.Client(peer.address) as client:
            for expected in ("root is an array", "not valid msgpack", "occurs twice"):
                error = self.raised(millpond.ProtocolError, client.call, "rank", {})
                self.assertIn("the answer to rank", str(error))
                self.assertIn(expected, str(error))

    def test_too_many_in_flight(self):
        arrived, refused = threading.Event(), threading.Event()

        def script(peer):
            quest = peer.receive()
            arrived.set()
            refused.wait(TIMEOUT_S)
            peer.send(quest.answer({"n": 1}))
            peer.send(peer.receive().answer({"n": 2}))

        with Peer(script) as peer, millpond.Client(peer.address, in_flight_max=1) as client, ThreadPoolExecutor() as threads:
            first = threads.submit(client.call, "first", {})
            self.assertTrue(arrived.wait(TIMEOUT_S))
            error = self.raised(millpond.TooManyInFlightError, client.call, "second", {})
            self.assertIn("raise in_flight_max", str(error))
            refused.set()
            self.assertEqual(first.result(TIMEOUT_S), {"n": 1})
            self.assertEqual(client.call("second", {}), {"n": 2})

    def test_what_cannot_be_sent(self):
        with millpond.Client(self.address, frame_bytes_max=1000) as client:
            error = self.raised(millpond.UnsendableError, client.call, "echo", {"a": [1, bytes(2000)]})
            self.assertEqual(error.method, "echo")
            self.assertIn('payload["a"][1]', str(error))
            self.assertIn("raise frame_bytes_max", str(error))
            self.raised(millpond.UnsendableError, client.call, "x" * 256, {})
            self.raised(millpond.UnsendableError, client.call, "", {})
            self.raised(millpond.UnsendableError, client.call_raw, "echo", b"")
            self.raised(millpond.UnsendableError, client.call_raw, "echo", b"\x93\x01\x02\x03", TIMEOUT_MS)
            # What is not sent disturbs nobody.
            self.assertEqual(client.call("echo", {"a": 1}), {"a": 1})
