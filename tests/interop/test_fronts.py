"""The other ways in to a real Millpond server: WebSocket, IPv6, a Unix socket, and FPNN's encryption. Plain Python 3.11.

Encryption is tried where the server's build has it (`cargo build -p millpond-cli --features fpnn-encryption`).
"""

import unittest

import channel
import frames
from client import Client
from curves import CURVES, KeyPair
from errors import ConnectionLost
from http_call import HttpClient
from millpond_server import Millpond, missing

# A bound for a server that hangs; no test waits for it otherwise.
TIMEOUT_S = 30
# No secret: the tests' own.
PRIVATE_KEY = 0x1234567890ABCDEF1234567890ABCDEF1234567890ABCDEF1234567890ABCDEF


def started(test, **more):
    if reason := missing():
        raise unittest.SkipTest(reason)
    return test.enterContext(Millpond(**more))


class Fronts(unittest.TestCase):
    def check(self, address, **options):
        """Both encodings, many at once, an error, and a quest without an answer."""
        with Client.connect(address, timeout_s=TIMEOUT_S, **options) as client:
            for encoding in frames.FLAGS:
                self.assertIn("ts", client.quest("*ping", encoding=encoding))
            client.quest("ordered.put", {"entries": [[b"k", b"v"]]}, oneway=True)
            seqs = client.start_all([("ordered.get", {"keys": [b"k", b"none"]})] * 50)
            for seq in reversed(seqs):
                self.assertEqual(client.answer(seq)["values"][1], None)

    def test_a_unix_socket_and_ipv6(self):
        server = started(self, server='listen_also = ["unix:data.sock", "[::1]:0"]')
        self.check(server.address)
        self.check(f"unix:{server.folder / 'data.sock'}")

    def test_a_websocket_whose_messages_are_frames(self):
        server = started(self)
        self.check(server.address, websocket_path="/service/any")
        with Client.connect(server.address, websocket_path="/service/any", timeout_s=TIMEOUT_S) as client:
            # FPNN answers with nothing in it; RFC 6455 wants the payload back.
            client.websocket_ping(b"payload")
            self.assertIn("ts", client.quest("*ping"))

    def test_http_and_frames_go_on_beside_it(self):
        server = started(self)
        with HttpClient(server.address, timeout_s=TIMEOUT_S) as http:
            self.assertIn("ts", http.post("*ping", {}))
        self.check(server.address)


class Encryption(unittest.TestCase):
    def server(self, curve):
        tables = f'[server.fpnn_encryption]\ncurve = "{curve}"\nprivate_key = "fpnn.key"\n'
        try:
            return started(self, tables=tables, files={"fpnn.key": PRIVATE_KEY.to_bytes(32)})
        except AssertionError as error:
            if "this build has no encryption" in str(error):
                self.skipTest("the server's build has no feature fpnn-encryption")
            raise

    def test_both_curves_sizes_and_modes(self):
        for curve in ("secp256k1", "secp256r1"):
            server = self.server(curve)
            public = KeyPair(CURVES[curve], PRIVATE_KEY).public
            for bits in (128, 256):
                for stream_mode in (False, True):
                    with self.subTest(curve=curve, bits=bits, stream_mode=stream_mode):
                        encryption = channel.Encryption(curve, public, bits, stream_mode)
                        with Client.connect(server.address, encryption=encryption, timeout_s=TIMEOUT_S) as client:
                            for number in range(5):
                                entries = {"entries": [[b"e", bytes([number])]]}
                                self.assertEqual(len(client.quest("ordered.put", entries)["versions"]), 1)
                                self.assertEqual(client.quest("ordered.get", {"keys": [b"e"]})["values"], [bytes([number])])

    def test_a_key_of_another_server_ends_the_connection(self):
        server = self.server("secp256k1")
        other = KeyPair(CURVES["secp256k1"], PRIVATE_KEY - 1).public
        encryption = channel.Encryption("secp256k1", other)
        with self.assertRaises(Exception) as raised:
            with Client.connect(server.address, encryption=encryption, timeout_s=TIMEOUT_S) as client:
                client.quest("*ping")
        self.assertNotIsInstance(raised.exception, AssertionError)
        with self.assertRaises(ConnectionLost):
            with Client.connect(server.address, timeout_s=TIMEOUT_S) as client:
                client.quest("*key", {})


if __name__ == "__main__":
    unittest.main()
