"""WebSocket: the RFC's own examples, fragments and control frames, and the client against a scripted peer. Plain Python 3.11."""

import unittest

import frames
import websocket
from client import Client
from errors import ConnectionLost, FrameInvalid, HandshakeFailed
from peer import TIMEOUT_S, Peer
from websocket import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, WebSocket

QUEST = frames.quest("m", {"text": "x" * 300}, 1)
DATA = frames.encode(QUEST)


def pieces(data, sizes, masked):
    """`data` as one message in fragments of these sizes and the rest."""
    cut, start = [], 0
    for size in sizes:
        cut.append(data[start : start + size])
        start += size
    cut.append(data[start:])
    last = len(cut) - 1
    return [websocket.write(BINARY if at == 0 else CONTINUATION, one, masked, fin=at == last) for at, one in enumerate(cut)]


class Bytes(unittest.TestCase):
    def test_the_accept_of_the_rfc(self):
        self.assertEqual(websocket.accept_of("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")

    def test_frames_of_the_rfc(self):
        self.assertEqual(websocket.write(TEXT, b"Hello", False).hex(), "810548656c6c6f")
        self.assertEqual(websocket.write(TEXT, b"Hel", False, fin=False).hex(), "010348656c")
        self.assertEqual(websocket.write(BINARY, bytes(256), False)[:4].hex(), "827e0100")
        self.assertEqual(websocket.write(BINARY, bytes(65536), False)[:10].hex(), "827f0000000000010000")
        # A masked pong of "Hello", as a server gets it; it comes back to the caller unmasked.
        server = WebSocket(client=False)
        self.assertEqual(list(server.open(bytes.fromhex("8a8537fa213d7f9f4d5158"))), [])
        self.assertEqual(server.pongs, [b"Hello"])

    def test_messages_both_ways_however_they_are_cut(self):
        for client_sends in (True, False):
            data = WebSocket(client_sends).seal(DATA) * 2
            for at in range(len(data) + 1):
                receiver = WebSocket(not client_sends)
                self.assertEqual([*receiver.open(data[:at]), *receiver.open(data[at:])], [DATA] * 2)

    def test_fragments_with_control_frames_between(self):
        for sizes in ([], [0], [1], [12, 4], [100, 0, 100], [1] * 100):
            receiver = WebSocket()
            message = pieces(DATA, sizes, masked=False)
            between = websocket.write(PING, b"hi", False) + websocket.write(PONG, b"ho", False)
            self.assertEqual(list(receiver.open(between.join(message))), [DATA], sizes)
            self.assertEqual(receiver.pongs, [b"ho"] * (len(message) - 1))
            answered = WebSocket(client=False)
            self.assertEqual(list(answered.open(receiver.replies())), [])
            self.assertEqual(answered.pongs, [b"hi"] * (len(message) - 1))
            self.assertEqual(receiver.replies(), b"")

    def test_refused(self):
        huge = bytes([0x82, 127]) + (frames.FRAME_BYTES_MAX + 1).to_bytes(8)
        for data, words in (
            (websocket.write(BINARY, DATA, True), "masks nothing"),
            (b"\xc2\x00", "reserved"),
            (b"\x09\x00", "control frame"),
            (b"\x89\x7e", "control frame"),
            (websocket.write(TEXT, b"{}", False), "opcode 1"),
            (b"\x83\x00", "opcode 3"),
            (websocket.write(CONTINUATION, DATA, False), "continuation"),
            (websocket.write(BINARY, DATA, False, fin=False) * 2, "second beginning"),
            (huge, "limit"),
            (websocket.write(BINARY, DATA + b"F", False), "not one frame"),
            (websocket.write(BINARY, DATA[:-1], False), "not one frame"),
            (websocket.write(BINARY, b"", False), "not one frame"),
            (websocket.write(BINARY, b"nonsense", False), "begin with FPNN"),
        ):
            with self.subTest(words), self.assertRaisesRegex(FrameInvalid, words):
                list(WebSocket().open(data))
        with self.assertRaisesRegex(FrameInvalid, "masks everything"):
            list(WebSocket(client=False).open(websocket.write(BINARY, DATA, False)))

    def test_fragments_count_towards_the_limit(self):
        half = frames.FRAME_BYTES_MAX // 2
        receiver = WebSocket()
        self.assertEqual(list(receiver.open(websocket.write(BINARY, bytes(half), False, fin=False))), [])
        with self.assertRaisesRegex(FrameInvalid, "limit"):
            list(receiver.open(bytes([0x80, 127]) + (half + 1).to_bytes(8)))


class Connected(unittest.TestCase):
    def connect(self, peer):
        return Client.connect(peer.address, websocket_path="/service/anything", timeout_s=TIMEOUT_S)

    def test_the_handshake_and_quests(self):
        asked = []

        def script(peer):
            asked.append(peer.upgrade())
            for _ in range(3):
                quest = peer.receive()
                peer.send(quest.answer({"n": quest.params()["n"]}))
            self.assertRaises(ConnectionLost, peer.receive)

        with Peer(script) as peer, self.connect(peer) as client:
            seqs = client.start_all([("m", {"n": n}) for n in range(2)])
            self.assertEqual([client.answer(seq) for seq in reversed(seqs)], [{"n": 1}, {"n": 0}])
            self.assertEqual(client.quest("m", {"n": 2}, encoding="json"), {"n": 2})
        first, headers = asked[0]
        self.assertEqual(first, "GET /service/anything HTTP/1.1")
        self.assertEqual((headers["upgrade"], headers["sec-websocket-version"]), ("websocket", "13"))
        self.assertEqual(headers["host"], peer.address)

    def test_a_push_behind_the_handshake_pings_and_fragments(self):
        def script(peer):
            peer.upgrade()
            peer.send_bytes(websocket.write(PING, b"you", False))
            quest = peer.receive()
            self.assertEqual(peer.pongs, [b"you"])
            answer = frames.encode(quest.answer({"long": "y" * 1000}))
            peer.send_bytes(websocket.write(PING, b"", False).join(pieces(answer, [5, 500], masked=False)))
            self.assertRaises(ConnectionLost, peer.receive)

        with Peer(script) as peer, self.connect(peer) as client:
            # The pong to our ping comes from the peer's channel, once it has read the ping that it waits behind.
            self.assertEqual(client.websocket_ping(b"me"), b"me")
            self.assertEqual(client.quest("m"), {"long": "y" * 1000})

    def test_the_peer_closes(self):
        def script(peer):
            peer.upgrade()
            quest = peer.receive()
            peer.send(quest.answer({}))
            peer.send_close(1001)
            self.assertRaisesRegex(ConnectionLost, "1001", peer.receive)

        with Peer(script) as peer, self.connect(peer) as client:
            self.assertEqual(client.quest("m"), {})
            with self.assertRaisesRegex(ConnectionLost, "1001"):
                client.serve_pushes(1)

    def test_a_pong_without_the_pings_payload_is_seen(self):
        # FPNN's own server answers so; whoever cares compares.
        def script(peer):
            peer.upgrade()
            peer.receive_bytes()
            peer.send_bytes(bytes.fromhex("8a00"))

        with Peer(script) as peer, self.connect(peer) as client:
            self.assertEqual(client.websocket_ping(b"payload"), b"")

    def test_handshakes_that_fail(self):
        good = websocket.response("dGhlIHNhbXBsZSBub25jZQ==")
        for answer, failure in (
            (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", HandshakeFailed),
            (good, HandshakeFailed),
            (good.replace(b"Upgrade: websocket", b"Upgrade: h2c"), HandshakeFailed),
            (b"x" * (1 << 17), HandshakeFailed),
            (good[:20], ConnectionLost),
        ):
            def script(peer, answer=answer):
                peer.receive_bytes()
                try:
                    peer.send_bytes(answer)
                except OSError:
                    # The client has heard enough.
                    pass

            with self.subTest(answer[:20]), Peer(script) as peer, self.assertRaises(failure):
                self.connect(peer)


if __name__ == "__main__":
    unittest.main()
