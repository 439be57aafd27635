"""The client against a scripted peer: answers in any order, pushes, oneway quests, failures, encryption, every kind of socket.

Plain Python 3.11.
"""

import ssl
import tempfile
import unittest
from pathlib import Path

import channel
import frames
from client import LATER, Client
from curves import CURVES, KeyPair
from errors import AnswerError, ConnectionLost, FrameInvalid, KeyInvalid, PayloadInvalid, PeerInvalid, TimedOut
from msgpack_codec import text_of
from peer import TIMEOUT_S, Peer

CERTIFICATE = Path(__file__).resolve().parent / "localhost.pem"
# For what must not come: short, because the wait is the test. Nothing asserts how long it took.
SHORT_S = 0.01


def connect(peer, **options):
    return Client.connect(peer.address, **{"timeout_s": TIMEOUT_S, **options})


def echo(peer):
    """Answers each quest with its params until the client leaves."""
    try:
        while True:
            quest = peer.receive()
            if quest.mtype == frames.TWOWAY:
                peer.send(quest.answer({"method": quest.method, "params": quest.params()}))
    except ConnectionLost:
        # The client is done.
        pass


class Quests(unittest.TestCase):
    def test_both_encodings(self):
        with Peer(echo) as peer, connect(peer) as client:
            for encoding in frames.FLAGS:
                for params in ({}, {"text": "中", "deep": [{"n": [None, -5, 1.5]}]}):
                    answer = client.quest("two way demo", params, encoding=encoding)
                    self.assertEqual(answer, {"method": "two way demo", "params": params})
            self.assertEqual(client.quest("m", {"b": b"\xff"})["params"], {"b": b"\xff"})
            with self.assertRaises(PayloadInvalid):
                client.quest("m", {"b": b"\xff"}, encoding="json")

    def test_answers_in_any_order(self):
        def reversed_answers(peer):
            quests = [peer.receive() for _ in range(20)]
            peer.send(*(quest.answer({"echo": quest.params()["n"]}) for quest in reversed(quests)))

        with Peer(reversed_answers) as peer, connect(peer) as client:
            seqs = client.start_all([("m", {"n": n}) for n in range(20)])
            self.assertEqual(len(set(seqs)), 20)
            for n in (7, 19, 0, *range(1, 7), *range(8, 19)):
                self.assertEqual(client.answer(seqs[n]), {"echo": n})
            with self.assertRaises(ValueError):
                client.answer(seqs[0])

    def test_oneway_quests_have_no_answer(self):
        def collect(peer):
            arrived = [peer.receive() for _ in range(3)]
            peer.send(arrived[2].answer({"seqs": [quest.seq for quest in arrived[:2]], "n": arrived[1].params()["n"]}))

        with Peer(collect) as peer, connect(peer) as client:
            self.assertIsNone(client.quest("m", {"n": 1}, oneway=True))
            self.assertIsNone(client.quest("m", {"n": 2}, oneway=True, encoding="json"))
            self.assertEqual(client.quest("m"), {"seqs": [None, None], "n": 2})

    def test_error_answers(self):
        def refuse(peer):
            first, second = peer.receive(), peer.receive()
            peer.send(first.error(20004, "unknown method"), second.answer({"code": 1}, status=1))

        with Peer(refuse) as peer, connect(peer) as client:
            first, second = client.start_all([("nope", {}), ("nope", {})])
            with self.assertRaises(AnswerError) as raised:
                client.answer(first)
            self.assertEqual((raised.exception.code, raised.exception.ex), (20004, "unknown method"))
            with self.assertRaises(PeerInvalid):
                client.answer(second)

    def test_the_seq_wraps_past_zero(self):
        with Peer(echo) as peer, connect(peer) as client:
            client._seq = 2**32 - 2
            seqs = client.start_all([("m", {})] * 2)
            self.assertEqual(seqs, [2**32 - 1, 1])
            for seq in seqs:
                client.answer(seq)


class Failures(unittest.TestCase):
    def test_a_late_answer_is_dropped(self):
        def late(peer):
            quests = [peer.receive() for _ in range(2)]
            peer.send(*(quest.answer({"n": n}) for n, quest in enumerate(quests)))

        with Peer(late) as peer, connect(peer) as client:
            with self.assertRaises(TimedOut):
                client.quest("slow", timeout_s=SHORT_S)
            # Both answers come now; the first is nobody's.
            self.assertEqual(client.quest("quick"), {"n": 1})

    def test_a_closed_connection(self):
        def leave(peer):
            quests = [peer.receive() for _ in range(2)]
            peer.send(quests[0].answer({}))

        with Peer(leave) as peer, connect(peer) as client:
            first, second = client.start_all([("m", {}), ("m", {})])
            for _ in range(2):
                with self.assertRaises(ConnectionLost):
                    client.answer(second)
            self.assertEqual(client.answer(first), {}, "it had come before the end")
            with self.assertRaises(ConnectionLost):
                client.quest("m")

    def test_half_a_frame_then_the_end(self):
        def half(peer):
            peer.send_bytes(frames.encode(peer.receive().answer({"a": "b"}))[:-1])

        with Peer(half) as peer, connect(peer) as client, self.assertRaises(ConnectionLost):
            client.quest("m")

    def test_nonsense_after_an_answer(self):
        def nonsense(peer):
            peer.send_bytes(frames.encode(peer.receive().answer({"fine": 1})) + b"HTTP/1.1 400 ")

        with Peer(nonsense) as peer, connect(peer) as client:
            self.assertEqual(client.quest("m"), {"fine": 1})
            with self.assertRaises((FrameInvalid, ConnectionLost)):
                client.quest("m")

    def test_an_answer_that_nobody_waits_for(self):
        for seq in (2, 2**32 - 1):
            def stray(peer, seq=seq):
                peer.receive()
                peer.send(frames.Frame(frames.ANSWER, b"\x80", seq))

            with self.subTest(seq=seq), Peer(stray) as peer, connect(peer) as client, self.assertRaises(PeerInvalid):
                client.quest("m")

    def test_nobody_listens(self):
        with Peer(lambda peer: None) as peer, connect(peer):
            pass
        with self.assertRaises(ConnectionLost):
            connect(peer)
        with self.assertRaises(ConnectionLost):
            Client.connect("unix:no such socket")

    def test_addresses(self):
        for address in ("localhost", ":", "host:port", "unix"):
            with self.assertRaises(ValueError):
                Client.connect(address)


class Pushes(unittest.TestCase):
    def check(self, push, handler, expected):
        """Pushes a quest while the client waits for an answer; the client's answer to it must be `expected`."""
        seen = []

        def script(peer):
            quest = peer.receive()
            peer.send(push)
            seen.append(peer.receive())
            peer.send(quest.answer({}))

        with Peer(script) as peer, connect(peer) as client:
            client.on_push("duplex quest", handler)
            self.assertEqual(client.quest("m"), {})
        answer = seen[0]
        self.assertEqual((answer.mtype, answer.seq, answer.flags), (frames.ANSWER, push.seq, push.flags))
        self.assertEqual((answer.status, answer.params()), expected)

    def test_answers(self):
        def refuse(push):
            raise AnswerError(100, "no")

        quest = frames.quest("duplex quest", {"n": 1}, 1)
        self.check(quest, lambda push: {"Simple": "one", "duplex": 2}, (0, {"Simple": "one", "duplex": 2}))
        # The server counts its own seqs, which may be those of ours in flight.
        self.check(frames.quest("duplex quest", {"n": 1}, 77, "json"), lambda push: push.params, (0, {"n": 1}))
        self.check(quest, lambda push: push.answer({"early": 1}), (0, {"early": 1}))
        self.check(quest, refuse, (1, {"code": 100, "ex": "no"}))
        self.check(quest, lambda push: None, (1, {"code": 20001, "ex": "'duplex quest' returned nothing"}))
        self.check(frames.quest("other", {}, 3), None, (1, {"code": 20004, "ex": "unknown method 'other'"}))

    def test_a_push_answered_later_and_once(self):
        def script(peer):
            peer.send(frames.quest("later", {}, 5))
            peer.send(peer.receive().answer({}))
            answer = peer.receive()
            peer.send(peer.receive().answer({"seq": answer.seq, "got": answer.params()}))

        kept = []

        def keep(push):
            kept.append(push)
            return LATER

        with Peer(script) as peer, connect(peer) as client:
            client.on_push("later", keep)
            client.serve_pushes(1)
            self.assertEqual(client.quest("m"), {})
            kept[0].answer({"n": 1})
            kept[0].answer({"n": 2})
            self.assertEqual(client.quest("m"), {"seq": 5, "got": {"n": 1}})

    def test_oneway_pushes_and_quests_from_within_a_handler(self):
        def script(peer):
            peer.send(frames.quest("tell", {"n": 1}), frames.quest("ask", {}, 1), frames.quest("nobody's", {}))
            inner = peer.receive()
            peer.send(inner.answer({"inner": 1}))
            peer.send(frames.quest("ask", {}, 2))
            answers = {answer.seq: answer.params() for answer in (peer.receive(), peer.receive())}
            self.assertEqual(answers, {1: {"inner": 1}, 2: {}})

        told = []
        with Peer(script) as peer, connect(peer) as client:
            client.on_push("tell", lambda push: told.append((push.params, push.seq)))
            client.on_push("ask", lambda push: client.quest("inner") if push.seq == 1 else {})
            client.serve_pushes(4)
        self.assertEqual(told, [({"n": 1}, None)])


class Encrypted(unittest.TestCase):
    def test_every_curve_size_and_mode(self):
        for name, curve in CURVES.items():
            for bits in (128, 256):
                for stream_mode in (False, True):
                    with self.subTest(curve=name, bits=bits, stream_mode=stream_mode):
                        self.check(curve, bits, stream_mode)

    def check(self, curve, bits, stream_mode):
        private = 0x1234_5678_9ABC
        agreed = []

        def script(peer):
            agreed.append(peer.agree(curve.name, private))
            echo(peer)

        encryption = channel.Encryption(curve.name, KeyPair(curve, private).public, bits, stream_mode)
        with Peer(script) as peer, connect(peer, encryption=encryption) as client:
            seqs = client.start_all([("m", {"n": n, "long": "x" * n}) for n in range(20)])
            for n, seq in enumerate(seqs):
                self.assertEqual(client.answer(seq)["params"]["n"], n)
            self.assertEqual(client.quest("m", {"j": 1}, encoding="json")["params"], {"j": 1})
        quest = agreed[0]
        self.assertEqual((quest.method, quest.seq), ("*key", 1))
        params = quest.params()
        self.assertEqual(params, {"publicKey": text_of(encryption.pair.public), "bits": bits, "streamMode": stream_mode})

    def test_another_key_than_the_servers(self):
        curve = CURVES["secp256k1"]
        encryption = channel.Encryption(curve.name, KeyPair(curve, 6).public)
        with Peer(lambda peer: peer.agree(curve.name, 5)) as peer, self.assertRaises(FrameInvalid):
            connect(peer, encryption=encryption)

    def test_a_server_that_closes_at_the_key(self):
        encryption = channel.Encryption("secp192r1", KeyPair(CURVES["secp192r1"], 6).public)
        with Peer(lambda peer: peer.receive()) as peer, self.assertRaises(ConnectionLost):
            connect(peer, encryption=encryption)

    def test_a_server_key_that_is_none(self):
        encryption = channel.Encryption("secp192r1", bytes(48))
        with Peer(lambda peer: peer.receive()) as peer, self.assertRaises(KeyInvalid):
            connect(peer, encryption=encryption)

    def test_not_through_a_websocket(self):
        encryption = channel.Encryption("secp192r1", bytes(48))
        with self.assertRaises(ValueError):
            Client.connect("127.0.0.1:1", encryption=encryption, websocket_path="/service/ws")


class Sockets(unittest.TestCase):
    def test_families(self):
        with tempfile.TemporaryDirectory(prefix="millpond-interop-") as folder:
            for family in ("IPv4", "IPv6", "unix"):
                with self.subTest(family):
                    try:
                        peer = Peer(echo, family, Path(folder) / "socket")
                    except OSError as error:
                        self.skipTest(f"this machine has no {family}: {error}")
                    with peer, connect(peer) as client:
                        self.assertEqual(client.quest("m", {"a": 1})["params"], {"a": 1})

    def test_tls(self):
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(CERTIFICATE)
        trusting = ssl.create_default_context(cafile=CERTIFICATE)
        for server_name in (None, "localhost"):
            with Peer(echo, tls=server) as peer, connect(peer, tls=trusting, server_name=server_name) as client:
                long = "x" * 100_000
                self.assertEqual(client.quest("m", {"long": long})["params"], {"long": long})
        for refusing, server_name in ((trusting, "example.com"), (ssl.create_default_context(), "localhost")):
            def refused(peer, server=server):
                with self.assertRaises((ssl.SSLError, ConnectionError, ConnectionLost)):
                    peer.start_tls(server)
                    peer.receive()

            with Peer(refused) as peer, self.assertRaisesRegex(ConnectionLost, "CERTIFICATE_VERIFY_FAILED"):
                connect(peer, tls=refusing, server_name=server_name)


if __name__ == "__main__":
    unittest.main()
