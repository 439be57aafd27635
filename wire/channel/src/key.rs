//! Key pairs: the server's, read from a file, and a client's, made for one connection.
//!
//! It writes no files. Its invariant: private bytes are wiped when they are dropped and are in no Debug text or error.

use crate::channel::{Channel, Mode};
use crate::cipher::{KeyBits, Keyed};
use crate::curve::{Curve, PUBLIC_KEY_BYTES, SECRET_BYTES, Scalar};
use crate::error::{Error, KeyProblem};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use zeroize::Zeroizing;

/// How often a random number may be no key: on secp256r1, the worse of the two, one in 2^32 is none.
const DRAWS_MAX: usize = 8;

/// The start of every PEM file.
const PEM: &[u8] = b"-----BEGIN ";

/// A server's key pair: one for all connections, for as long as clients know its public half.
#[derive(Debug)]
pub struct PrivateKey {
    scalar: Scalar,
    public: [u8; PUBLIC_KEY_BYTES],
}

impl PrivateKey {
    /// Takes 32 raw bytes, big-endian, as FPNN's key files hold them.
    ///
    /// # Errors
    /// [`Error::PrivateKey`] for another length, for zero, and for numbers not below the curve's order.
    pub fn from_bytes(curve: Curve, bytes: &[u8]) -> Result<Self, Error> {
        Self::parse(curve, bytes).map_err(Error::PrivateKey)
    }

    /// Reads a file of 32 raw bytes; of a longer one only the first 33 are looked at.
    ///
    /// # Errors
    /// [`Error::KeyFile`] when it cannot be read, [`Error::KeyFileContent`] when it holds no key of this curve; both
    /// name the file.
    pub fn read(curve: Curve, path: &Path) -> Result<Self, Error> {
        let mut buffer = Zeroizing::new([0; SECRET_BYTES + 1]);
        let content = File::open(path)
            .and_then(|file| fill(file, &mut buffer[..]))
            .map_err(|source| Error::KeyFile {
                path: path.to_owned(),
                source,
            })?;
        let parsed = if content.starts_with(PEM) {
            Err(KeyProblem::Pem)
        } else if content.len() > SECRET_BYTES {
            Err(KeyProblem::TooLong)
        } else {
            Self::parse(curve, content)
        };
        parsed.map_err(|problem| Error::KeyFileContent {
            path: path.to_owned(),
            problem,
        })
    }

    fn parse(curve: Curve, bytes: &[u8]) -> Result<Self, KeyProblem> {
        let bytes = bytes.try_into().map_err(|_| KeyProblem::Length(bytes.len()))?;
        let scalar = Scalar::from_bytes(curve, bytes)?;
        let public = scalar.public_key();
        Ok(PrivateKey { scalar, public })
    }

    /// The curve it is a key of.
    #[must_use]
    pub fn curve(&self) -> Curve {
        self.scalar.curve()
    }

    /// X then Y, each 32 bytes, big-endian, without a leading 04: what clients are given.
    #[must_use]
    pub fn public_key(&self) -> [u8; PUBLIC_KEY_BYTES] {
        self.public
    }

    /// Agrees on a channel with the holder of `peer`, a public key in the form of [`Self::public_key`].
    ///
    /// It costs one multiplication on the curve; the answer to `*key` is the first frame to go through the channel.
    ///
    /// # Errors
    /// [`Error::PeerKeyLength`] and [`Error::PeerKeyPoint`].
    pub fn agree(&self, peer: &[u8], bits: KeyBits, mode: Mode) -> Result<Channel, Error> {
        let secret = self.scalar.secret(peer)?;
        Ok(Channel::new(Keyed::new(&secret, bits), mode))
    }
}

/// A client's key pair. It agrees once: a second channel with the same server would have the same key and iv.
#[derive(Debug)]
pub struct Ephemeral(PrivateKey);

impl Ephemeral {
    /// Makes a key pair from the system's random numbers.
    ///
    /// # Errors
    /// [`Error::Random`] when the system has none.
    pub fn generate(curve: Curve) -> Result<Self, Error> {
        let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
        for _ in 0..DRAWS_MAX {
            getrandom::fill(&mut bytes[..]).map_err(|error| Error::Random(error.to_string()))?;
            if let Ok(key) = PrivateKey::parse(curve, &bytes[..]) {
                return Ok(Ephemeral(key));
            }
        }
        Err(Error::Random(format!("{DRAWS_MAX} draws gave no key of {curve}")))
    }

    /// X then Y, each 32 bytes, big-endian: `publicKey` of the quest `*key`.
    #[must_use]
    pub fn public_key(&self) -> [u8; PUBLIC_KEY_BYTES] {
        self.0.public_key()
    }

    /// Agrees with the server whose public key is `peer`, as [`PrivateKey::agree`] does.
    ///
    /// # Errors
    /// [`Error::PeerKeyLength`] and [`Error::PeerKeyPoint`].
    pub fn agree(self, peer: &[u8], bits: KeyBits, mode: Mode) -> Result<Channel, Error> {
        self.0.agree(peer, bits, mode)
    }
}

/// Reads until the buffer is full or the file ends, and gives the part that was filled.
fn fill(mut file: File, buffer: &mut [u8]) -> io::Result<&[u8]> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(&buffer[..filled])
}

#[cfg(test)]
mod tests;
