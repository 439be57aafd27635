"""Diffie-Hellman over the four curves of FPNN, with Python's integers. Plain Python 3.11.

For tests: it takes no care against an observer who measures its time. Parameters are those of SEC 2 (secg.org/sec2-v2.pdf).
Its invariant: no point that is off its curve is multiplied.
"""

import os
from dataclasses import dataclass

from errors import KeyInvalid


@dataclass(frozen=True)
class Curve:
    """y^2 = x^3 + a x + b modulo p, with a generator (gx, gy) of prime order n."""

    name: str
    p: int
    a: int
    b: int
    gx: int
    gy: int
    n: int

    @property
    def coordinate_bytes(self):
        """Bytes of a coordinate and of a private key: 32, 28 or 24."""
        return (self.p.bit_length() + 7) // 8

    def holds(self, point):
        """Whether (x, y) lies on the curve."""
        x, y = point
        in_range = 0 <= x < self.p and 0 <= y < self.p
        return in_range and (y * y - (x * x * x + self.a * x + self.b)) % self.p == 0


def _curve(name, p, a, b, gx, gy, n):
    return Curve(name, p, a % p, *(int(number, 16) for number in (b, gx, gy, n)))


_P192 = 2**192 - 2**64 - 1
_P224 = 2**224 - 2**96 + 1
_P256 = 2**256 - 2**224 + 2**192 + 2**96 - 1
_K256 = 2**256 - 2**32 - 977
CURVES = {
    curve.name: curve
    for curve in (
        _curve(
            "secp256k1", _K256, 0, "7",
            "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
            "483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8",
            "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141",
        ),
        _curve(
            "secp256r1", _P256, -3, "5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b",
            "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296",
            "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5",
            "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
        ),
        _curve(
            "secp224r1", _P224, -3, "b4050a850c04b3abf54132565044b0b7d7bfd8ba270b39432355ffb4",
            "b70e0cbd6bb4bf7f321390b94a03c1d356c21122343280d6115c1d21",
            "bd376388b5f723fb4c22dfe6cd4375a05a07476444d5819985007e34",
            "ffffffffffffffffffffffffffff16a2e0b8f03e13dd29455c5c2a3d",
        ),
        _curve(
            "secp192r1", _P192, -3, "64210519e59c80e70fa7e9ab72243049feb8deecc146b9b1",
            "188da80eb03090f67cbf20eb43a18800f4ff0afd82ff1012",
            "07192b95ffc8da78631011ed6b24cdd573f977a11e794811",
            "ffffffffffffffffffffffff99def836146bc9b1b4d22831",
        ),
    )
}


def multiply(curve, scalar, point):
    """`scalar` times (x, y), or None for the point at infinity. Jacobian coordinates: one inversion in all."""
    found = (1, 1, 0)
    addend = (*point, 1)
    while scalar:
        if scalar & 1:
            found = _add(curve, found, addend)
        addend = _double(curve, addend)
        scalar >>= 1
    x, y, z = found
    if z == 0:
        return None
    inverse = pow(z, -1, curve.p)
    return x * inverse**2 % curve.p, y * inverse**3 % curve.p


def _double(curve, point):
    x, y, z = point
    p = curve.p
    if z == 0 or y == 0:
        return (1, 1, 0)
    s = 4 * x * y * y % p
    m = (3 * x * x + curve.a * pow(z, 4, p)) % p
    x3 = (m * m - 2 * s) % p
    return x3, (m * (s - x3) - 8 * pow(y, 4, p)) % p, 2 * y * z % p


def _add(curve, one, other):
    if one[2] == 0 or other[2] == 0:
        return other if one[2] == 0 else one
    (x1, y1, z1), (x2, y2, z2), p = one, other, curve.p
    u1, u2 = x1 * z2 * z2 % p, x2 * z1 * z1 % p
    s1, s2 = y1 * pow(z2, 3, p) % p, y2 * pow(z1, 3, p) % p
    if u1 == u2:
        return _double(curve, one) if s1 == s2 else (1, 1, 0)
    h, r = (u2 - u1) % p, (s2 - s1) % p
    h2, h3 = h * h % p, pow(h, 3, p)
    x3 = (r * r - h3 - 2 * u1 * h2) % p
    return x3, (r * (u1 * h2 - x3) - s1 * h3) % p, h * z1 * z2 % p


@dataclass(frozen=True)
class KeyPair:
    """A private key of a curve and its public key: X then Y, big-endian, without a leading 04."""

    curve: Curve
    private: int

    @classmethod
    def fresh(cls, curve):
        """A random one."""
        # 16 bytes more than the order has, so that no private key is noticeably likelier than another.
        return cls(curve, 1 + int.from_bytes(os.urandom(curve.coordinate_bytes + 16)) % (curve.n - 1))

    @property
    def public(self):
        """X || Y: 64, 56 or 48 bytes."""
        if not 1 <= self.private < self.curve.n:
            raise KeyInvalid(f"a private key of {self.curve.name} is 1 .. n - 1")
        x, y = multiply(self.curve, self.private, (self.curve.gx, self.curve.gy))
        return x.to_bytes(self.curve.coordinate_bytes) + y.to_bytes(self.curve.coordinate_bytes)

    def secret(self, peer_public):
        """The shared secret: the X coordinate of our private key times the peer's public one, 32, 28 or 24 bytes."""
        size = self.curve.coordinate_bytes
        if len(peer_public) != 2 * size:
            raise KeyInvalid(f"a public key of {self.curve.name} is of {2 * size} bytes, not {len(peer_public)}")
        point = int.from_bytes(peer_public[:size]), int.from_bytes(peer_public[size:])
        if not self.curve.holds(point):
            raise KeyInvalid(f"a public key is no point of {self.curve.name}")
        return multiply(self.curve, self.private, point)[0].to_bytes(size)
