"""Diffie-Hellman over the four curves of FPNN, by the package `cryptography`, with keys as FPNN writes them. Python 3.11.

Its invariant: no point that is off its curve is multiplied.
"""

import secrets
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec

from errors import KeyInvalid

CURVES = {curve.name: curve for curve in (ec.SECP256K1(), ec.SECP256R1(), ec.SECP224R1(), ec.SECP192R1())}


@dataclass(frozen=True)
class KeyPair:
    """A private key of a curve and its public key: X then Y, big-endian, without a leading 04."""

    curve: ec.EllipticCurve
    private: int

    @classmethod
    def fresh(cls, curve):
        """A random key pair."""
        return cls(curve, 1 + secrets.randbelow(curve.group_order - 1))

    @property
    def public(self):
        """X || Y: 64, 56 or 48 bytes."""
        numbers = self._key().public_key().public_numbers()
        size = self.curve.key_size // 8
        return numbers.x.to_bytes(size) + numbers.y.to_bytes(size)

    def secret(self, peer_public):
        """The shared secret: the X coordinate of our private key times the peer's public one, 32, 28 or 24 bytes."""
        try:
            peer = ec.EllipticCurvePublicKey.from_encoded_point(self.curve, b"\x04" + peer_public)
        except ValueError as error:
            raise KeyInvalid(f"a public key of {len(peer_public)} bytes is no point of {self.curve.name}: {error}") from error
        return self._key().exchange(ec.ECDH(), peer)

    def _key(self):
        try:
            return ec.derive_private_key(self.private, self.curve)
        except ValueError as error:
            raise KeyInvalid(f"a private key of {self.curve.name} is 1 .. n - 1: {error}") from error
