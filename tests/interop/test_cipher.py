"""AES-CFB128, the curves, and both modes of FPNN's encryption, on public vectors. Python 3.11."""

import hashlib
import random
import unittest

import channel
import frames
from curves import CURVES, KeyPair
from errors import FrameInvalid, KeyInvalid

SEED = 99
# NIST SP 800-38A, F.3.13 and F.3.17: CFB128 of four blocks.
IV = bytes(range(16))
PLAIN = bytes.fromhex(
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)
CFB128 = (
    (
        "2b7e151628aed2a6abf7158809cf4f3c",
        "3b3fd92eb72dad20333449f8e83cfb4ac8a64537a0b3a93fcde3cdad9f1ce58b"
        "26751f67a3cbb140b1808cf187a4f4dfc04b05357c5d1c0eeac4c66f9ff7f2e6",
    ),
    (
        "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
        "dc7e84bfda79164b7ecd8486985d386039ffed143b28b1c832113c6331e5407b"
        "df10132415e54b92a13ed0a8267ae2f975a385741ab9cef82031623d55b1e471",
    ),
)
# (curve, private key, peer's X || Y, shared X). secp256r1: RFC 5903, 8.1; secp224r1 and secp192r1: NIST CAVP, ECC CDH, count 0.
AGREEMENTS = (
    (
        "secp256r1", "c88f01f510d9ac3f70a292daa2316de544e9aab8afe84049c62a9c57862d1433",
        "d12dfb5289c8d4f81208b70270398c342296970a0bccb74c736fc7554494bf63"
        "56fbf3ca366cc23e8157854c13c58d6aac23f046ada30f8353e74f33039872ab",
        "d6840f6b42f6edafd13116e0e12565202fef8e9ece7dce03812464d04b9442de",
    ),
    (
        "secp224r1", "8346a60fc6f293ca5a0d2af68ba71d1dd389e5e40837942df3e43cbd",
        "af33cd0629bc7e996320a3f40368f74de8704fa37b8fab69abaae280882092ccbba7930f419a8a4f9bb16978bbc3838729992559a6f2e2d7",
        "7d96f9a3bd3c05cf5cc37feb8b9d5209d5c2597464dec3e9983743e8",
    ),
    (
        "secp192r1", "f17d3fea367b74d340851ca4270dcb24c271f445bed9d527",
        "42ea6dd9969dd2a61fea1aac7f8e98edcc896c6e55857cc0dfbe5d7c61fac88b11811bde328e8a0d12bf01a9d204b523",
        "803d8ab2e5b6e6fca715737c3a82f7ce3c783124f6d51cd0",
    ),
)
# Public keys of private ones: multiples of the generator that are widely published, and RFC 5903's two of P-256.
PUBLIC_KEYS = (
    (
        "secp256k1", "02",
        "c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5"
        "1ae168fea63dc339a3c58419466ceaeef7f632653266d0e1236431a950cfe52a",
    ),
    (
        "secp256k1", "03",
        "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9"
        "388f7b0f632de8140fe337e62a37f3566500a99934c2231b6cb9fd7584b8e672",
    ),
    (
        "secp256k1", "aa5e28d6a97a2479a65527f7290311a3624d4cc0fa1578598ee3c2613bf99522",
        "34f9460f0e4f08393d192b3c5133a6ba099aa0ad9fd54ebccfacdfa239ff49c6"
        "0b71ea9bd730fd8923f6d25a7a91e7dd7728a960686cb5a901bb419e0f2ca232",
    ),
    (
        "secp256r1", "c88f01f510d9ac3f70a292daa2316de544e9aab8afe84049c62a9c57862d1433",
        "dad0b65394221cf9b051e1feca5787d098dfe637fc90b9ef945d0c3772581180"
        "5271a0461cdb8252d61f1c456fa3e59ab1f45b33accf5f58389e0577b8990bb3",
    ),
    (
        "secp256r1", "c6ef9c5d78ae012a011164acb397ce2088685d8f06bf9be0b283ab46476bee53",
        "d12dfb5289c8d4f81208b70270398c342296970a0bccb74c736fc7554494bf63"
        "56fbf3ca366cc23e8157854c13c58d6aac23f046ada30f8353e74f33039872ab",
    ),
)


class Cipher(unittest.TestCase):
    def test_vectors_both_ways(self):
        for key, expected in CFB128:
            cipher = channel.cipher(bytes.fromhex(key), IV)
            self.assertEqual(cipher.encryptor().update(PLAIN).hex(), expected)
            self.assertEqual(cipher.decryptor().update(bytes.fromhex(expected)), PLAIN)


class Curves(unittest.TestCase):
    def test_public_keys(self):
        for name, private, expected in PUBLIC_KEYS:
            self.assertEqual(KeyPair(CURVES[name], int(private, 16)).public.hex(), expected)

    def test_agreements(self):
        for name, private, peer, expected in AGREEMENTS:
            self.assertEqual(KeyPair(CURVES[name], int(private, 16)).secret(bytes.fromhex(peer)).hex(), expected)

    def test_both_sides_agree(self):
        for curve in CURVES.values():
            one, other = KeyPair.fresh(curve), KeyPair.fresh(curve)
            self.assertEqual(one.secret(other.public), other.secret(one.public))
            self.assertEqual(len(one.public), curve.key_size // 4)

    def test_points_off_the_curve_are_refused(self):
        for curve in CURVES.values():
            pair = KeyPair(curve, 5)
            good = pair.public
            beyond = bytes([0xFF]) * (len(good) // 2) + good[len(good) // 2 :]
            for bad in (bytes(len(good)), good[:-1], good + b"\0", b"\x04" + good, good[:-1] + bytes([good[-1] ^ 1]), beyond):
                with self.subTest(curve.name), self.assertRaises(KeyInvalid):
                    pair.secret(bad)

    def test_private_keys_out_of_range_are_refused(self):
        for private in (0, CURVES["secp256k1"].group_order):
            with self.assertRaises(KeyInvalid):
                KeyPair(CURVES["secp256k1"], private).public.hex()


class Channels(unittest.TestCase):
    FRAMES = [frames.encode(frames.quest("m", {"n": "x" * size}, 1 + size)) for size in (0, 1, 15, 16, 17, 300)]

    def test_keys_and_ivs(self):
        for size in (32, 28, 24):
            secret = bytes(range(size))
            long = secret if size == 32 else hashlib.sha256(secret).digest()
            iv = hashlib.md5(secret).digest()
            self.assertEqual(channel.key_and_iv(secret, 128), (secret[:16], iv))
            self.assertEqual(channel.key_and_iv(secret, 256), (long, iv))
        self.assertRaises(ValueError, channel.key_and_iv, bytes(32), 192)

    def check(self, stream_mode, cut):
        secret = bytes(range(32))
        sealing, opening = (channel.of_secret(secret, 256, stream_mode) for _ in range(2))
        data = b"".join(map(sealing.seal, self.FRAMES))
        found = []
        for start, end in zip([0, *cut(data)], [*cut(data), len(data)]):
            found.extend(opening.open(data[start:end]))
        self.assertEqual(found, self.FRAMES)

    def test_frames_come_through_however_they_are_cut(self):
        pick = random.Random(SEED)
        cuts = [sorted(pick.sample(range(500), 7)) for _ in range(20)]
        for stream_mode in (False, True):
            self.check(stream_mode, lambda data: range(1, len(data)))
            for cut in cuts:
                self.check(stream_mode, lambda _, cut=cut: cut)

    def test_package_mode_on_the_wire(self):
        key, iv = bytes.fromhex(CFB128[0][0]), IV
        package = channel.Package(key, iv)
        for frame in (self.FRAMES[5], self.FRAMES[5]):
            # The same bytes each time: the cipher begins anew with every frame.
            self.assertEqual(package.seal(frame), len(frame).to_bytes(4, "little") + channel.cipher(key, iv).encryptor().update(frame))

    def test_stream_mode_on_the_wire(self):
        key, iv = bytes.fromhex(CFB128[0][0]), IV
        stream = channel.Stream(key, iv)
        sealed = b"".join(map(stream.seal, self.FRAMES))
        self.assertEqual(sealed, channel.cipher(key, iv).encryptor().update(b"".join(self.FRAMES)))

    def test_answers_in_package_mode_begin_alike(self):
        # So do captured ones: magic, version, flags, mtype and status are the same, and so are key and iv.
        package = channel.Package(bytes(16), bytes(16))
        one, other = (package.seal(frames.encode(frames.quest("m", {}, seq).answer({"seq": seq}))) for seq in (1, 2))
        self.assertEqual(one[4:12], other[4:12])
        self.assertNotEqual(one[16:20], other[16:20])

    def test_nonsense_is_refused(self):
        for size in (0, 12, frames.FRAME_BYTES_MAX + 1, 0xFFFF_FFFF):
            with self.subTest(size=size), self.assertRaises(FrameInvalid):
                list(channel.Package(bytes(16), IV).open(size.to_bytes(4, "little")))
        for wrong in (channel.Package(bytes(16), IV), channel.Stream(bytes(16), IV)):
            right = type(wrong)(bytes(15) + b"\1", IV)
            with self.assertRaises(FrameInvalid):
                list(wrong.open(right.seal(self.FRAMES[0])))
        package = channel.Package(bytes(16), IV)
        with self.assertRaisesRegex(FrameInvalid, "holds a frame of"):
            list(package.open(package.seal(self.FRAMES[0] + b"\0")))


if __name__ == "__main__":
    unittest.main()
