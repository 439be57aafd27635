"""Where a client connects and how it behaves there: addresses, keep-alive, backoff, second attempts, TLS."""

import asyncio
import contextlib
import ssl
import tempfile
import threading
from pathlib import Path

from served import INTEROP, METHODS, TIMEOUT_MS, TIMEOUT_S, Millpond, Served, until_it_closes

import millpond
from errors import ConnectionLost
from peer import Peer

HERE = Path(__file__).resolve().parent
# A certificate for localhost with its key, and the authority that it comes from.
CERTIFICATE, AUTHORITY = HERE / "localhost.pem", HERE / "authority.pem"
# One that vouches for itself.
STRANGER = INTEROP / "localhost.pem"


class Addresses(Served):
    def test_a_unix_socket(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="millpond-"))
        address = f"unix:{Path(folder) / 'socket'}"
        with Millpond(server=f'listen_also = ["{address}"]', tables=METHODS), millpond.Client(address) as client:
            self.assertEqual(client.call("echo", {"a": 1}), {"a": 1})

    def test_one_of_several_is_away(self):
        with Millpond(tables=METHODS) as away:
            gone = away.address
        with millpond.Client(f"{gone},{self.address}") as client:
            for n in range(4):
                self.assertEqual(client.call("echo", {"n": n}, TIMEOUT_MS)["n"], n)

    def test_what_is_no_address(self):
        with self.assertRaisesRegex(millpond.ConnectError, "has no port") as raised:
            millpond.Client("nowhere")
        self.assertEqual((raised.exception.address, raised.exception.may_have_run), ("nowhere", False))
        self.assertGreaterEqual(raised.exception.retry_after_ms, 0)


class Habits(Served):
    def test_keep_alive(self):
        pinged = threading.Event()

        def script(peer):
            ping = peer.receive()
            peer.send(ping.answer({"ts": 0}))
            if ping.method == "*ping":
                pinged.set()
            until_it_closes(peer)

        with Peer(script) as peer, millpond.Client(peer.address, keep_alive_ms=10):
            self.assertTrue(pinged.wait(TIMEOUT_S))

    def test_backoff(self):
        def script(peer):
            peer.send(peer.receive().answer({}))

        with Peer(script) as peer:
            client = self.enterContext(millpond.Client(peer.address, backoff_ms_first=3_600_000, backoff_ms_max=3_600_000))
            client.call("first", {})
        # Its peer is gone for good: after a failed try or two it says when the next one is.
        for _ in range(100):
            with self.assertRaises((millpond.ConnectError, millpond.ClosedError)) as raised:
                client.call("second", {})
            if getattr(raised.exception, "retry_after_ms", 0) > 10_000:
                break
        self.assertGreater(raised.exception.retry_after_ms, 10_000)
        self.assertLessEqual(raised.exception.retry_after_ms, 3_600_000)

    def test_a_slow_call_is_tried_elsewhere(self):
        def script(peer):
            with contextlib.suppress(ConnectionLost):
                while True:
                    peer.send(peer.receive().answer({"by": "the other"}))

        options = {"hedge_after_ms": 1, "hedge_percent_max": 100}
        with Peer(until_it_closes) as one, Peer(script) as other:
            with millpond.Client(f"{one.address},{other.address}", **options) as client:
                # The connections take turns, so the first attempts of some of these go to the one that never answers.
                for _ in range(4):
                    self.assertEqual(client.call("rank", {}, TIMEOUT_MS, hedged=True), {"by": "the other"})
                counts = client.hedge_counts
        self.assertGreaterEqual(counts.won, 1)
        self.assertGreaterEqual(counts.sent, counts.won)

    def test_hedged_calls_need_a_client_that_hedges(self):
        async def awaited():
            async with millpond.AsyncClient(self.address) as client:
                await client.call_raw("echo", b"\x80", hedged=True)

        with millpond.Client(self.address) as client:
            with self.assertRaisesRegex(ValueError, "give the client hedge_after_ms"):
                client.call("echo", {}, hedged=True)
            self.assertEqual(client.hedge_counts, (0, 0, 0))
        with self.assertRaisesRegex(ValueError, "give the client hedge_after_ms"):
            asyncio.run(awaited())
        with millpond.Client(self.address, hedge_after_ms="p95") as client:
            self.assertEqual(client.call("echo", {"a": 1}, hedged=True), {"a": 1})

    def test_options_that_cannot_be(self):
        for options, expected in (
            ({"keep_alive_ms": -1}, "keep_alive_ms is -1; expected milliseconds"),
            ({"backoff_ms_first": float("inf")}, "backoff_ms_first is inf"),
            ({"backoff_ms_max": -1}, "backoff_ms_max is -1"),
            ({"hedge_after_ms": "p50"}, 'hedge_after_ms is "p50"; expected milliseconds, "p95" or None'),
            ({"hedge_after_ms": 5, "hedge_percent_max": 101}, "hedge_percent_max is 101; expected 1 to 100"),
            ({"tls_key": "k"}, "tls_certificate and tls_key go together"),
            ({"tls_server_name": "localhost"}, "TLS is set up without tls_ca"),
        ):
            with self.subTest(options), self.assertRaisesRegex(ValueError, expected):
                millpond.Client(self.address, **options)


class Encrypted(Served):
    def setUp(self):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(CERTIFICATE)

    def test_calls_over_tls(self):
        with Peer(answer_one, tls=self.context) as peer:
            options = {"tls_ca": AUTHORITY, "tls_server_name": "localhost"}
            with millpond.Client(f"tls://{peer.address}", **options) as client:
                self.assertEqual(client.call("rank", {}, TIMEOUT_MS), {"over": "TLS"})

    def test_a_server_that_asks_who_calls(self):
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.context.load_verify_locations(AUTHORITY)
        with Peer(answer_one, tls=self.context) as peer:
            options = {"tls_server_name": "localhost", "tls_certificate": str(CERTIFICATE), "tls_key": str(CERTIFICATE)}
            with millpond.Client(f"tls://{peer.address}", tls_ca=str(AUTHORITY), **options) as client:
                self.assertEqual(client.call("rank", {}, TIMEOUT_MS), {"over": "TLS"})

    def test_servers_that_are_not_taken(self):
        def script(peer):
            # The client leaves somewhere in the handshake.
            with contextlib.suppress(OSError, ConnectionLost):
                peer.start_tls(self.context)
                peer.receive()

        for tls_ca, tls_server_name in ((STRANGER, "localhost"), (AUTHORITY, "example.org"), (AUTHORITY, None)):
            with self.subTest(tls_ca=tls_ca.parent.name, name=tls_server_name), Peer(script) as peer:
                with self.assertRaisesRegex(millpond.TlsError, "certificate") as raised:
                    millpond.Client(f"tls://{peer.address}", tls_ca=tls_ca, tls_server_name=tls_server_name)
                self.assertEqual(raised.exception.address, f"tls://{peer.address}")

    def test_tls_that_is_not_set_up(self):
        for address, options, expected in (
            ("tls://127.0.0.1:1", {}, "nobody is trusted"),
            ("127.0.0.1:1", {"tls_ca": AUTHORITY}, "no address begins with tls://"),
            ("tls://127.0.0.1:1", {"tls_ca": "absent.pem"}, "absent.pem"),
        ):
            with self.subTest(expected), self.assertRaisesRegex(millpond.TlsError, expected) as raised:
                millpond.Client(address, **options)
            self.assertFalse(raised.exception.may_have_run)


def answer_one(peer):
    """Answers one call."""
    peer.send(peer.receive().answer({"over": "TLS"}))
