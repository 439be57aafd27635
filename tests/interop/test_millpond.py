"""The client against a real Millpond server: both encodings, pipelining, frames cut anywhere, bad frames, HTTP. Plain Python 3.11.

Left out where no server is built; MILLPOND_BIN names one elsewhere than cargo puts it.
"""

import unittest

import frames
import msgpack_codec
from captured import captured
from client import Client
from dial import dial
from errors import AnswerError
from http_call import HttpClient, HttpError
from millpond_server import FRAME_BYTES_MAX, Millpond, missing

# A bound for a server that hangs; no test waits for it otherwise.
TIMEOUT_S = 30
UNKNOWN_METHOD, INVALID_PACKAGE, ROOT_NOT_A_MAP, KEY_MISSING, TOO_LARGE = 20004, 10003, 10006, 10009, 30110
# Turns in which what a oneway put wrote must be seen.
TURNS_MAX = 10_000


class Served(unittest.TestCase):
    """One server for all tests of a class; each test has keys of its own."""

    @classmethod
    def setUpClass(cls):
        if reason := missing():
            raise unittest.SkipTest(reason)
        cls.server = cls.enterClassContext(Millpond())

    def client(self):
        return self.enterContext(Client.connect(self.server.address, timeout_s=TIMEOUT_S))

    def http(self):
        return self.enterContext(HttpClient(self.server.address, timeout_s=TIMEOUT_S))

    def raw(self):
        return self.enterContext(Raw(self.server.address))

    def served(self):
        """Whatever a test did before, the next connection is served."""
        with Client.connect(self.server.address, timeout_s=TIMEOUT_S) as client:
            self.assertIn("ts", client.quest("*ping"))

    def refused(self, code, call, *arguments, **options):
        """The error of a call that must fail with `code`."""
        with self.assertRaises(AnswerError) as raised:
            call(*arguments, **options)
        self.assertEqual(raised.exception.code, code, raised.exception)
        self.assertIs(type(raised.exception.answer["retryable"]), bool)
        return raised.exception


class Raw:
    """A socket for bytes that a client would not send."""

    def __init__(self, address):
        self._connected = dial(address, TIMEOUT_S)
        self._splitter = frames.Splitter()
        self._arrived = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._connected.close()

    def send(self, data):
        self._connected.sendall(data)

    def receive(self):
        """The next frame, or None at the end of the stream."""
        while not self._arrived:
            data = self._connected.recv(1 << 16)
            if not data:
                return None
            self._arrived.extend(map(frames.decode, self._splitter.feed(data)))
        return self._arrived.pop(0)


class Calls(Served):
    def test_ping_is_answered_as_captured(self):
        raw = self.raw()
        raw.send(frames.encode(frames.quest("*ping", {}, 7)))
        expected = frames.decode(captured("ping_answer"))
        answer = raw.receive()
        # Header, key and the width of the number are FPNN's, byte for byte.
        self.assertEqual(frames.encode(answer)[:-8], frames.encode(expected)[:-8])
        self.assertIsInstance(answer.params()["ts"], int)

    def test_ping_and_infos_in_both_encodings(self):
        client = self.client()
        for encoding in frames.FLAGS:
            self.assertIsInstance(client.quest("*ping", encoding=encoding)["ts"], int)
            infos = client.quest("*infos", encoding=encoding)
            self.assertGreaterEqual(infos["FPNN.status"]["server"]["status"]["currentConnections"], 1)
            self.assertIn("ordered.put", infos["millpond"]["methods"])

    def test_put_get_and_scan_in_msgpack(self):
        client = self.client()
        entries = [[b"m/%02d\xff" % n, bytes(range(n))] for n in range(40)]
        put = client.quest("ordered.put", {"entries": entries})
        self.assertEqual((len(put["versions"]), put["durability"]), (40, "memory"))
        found = client.quest("ordered.get", {"keys": [key for key, _ in entries] + [b"m/none"]})
        self.assertEqual(found["values"], [value for _, value in entries] + [None])
        self.assertEqual(found["versions"], put["versions"] + [0])
        scanned, cursor = [], None
        while True:
            page = client.quest("ordered.scan", {"prefix": b"m/", "limit": 7, "cursor": cursor})
            scanned += page["entries"]
            if (cursor := page.get("cursor")) is None:
                break
        self.assertEqual(scanned, entries)

    def test_put_and_get_in_json(self):
        client = self.client()
        client.quest("ordered.put", {"entries": [["j/中", "wert\n\"é\""]]}, encoding="json")
        found = client.quest("ordered.get", {"keys": ["j/中", "j/none"]}, encoding="json")
        self.assertEqual([value and bytes(value) for value in found["values"]], ["wert\n\"é\"".encode(), None])
        # What was written in one encoding is read in the other.
        self.assertEqual(client.quest("ordered.get", {"keys": ["j/中"]})["values"], ["wert\n\"é\"".encode()])

    def test_values_of_every_width_of_length(self):
        client = self.client()
        sizes = (0, 1, 31, 32, 255, 256, 40_000)
        client.quest("ordered.put", {"entries": [[f"w/{size}", bytes(size)] for size in sizes[:-1]]})
        client.quest("ordered.put", {"entries": [[f"w/{sizes[-1]}", bytes(sizes[-1])]]})
        found = client.quest("ordered.get", {"keys": [f"w/{size}" for size in sizes]})
        self.assertEqual([len(value) for value in found["values"]], list(sizes))

    def test_the_largest_frame_that_is_taken(self):
        client = self.client()
        fixed = len(frames.encode(frames.quest("ordered.put", {"entries": [["big", bytes(60_000)]]}, 1))) - 60_000
        for over, largest in ((0, bytes(FRAME_BYTES_MAX - fixed)), (1, bytes(FRAME_BYTES_MAX - fixed + 1))):
            params = {"entries": [["big", largest]]}
            self.assertEqual(len(frames.encode(frames.quest("ordered.put", params, 1))), FRAME_BYTES_MAX + over)
            if over:
                self.refused(TOO_LARGE, client.quest, "ordered.put", params)
            else:
                client.quest("ordered.put", params)
        self.served()

    def test_msgpack_in_its_longest_forms(self):
        # {"limit": 5, "prefix": "l/"} with a map 32, str 8, 16 and 32, and a uint 64.
        self.client().quest("ordered.put", {"entries": [["l/a", "1"]]})
        payload = bytes.fromhex(
            "df00000002 d9056c696d6974 cf0000000000000005 da0006707265666978 db000000026c2f"
        )
        self.assertEqual(msgpack_codec.decode(payload), {"limit": 5, "prefix": "l/"})
        raw = self.raw()
        raw.send(frames.encode(frames.Frame(frames.TWOWAY, payload, 1, "ordered.scan")))
        self.assertEqual(raw.receive().params(), {"entries": [[b"l/a", b"1"]]})

    def test_oneway_quests_act_and_have_no_answer(self):
        client = self.client()
        client.quest("no such method", {}, oneway=True)
        for encoding in frames.FLAGS:
            key = f"o/{encoding}"
            client.quest("ordered.put", {"entries": [[key, "1"]]}, oneway=True, encoding=encoding)
            # The client raises at any answer that it does not wait for. A put may be applied after later reads.
            found = (client.quest("ordered.get", {"keys": [key]})["values"][0] for _ in range(TURNS_MAX))
            self.assertEqual(next(value for value in found if value is not None), b"1")

    def test_a_hundred_quests_in_one_write(self):
        client = self.client()
        for encoding in frames.FLAGS:
            client.quest("ordered.put", {"entries": [[f"p/{n}", f"{n}"] for n in range(100)]})
            seqs = client.start_all([("ordered.get", {"keys": [f"p/{n}"]}) for n in range(100)], encoding=encoding)
            for n in reversed(range(100)):
                self.assertEqual(bytes(client.answer(seqs[n])["values"][0]), b"%d" % n)

    def test_reads_writes_and_errors_in_flight_together(self):
        client = self.client()
        calls = [
            call
            for n in range(50)
            for call in (("ordered.put", {"entries": [[f"f/{n}", "1"]]}), ("nope", {}), ("*ping", {}), ("ordered.get", {}))
        ]
        seqs = client.start_all(calls)
        for seq, (method, _) in zip(seqs, calls):
            code = {"nope": UNKNOWN_METHOD, "ordered.get": KEY_MISSING}.get(method)
            if code:
                self.refused(code, client.answer, seq)
            else:
                client.answer(seq)

    def test_headers_are_copied_from_the_quest(self):
        raw = self.raw()
        for flags, payload in ((frames.MSGPACK, b"\x80"), (frames.JSON, b"{}"), (frames.JSON, b" {\n} ")):
            for seq in (0, 1, 2**31, 2**32 - 1):
                for method, status in (("*ping", 0), ("nope", 1)):
                    raw.send(frames.encode(frames.Frame(frames.TWOWAY, payload, seq, method, flags=flags)))
                    answer = raw.receive()
                    found = (answer.version, answer.flags, answer.mtype, answer.status, answer.seq)
                    self.assertEqual(found, (1, flags, frames.ANSWER, status, seq))

    def test_errors(self):
        client = self.client()
        for encoding in frames.FLAGS:
            for method in ("nope", "two way demo", "x" * 255, "中"):
                error = self.refused(UNKNOWN_METHOD, client.quest, method, encoding=encoding)
                self.assertIn(method, error.ex)
            error = self.refused(KEY_MISSING, client.quest, "ordered.get", encoding=encoding)
            self.assertIn('"keys"', error.ex)
            for leaked in ("127.0.0.1", ".rs", "panicked"):
                self.assertNotIn(leaked, error.ex)

    def test_the_captured_quest_is_read(self):
        raw = self.raw()
        raw.send(captured("quest"))
        answer = raw.receive()
        self.assertEqual((answer.seq, answer.status, answer.params()["code"]), (1, 1, UNKNOWN_METHOD))


class Cut(Served):
    """The same quests, dealt out in different pieces."""

    FIRST = frames.encode(frames.quest("ordered.get", {"keys": [b"absent"]}, 1))
    SECOND = frames.encode(frames.quest("*ping", {}, 2, "json"))

    def check(self, pieces):
        """Sends the pieces, and gets both answers and no more. Between pieces another connection is served."""
        raw, other = self.raw(), self.client()
        for piece in pieces:
            raw.send(piece)
            # The server's one net thread has had the piece in its hands when this is answered, or has it with the next.
            other.quest("*ping")
        answers = {answer.seq: answer for answer in (raw.receive(), raw.receive())}
        self.assertEqual(answers[1].params(), {"values": [None], "versions": [0]})
        self.assertIn("ts", answers[2].params())
        raw.send(frames.encode(frames.quest("*ping", {}, 3)))
        self.assertEqual(raw.receive().seq, 3)

    def test_two_frames_in_one_segment(self):
        self.check([self.FIRST + self.SECOND])

    def test_every_boundary(self):
        both = self.FIRST + self.SECOND
        for at in range(1, len(both)):
            with self.subTest(at=at):
                self.check([both[:at], both[at:]])

    def test_byte_by_byte(self):
        both = self.FIRST + self.SECOND
        self.check([both[at : at + 1] for at in range(len(both))])

    def test_a_frame_abandoned_in_its_middle(self):
        for at in range(1, len(self.FIRST)):
            with dial(self.server.address, TIMEOUT_S) as connected:
                connected.sendall(self.FIRST[:at])
        self.served()


class BadFrames(Served):
    PING = frames.encode(frames.quest("*ping", {}, 7))

    def changed(self, at, byte):
        data = bytearray(self.PING)
        data[at] = byte
        return bytes(data)

    def closes(self, data):
        """The error code, or None, that comes before the server closes."""
        raw = self.raw()
        raw.send(data)
        first = raw.receive()
        self.assertIsNone(first and raw.receive(), "nothing but one error may come")
        self.served()
        if first is None:
            return None
        self.assertEqual((first.mtype, first.status), (frames.ANSWER, 1))
        return first.params()["code"]

    def test_what_closes_the_connection(self):
        without_payload = self.PING[:8] + bytes(4) + self.PING[12:-1]
        too_large = self.PING[:8] + FRAME_BYTES_MAX.to_bytes(4, "little") + self.PING[12:]
        for data, codes in (
            (self.changed(0, 0x58), (None,)),
            (self.changed(3, 0x58), (None,)),
            (self.changed(4, 0), (INVALID_PACKAGE,)),
            (self.changed(4, 9), (INVALID_PACKAGE,)),
            (self.changed(5, 0xC0), (INVALID_PACKAGE,)),
            (self.changed(5, 0x00), (INVALID_PACKAGE,)),
            (self.changed(6, 5), (None, INVALID_PACKAGE)),
            (self.changed(7, 0), (INVALID_PACKAGE,)),
            (self.PING.replace(b"*ping", b"\xff\xfe\xfd\xfc\xfb"), (INVALID_PACKAGE,)),
            (without_payload, (INVALID_PACKAGE,)),
            (too_large, (TOO_LARGE,)),
            (self.changed(11, 0xFF), (TOO_LARGE,)),
        ):
            with self.subTest(data[:16].hex(" ")):
                # FPNN closes without a word; a word before the end is Millpond's.
                self.assertIn(self.closes(data), codes)

    def test_answers_before_the_bad_frame_still_come(self):
        raw = self.raw()
        raw.send(self.PING + self.PING + self.changed(0, 0x58))
        self.assertEqual([raw.receive().status, raw.receive().status], [0, 0])
        self.assertIsNone(raw.receive())

    def test_payloads_that_are_no_map_fail_alone(self):
        for payload, flags, codes in (
            (b"\x93\x01\x02\x03", frames.MSGPACK, (ROOT_NOT_A_MAP,)),
            (b"\xc1", frames.MSGPACK, (20006,)),
            (b"\x81\xa1a", frames.MSGPACK, (20006,)),
            (b"\x81\xa1a\xdd\xff\xff\xff\xff", frames.MSGPACK, (20006,)),
            (b"[1]", frames.JSON, (ROOT_NOT_A_MAP,)),
            (b"{", frames.JSON, (10004, 20006)),
        ):
            with self.subTest(payload):
                raw = self.raw()
                raw.send(frames.encode(frames.Frame(frames.TWOWAY, payload, 1, "ordered.get", flags=flags)) + self.PING)
                found = {answer.seq: answer for answer in (raw.receive(), raw.receive())}
                self.assertIn(found[1].params()["code"], codes)
                self.assertEqual((found[1].status, found[1].flags, found[7].status), (1, flags, 0))

    def test_bad_oneway_quests_have_no_answer(self):
        raw = self.raw()
        for payload in (b"\x93\x01\x02\x03", b"\xc1"):
            raw.send(frames.encode(frames.Frame(frames.ONEWAY, payload, method="ordered.put")))
        raw.send(self.PING)
        self.assertEqual(raw.receive().seq, 7)

    def test_an_answer_to_nothing_ends_the_connection(self):
        raw = self.raw()
        raw.send(self.PING + captured("push_answer") + self.PING)
        self.assertEqual(raw.receive().seq, 7)
        self.assertIsNone(raw.receive())
        self.served()


class Http(Served):
    def test_post_and_get(self):
        http = self.http()
        self.assertIsInstance(http.get("*ping")["ts"], int)
        self.assertIsInstance(http.post("*ping")["ts"], int)
        for chunked in (False, True):
            key = f"h/{chunked}/中 &?=%+#"
            self.assertEqual(len(http.post("ordered.put", {"entries": [[key, "1"]]}, chunked=chunked)["versions"]), 1)
            for found in (http.get("ordered.get", {"keys": [key]}), http.post("ordered.get", {"keys": [key]}, chunked=chunked)):
                self.assertEqual([bytes(value) for value in found["values"]], [b"1"])
            self.assertEqual(self.client().quest("ordered.get", {"keys": [key]})["values"], [b"1"])

    def test_errors_keep_the_connection(self):
        http = self.http()
        for call in (http.get, http.post):
            error = self.refused(UNKNOWN_METHOD, call, "two way demo")
            self.assertIsInstance(error, HttpError)
            self.assertEqual(error.http_status, 404)
            self.assertEqual(self.refused(KEY_MISSING, call, "ordered.get", {}).http_status, 400)
        self.assertIn("ts", http.get("*ping"))


if __name__ == "__main__":
    unittest.main()
