"""AES (FIPS 197), encryption of single blocks, and its mode CFB128 (NIST SP 800-38A). Plain Python 3.11.

For tests: it takes no care against an observer who measures its time. CFB needs the block cipher in one direction only.
"""

from functools import reduce
from operator import xor


def _doubled(value):
    """Times x in GF(2^8) of AES."""
    return (value << 1) ^ (0x11B if value & 0x80 else 0)


def _sbox():
    """The inverse in GF(2^8), then the affine map of FIPS 197, section 5.1.1."""
    powers, logs, value = [], {}, 1
    for exponent in range(255):
        powers.append(value)
        logs[value] = exponent
        value ^= _doubled(value)
    box = []
    for value in range(256):
        inverse = powers[-logs[value] % 255] if value else 0
        rotations = [(inverse << by | inverse >> 8 - by) & 0xFF for by in range(5)]
        box.append(reduce(xor, rotations) ^ 0x63)
    return box


SBOX = _sbox()
# One column of SubBytes and MixColumns together, for a byte in the first row; the others are rotations of it.
_MIXED = [
    _doubled(s) << 24 | s << 16 | s << 8 | (_doubled(s) ^ s)
    for s in SBOX
]
_TABLES = [
    [(word >> 8 * row | word << 32 - 8 * row) & 0xFFFF_FFFF for word in _MIXED]
    for row in range(4)
]


class Aes:
    """AES with a key of 16 or 32 bytes."""

    def __init__(self, key):
        if len(key) not in (16, 32):
            raise ValueError(f"a key is of 16 or 32 bytes, not {len(key)}")
        self._round_keys = _expand(key)

    def encrypt(self, block):
        """The 16 bytes that these 16 become."""
        keys = self._round_keys
        t0, t1, t2, t3 = _TABLES
        state = [int.from_bytes(block[4 * at : 4 * at + 4]) ^ keys[at] for at in range(4)]
        last = len(keys) - 4
        for base in range(4, last, 4):
            a, b, c, d = state
            state = [
                t0[a >> 24] ^ t1[b >> 16 & 255] ^ t2[c >> 8 & 255] ^ t3[d & 255] ^ keys[base],
                t0[b >> 24] ^ t1[c >> 16 & 255] ^ t2[d >> 8 & 255] ^ t3[a & 255] ^ keys[base + 1],
                t0[c >> 24] ^ t1[d >> 16 & 255] ^ t2[a >> 8 & 255] ^ t3[b & 255] ^ keys[base + 2],
                t0[d >> 24] ^ t1[a >> 16 & 255] ^ t2[b >> 8 & 255] ^ t3[c & 255] ^ keys[base + 3],
            ]
        out = 0
        for at in range(4):
            shifted = [state[(at + row) % 4] >> 24 - 8 * row & 255 for row in range(4)]
            out = out << 32 | int.from_bytes(bytes(SBOX[byte] for byte in shifted)) ^ keys[last + at]
        return out.to_bytes(16)


def _expand(key):
    """The round keys as words: 44 of a key of 16 bytes, 60 of one of 32 (FIPS 197, section 5.2)."""
    words = [int.from_bytes(key[at : at + 4]) for at in range(0, len(key), 4)]
    given = len(words)
    constant = 1
    while len(words) < 4 * (given + 7):
        word, place = words[-1], len(words) % given
        if place == 0:
            word = _substituted((word << 8 | word >> 24) & 0xFFFF_FFFF) ^ constant << 24
            constant = _doubled(constant)
        elif given == 8 and place == 4:
            word = _substituted(word)
        words.append(words[-given] ^ word)
    return words


def _substituted(word):
    return int.from_bytes(bytes(SBOX[byte] for byte in word.to_bytes(4)))


class Cfb128:
    """One direction of a CFB128 stream. Calls continue where the last one ended, anywhere within a block."""

    def __init__(self, key, iv):
        self._aes = Aes(key)
        self._previous = bytes(iv)
        self._stream = b""

    def encrypt(self, data):
        """The ciphertext of `data`, as long as it."""
        return self._run(data, takes_ciphertext=False)

    def decrypt(self, data):
        """The plaintext of `data`, as long as it."""
        return self._run(data, takes_ciphertext=True)

    def _run(self, data, takes_ciphertext):
        out = bytearray()
        at = 0
        while at < len(data):
            if not self._stream:
                self._stream, self._previous = self._aes.encrypt(self._previous), b""
            piece = data[at : at + len(self._stream)]
            done = bytes(one ^ other for one, other in zip(piece, self._stream))
            # The next block of the stream is made of 16 bytes of ciphertext.
            self._previous += piece if takes_ciphertext else done
            self._stream = self._stream[len(piece) :]
            out += done
            at += len(piece)
        return bytes(out)
