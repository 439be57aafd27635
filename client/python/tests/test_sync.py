"""The client that waits, against a real server."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from served import METHODS, TIMEOUT_MS, TIMEOUT_S, Millpond, Served, until_it_closes

import millpond
from errors import ConnectionLost
from peer import Peer

CONSTANT = {"text": "one", "number": 2, "list": [True, 0.5]}


class Calls(Served):
    def client(self, **options):
        return self.enterContext(millpond.Client(self.address, **options))

    def test_a_call_is_answered(self):
        client = self.client()
        self.assertEqual(client.call("constant", {}), CONSTANT)
        self.assertEqual(client.call("echo", {"a": [1, None, {"b": "é"}]}), {"a": [1, None, {"b": "é"}]})
        self.assertIsInstance(client.call("*ping", {})["ts"], int)

    def test_raw_calls_in_both_encodings(self):
        client = self.client()
        self.assertEqual(client.call_raw("echo", b"\x81\xa1a\x01"), b"\x81\xa1a\x01")
        self.assertEqual(client.call_raw("echo", bytearray(b"\x80")), b"\x80")
        self.assertEqual(json.loads(client.call_raw("constant", b"{}", encoding="json")), CONSTANT)
        with self.assertRaisesRegex(ValueError, 'encoding is "yaml"; expected "msgpack" or "json"'):
            client.call_raw("echo", b"{}", encoding="yaml")
        with self.assertRaises(TypeError):
            client.call_raw("echo", "{}")

    def test_a_deadline_travels_as_what_is_left_of_it(self):
        echoed = self.client().call("echo", {"a": 1}, deadline_ms=TIMEOUT_MS)
        self.assertEqual(echoed.pop("a"), 1)
        self.assertTrue(0 < echoed.pop("_deadline_ms") <= TIMEOUT_MS)
        self.assertEqual(echoed, {})

    def test_a_priority_travels(self):
        client = self.client()
        self.assertEqual(client.call("echo", {"a": 1}, priority=2), {"a": 1, "_priority": 2})
        echoed = json.loads(client.call_raw("echo", b"{}", encoding="json", priority=9))
        self.assertEqual(echoed, {"_priority": 9})
        for priority in (-1, 10, 300):
            with self.subTest(priority), self.assertRaisesRegex(ValueError, f"priority is {priority}; expected a level"):
                client.call("echo", {}, priority=priority)

    def test_oneway_calls_act(self):
        client = self.client()
        self.assertIsNone(client.oneway("ordered.put", {"entries": [["oneway", "1"]]}))
        # A put may be applied after later reads.
        found, until = [None], time.monotonic() + TIMEOUT_S
        while found == [None] and time.monotonic() < until:
            found = client.call("ordered.get", {"keys": [b"oneway"]})["values"]
        self.assertEqual(found, [b"1"])

    def test_a_closed_client_takes_no_calls(self):
        with millpond.Client(self.address) as client:
            client.call("echo", {})
        for call in (lambda: client.call("echo", {}), lambda: client.oneway("echo", {}), lambda: client.late_answers):
            with self.assertRaisesRegex(millpond.ClosedError, "was closed; make a new one"):
                call()
        client.close()

    def test_threads_share_a_client(self):
        client = self.client(connections=2)

        def calls(thread):
            return [client.call("echo", {"thread": thread, "n": n}, TIMEOUT_MS)["n"] for n in range(50)]

        with ThreadPoolExecutor(8) as threads:
            for found in threads.map(calls, range(8)):
                self.assertEqual(found, list(range(50)))

    def test_clients_come_and_go_in_threads(self):
        def life(n):
            with millpond.Client(self.address) as client:
                return client.call("echo", {"n": n})["n"]

        with ThreadPoolExecutor(8) as threads:
            self.assertEqual(list(threads.map(life, range(64))), list(range(64)))

    def test_its_repr_says_where(self):
        self.assertEqual(repr(self.client()), f"<millpond.Client of {self.address}>")

    def test_options_out_of_range_are_named(self):
        for options, expected in (
            ({"connections": 0}, "connections is 0; expected 1 to 65535"),
            ({"connections": -1}, "connections is -1; expected 1 to"),
            ({"connect_timeout_ms": -1}, "connect_timeout_ms is -1; expected milliseconds"),
            ({"frame_bytes_max": 2**32}, "frame_bytes_max is 4294967296; expected 1 to 4294967295"),
            ({"in_flight_max": 0}, "in_flight_max is 0; expected 1 to"),
        ):
            with self.subTest(options), self.assertRaisesRegex(ValueError, expected):
                millpond.Client(self.address, **options)
        with self.assertRaises(TypeError):
            millpond.Client(self.address, conections=1)
        for deadline_ms in (-1, float("nan"), 1e300):
            with self.subTest(deadline_ms), self.assertRaisesRegex(ValueError, "deadline_ms is .*; expected milliseconds"):
                self.client().call("echo", {}, deadline_ms)
        with self.assertRaisesRegex(TypeError, "deadline_ms is '5', a str; expected milliseconds as a number"):
            self.client().call_raw("echo", b"\x80", "5")


class Restart(Served):
    def test_a_client_outlives_its_server(self):
        with Millpond(tables=METHODS) as first:
            address = first.address
            client = self.enterContext(millpond.Client(address))
            self.assertEqual(client.call("constant", {}), CONSTANT)
        with self.assertRaises((millpond.ClosedError, millpond.ConnectError)):
            client.call("constant", {})
        with Millpond(tables=METHODS, listen=address):
            # Until the client tries to connect again, it says that it does not.
            until = time.monotonic() + TIMEOUT_S
            while True:
                try:
                    found = client.call("constant", {})
                    break
                except (millpond.ClosedError, millpond.ConnectError):
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.02)
            self.assertEqual(found, CONSTANT)

    def test_a_close_ends_the_calls_that_wait(self):
        arrived = threading.Event()

        def script(peer):
            peer.receive()
            arrived.set()
            until_it_closes(peer)

        with Peer(script) as peer, ThreadPoolExecutor() as threads:
            client = millpond.Client(peer.address)
            call = threads.submit(client.call, "rank", {})
            self.assertTrue(arrived.wait(TIMEOUT_S))
            client.close()
            with self.assertRaises(millpond.ClosedError) as raised:
                call.result(TIMEOUT_S)
            self.assertTrue(raised.exception.may_have_run)

    def test_a_close_writes_what_is_queued(self):
        notes = []

        def script(peer):
            try:
                while True:
                    notes.append(peer.receive().params()["n"])
            except ConnectionLost:
                pass

        with Peer(script) as peer, millpond.Client(peer.address) as client:
            for n in range(500):
                client.oneway("note", {"n": n})
        self.assertEqual(notes, list(range(500)))
