//! The two curves and what is computed on them: public keys and shared secrets.
//!
//! It stores no files and makes no ciphers. Its invariant: a secret is computed only with a point that was checked to
//! lie on the curve, and every copy of a secret made here is wiped when it is dropped.

use crate::error::{Error, KeyProblem};
use p256::elliptic_curve::sec1::{FromSec1Point, ModulusSize, ToSec1Point};
use p256::elliptic_curve::{AffinePoint, CurveArithmetic, FieldBytesSize, PublicKey, SecretKey};
use std::fmt;
use std::str::FromStr;
use zeroize::Zeroizing;

/// Bytes of a private key and of a shared secret, on both curves.
pub const SECRET_BYTES: usize = 32;

/// Bytes of a public key: X then Y, each 32 bytes, big-endian.
pub const PUBLIC_KEY_BYTES: usize = 2 * SECRET_BYTES;

/// The tag before X and Y in SEC 1 (section 2.3.3), which FPNN leaves out.
const UNCOMPRESSED: u8 = 4;

/// A curve of FPNN's; both sides are configured with the same one. Its secp224r1 and secp192r1 are not built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Curve {
    /// `secp256k1`, SEC 2 section 2.4.1.
    Secp256k1,
    /// `secp256r1`, SEC 2 section 2.4.2; NIST's P-256.
    Secp256r1,
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Curve::Secp256k1 => "secp256k1",
            Curve::Secp256r1 => "secp256r1",
        })
    }
}

impl FromStr for Curve {
    type Err = Error;

    /// Reads FPNN's name for it, as in the key `FPNN.server.security.ecdh.curve`.
    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "secp256k1" => Ok(Curve::Secp256k1),
            "secp256r1" => Ok(Curve::Secp256r1),
            _ => Err(Error::CurveName(name.to_owned())),
        }
    }
}

/// A private scalar with its curve; wiped on drop by the curve's crate, which prints no key either.
#[derive(Debug)]
pub(crate) enum Scalar {
    Secp256k1(k256::SecretKey),
    Secp256r1(p256::SecretKey),
}

impl Scalar {
    /// Reads a scalar of `SECRET_BYTES` bytes, big-endian, in 1..order.
    pub(crate) fn from_bytes(curve: Curve, bytes: &[u8; SECRET_BYTES]) -> Result<Scalar, KeyProblem> {
        let scalar = match curve {
            Curve::Secp256k1 => k256::SecretKey::from_slice(bytes).map(Scalar::Secp256k1),
            Curve::Secp256r1 => p256::SecretKey::from_slice(bytes).map(Scalar::Secp256r1),
        };
        scalar.map_err(|_| KeyProblem::Range(curve))
    }

    pub(crate) fn curve(&self) -> Curve {
        match self {
            Scalar::Secp256k1(_) => Curve::Secp256k1,
            Scalar::Secp256r1(_) => Curve::Secp256r1,
        }
    }

    /// X then Y of the public point.
    pub(crate) fn public_key(&self) -> [u8; PUBLIC_KEY_BYTES] {
        match self {
            Scalar::Secp256k1(key) => coordinates(&key.public_key()),
            Scalar::Secp256r1(key) => coordinates(&key.public_key()),
        }
    }

    /// The X coordinate of this scalar times the peer's point (SEC 1 section 3.3.1), big-endian.
    pub(crate) fn secret(&self, peer: &[u8]) -> Result<Zeroizing<[u8; SECRET_BYTES]>, Error> {
        let peer = peer.try_into().map_err(|_| Error::PeerKeyLength(peer.len()))?;
        let secret = match self {
            Scalar::Secp256k1(key) => multiply(key, peer),
            Scalar::Secp256r1(key) => multiply(key, peer),
        };
        secret.ok_or(Error::PeerKeyPoint(self.curve()))
    }
}

fn coordinates<C>(key: &PublicKey<C>) -> [u8; PUBLIC_KEY_BYTES]
where
    C: CurveArithmetic,
    AffinePoint<C>: FromSec1Point<C> + ToSec1Point<C>,
    FieldBytesSize<C>: ModulusSize,
{
    let point = key.to_sec1_point(false);
    let mut bytes = [0; PUBLIC_KEY_BYTES];
    // A public key is never the point at infinity, so both coordinates exist.
    if let (Some(x), Some(y)) = (point.x(), point.y()) {
        bytes[..SECRET_BYTES].copy_from_slice(x);
        bytes[SECRET_BYTES..].copy_from_slice(y);
    }
    bytes
}

/// None for a point that is not on the curve. Infinity has no coordinates and cannot be sent.
fn multiply<C>(key: &SecretKey<C>, peer: &[u8; PUBLIC_KEY_BYTES]) -> Option<Zeroizing<[u8; SECRET_BYTES]>>
where
    C: CurveArithmetic,
    AffinePoint<C>: FromSec1Point<C> + ToSec1Point<C>,
    FieldBytesSize<C>: ModulusSize,
{
    let mut tagged = [UNCOMPRESSED; 1 + PUBLIC_KEY_BYTES];
    tagged[1..].copy_from_slice(peer);
    let peer = PublicKey::<C>::from_sec1_bytes(&tagged).ok()?;
    let shared = key.diffie_hellman(&peer);
    let mut secret = Zeroizing::new([0; SECRET_BYTES]);
    secret.copy_from_slice(shared.raw_secret_bytes());
    Some(secret)
}
