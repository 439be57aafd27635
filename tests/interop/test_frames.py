"""Captured frames both ways, byte for byte, and streams cut in every place. Plain Python 3.11."""

import struct
import unittest

import channel
import frames
from captured import CAPTURED, WHOLE, captured, key_quest
from curves import CURVES, KeyPair
from errors import FrameInvalid, PayloadInvalid
from msgpack_codec import text_of


class Captured(unittest.TestCase):
    def test_whole_frames_both_ways(self):
        for name in WHOLE:
            with self.subTest(name):
                data, expected = captured(name), CAPTURED[name]
                frame = frames.decode(data)
                self.assertEqual((frame.version, frame.flags), (1, frames.MSGPACK))
                for field in ("mtype", "seq", "method", "status"):
                    self.assertEqual(getattr(frame, field), expected[field], field)
                self.assertEqual(frame.params(), expected["params"])
                self.assertEqual(frames.encode(frame), data)

    def test_whole_frames_from_their_values(self):
        quest, expected = frames.decode(captured("quest")), CAPTURED["quest"]
        self.assertEqual(frames.encode(frames.quest("two way demo", expected["params"], 1)), captured("quest"))
        self.assertEqual(frames.encode(quest.answer(CAPTURED["answer"]["params"])), captured("answer"))
        push = frames.quest("duplex quest", {}, 1)
        self.assertEqual(frames.encode(push.answer(CAPTURED["push_answer"]["params"])), captured("push_answer"))
        ping = frames.quest("*ping", {}, 7)
        self.assertEqual(frames.encode(ping.answer(CAPTURED["ping_answer"]["params"])), captured("ping_answer"))

    def test_lengths(self):
        self.assertEqual([len(captured(name)) for name in WHOLE], [145, 37, 36, 29])
        # Twelve bytes are enough to know it.
        self.assertEqual(frames.length(captured("quest")[:12]), 145)

    def test_the_key_quest_both_ways(self):
        for private in (1, 2, CURVES["secp256k1"].group_order - 1):
            pair = KeyPair(CURVES["secp256k1"], private)
            self.assertEqual(len(pair.public), CAPTURED["key_handshake"]["public_key_bytes"])
            data = key_quest(pair.public)
            frame = frames.decode(data)
            self.assertEqual((frame.mtype, frame.method, frame.seq), (frames.TWOWAY, "*key", 1))
            found = frame.params()
            self.assertEqual(found, {"publicKey": text_of(pair.public), "streamMode": False, "bits": 128})
            self.assertEqual(frames.encode(frame), data)
            encryption = channel.Encryption("secp256k1", pair.public, pair=pair)
            self.assertEqual(frames.encode(frames.quest("*key", encryption.params(), 1)), data)

    def test_the_key_answer_has_the_layout_of_an_encrypted_empty_map(self):
        found = CAPTURED["key_handshake"]
        size = struct.unpack("<I", bytes.fromhex(found["answer_length_hex"]))[0]
        self.assertEqual(size, len(bytes.fromhex(found["answer_ciphertext_hex"])))
        answer = frames.encode(frames.decode(key_quest(bytes(64))).answer({}))
        self.assertEqual((len(answer), answer[-1:]), (size, b"\x80"))
        # Sealed with a key of ours: the same length before the same number of bytes.
        sealed = channel.Package(bytes(16), bytes(16)).seal(answer)
        self.assertEqual((sealed[:4].hex(" "), len(sealed)), (found["answer_length_hex"], 4 + size))


class Written(unittest.TestCase):
    def test_kinds_and_encodings(self):
        for encoding, flags in frames.FLAGS.items():
            for seq in (None, 1, 2**32 - 1):
                frame = frames.quest("a method", {"text": "中", "list": [1, None]}, seq, encoding)
                data = frames.encode(frame)
                self.assertEqual(len(data), (12 if seq is None else 16) + 8 + len(frame.payload))
                self.assertEqual(data[5], flags)
                found = frames.decode(data)
                self.assertEqual((found, found.params()), (frame, {"text": "中", "list": [1, None]}))

    def test_an_answer_copies_the_header_of_its_quest(self):
        quest = frames.Frame(frames.TWOWAY, b"{}", 9, "m", flags=frames.JSON | 0x20, version=3)
        answer = frames.encode(quest.error(20004, "no"))
        self.assertEqual(answer[:8], b"FPNN" + bytes([3, 0x60, 2, 1]))
        self.assertEqual(frames.decode(answer).params(), {"code": 20004, "ex": "no"})

    def test_json_as_fpnn_prints_it(self):
        answer = frames.quest("m", {}, 1, "json").answer({"Simple": "one", "Simple2": 2})
        self.assertEqual(frames.Frame(2, b'{"Simple":"one", "Simple2":2}', 1, flags=frames.JSON).params(), answer.params())

    def test_refused(self):
        for frame in (
            frames.Frame(1, b"\x80", 1, ""),
            frames.Frame(1, b"\x80", 1, "m" * 256),
            frames.Frame(1, b"\x80", None, "m"),
            frames.Frame(0, b"\x80", 1, "m"),
            frames.Frame(2, b"\x80", 1, "m"),
            frames.Frame(2, b"\x80", 1, status=2),
            frames.Frame(1, b"", 1, "m"),
            frames.Frame(1, b"\x80", 1, "m", flags=0xC0),
            frames.Frame(1, b"\x80" * frames.FRAME_BYTES_MAX, 1, "m"),
        ):
            with self.assertRaises(FrameInvalid):
                frames.encode(frame)


class Split(unittest.TestCase):
    DATA = b"".join(map(captured, WHOLE))

    def test_every_boundary(self):
        expected = [captured(name) for name in WHOLE]
        for at in range(len(self.DATA) + 1):
            splitter = frames.Splitter()
            self.assertEqual([*splitter.feed(self.DATA[:at]), *splitter.feed(self.DATA[at:])], expected, at)

    def test_byte_by_byte(self):
        splitter = frames.Splitter()
        found = [frame for at in range(len(self.DATA)) for frame in splitter.feed(self.DATA[at : at + 1])]
        self.assertEqual(found, [captured(name) for name in WHOLE])

    def test_streams_that_make_no_sense(self):
        good = captured("answer")
        for at, byte, words in (
            (0, 0x58, "begin with FPNN"), (3, 0x58, "begin with FPNN"), (5, 0xC0, "flags"), (5, 0x00, "flags"),
            (6, 5, "mtype"), (7, 2, "ss"), (8, 0, "payload"), (11, 0x7F, "limit"),
        ):
            data = bytearray(good)
            data[at] = byte
            with self.subTest(at=at, byte=byte), self.assertRaisesRegex(FrameInvalid, words):
                list(frames.Splitter().feed(data))

    def test_what_came_before_is_still_given(self):
        found = []
        with self.assertRaises(FrameInvalid):
            found.extend(frames.Splitter().feed(captured("answer") + b"nonsense"))
        self.assertEqual(found, [captured("answer")])

    def test_the_limit_is_of_the_whole_frame(self):
        for mtype, fixed in ((0, 12 + 1), (1, 16 + 1), (2, 16)):
            for over in (0, 1):
                psize = frames.FRAME_BYTES_MAX - fixed + over
                head = b"FPNN" + struct.pack("<BBBBI", 1, 0x80, mtype, 0 if mtype == 2 else 1, psize)
                with self.subTest(mtype=mtype, over=over):
                    if over:
                        self.assertRaises(FrameInvalid, frames.length, head)
                    else:
                        self.assertEqual(frames.length(head), frames.FRAME_BYTES_MAX)

    def test_payloads_that_are_no_map(self):
        for payload, flags in ((b"\x93\x01\x02\x03", 0x80), (b"\x80\x80", 0x80), (b"[1]", 0x40), (b"{", 0x40), (b"\xff", 0x40)):
            with self.assertRaises(PayloadInvalid):
                frames.Frame(2, payload, 1, flags=flags).params()

    def test_methods_are_utf8(self):
        data = frames.encode(frames.quest("ab", {}, 1)).replace(b"ab", b"\xff\xfe")
        with self.assertRaisesRegex(FrameInvalid, "UTF-8"):
            frames.decode(data)


if __name__ == "__main__":
    unittest.main()
