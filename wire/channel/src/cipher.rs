//! AES-CFB128 (NIST SP 800-38A, section 6.3) with the key and iv of one channel.
//!
//! It knows no lengths and no frames. Its invariant: what was encrypted from a position is decrypted from the same
//! position, wherever either side cuts the bytes. CFB uses AES only forwards, so only that key schedule is kept.

use crate::curve::SECRET_BYTES;
use crate::error::Error;
use aes::cipher::consts::U16;
use aes::cipher::{BlockCipherEncrypt, BlockSizeUser, InnerIvInit, KeyInit};
use aes::{Aes128Enc, Aes256Enc};
use cfb_mode::{BufDecryptor, BufEncryptor, Decryptor};
use md5::{Digest, Md5};
use std::fmt;
use zeroize::Zeroizing;

/// Bytes of an AES block and of the iv.
const BLOCK_BYTES: usize = 16;

/// Bytes of the shorter key.
const KEY_128_BYTES: usize = 16;

/// The size of the AES key: `bits` of the quest `*key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum KeyBits {
    /// The secret's first 16 bytes; FPNN's default.
    #[default]
    Bits128,
    /// The whole secret.
    Bits256,
}

impl TryFrom<u64> for KeyBits {
    type Error = Error;

    /// Takes the number that `*key` carries.
    fn try_from(bits: u64) -> Result<Self, Error> {
        match bits {
            128 => Ok(KeyBits::Bits128),
            256 => Ok(KeyBits::Bits256),
            found => Err(Error::KeyBits(found)),
        }
    }
}

/// The key schedule and iv of one channel; wiped on drop.
pub(crate) struct Keyed {
    aes: Aes,
    iv: Zeroizing<[u8; BLOCK_BYTES]>,
}

enum Aes {
    Bits128(Aes128Enc),
    Bits256(Aes256Enc),
}

/// Where one direction of a stream stands: the register, and how many of its bytes are used. Wiped on drop.
pub(crate) struct Position {
    register: Zeroizing<[u8; BLOCK_BYTES]>,
    used: usize,
}

impl Keyed {
    /// Key and iv as FPNN derives them: the secret's first bytes, and MD5(secret).
    pub(crate) fn new(secret: &[u8; SECRET_BYTES], bits: KeyBits) -> Keyed {
        let mut iv = Zeroizing::new([0; BLOCK_BYTES]);
        Md5::new_with_prefix(secret).finalize_into((&mut *iv).into());
        Keyed::from_parts(secret, iv, bits)
    }

    fn from_parts(key: &[u8; SECRET_BYTES], iv: Zeroizing<[u8; BLOCK_BYTES]>, bits: KeyBits) -> Keyed {
        let aes = match bits {
            KeyBits::Bits128 => {
                let mut short = Zeroizing::new([0; KEY_128_BYTES]);
                short.copy_from_slice(&key[..KEY_128_BYTES]);
                Aes::Bits128(Aes128Enc::new((&*short).into()))
            }
            KeyBits::Bits256 => Aes::Bits256(Aes256Enc::new(key.into())),
        };
        Keyed { aes, iv }
    }

    /// The beginning of a package, or of a direction's stream.
    pub(crate) fn start(&self) -> Position {
        let mut register = Zeroizing::new(*self.iv);
        match &self.aes {
            Aes::Bits128(aes) => aes.encrypt_block((&mut *register).into()),
            Aes::Bits256(aes) => aes.encrypt_block((&mut *register).into()),
        }
        Position { register, used: 0 }
    }

    /// Encrypts the bytes that come next.
    pub(crate) fn encrypt(&self, at: &mut Position, bytes: &mut [u8]) {
        match &self.aes {
            Aes::Bits128(aes) => encrypt(aes, at, bytes),
            Aes::Bits256(aes) => encrypt(aes, at, bytes),
        }
    }

    /// Decrypts the bytes that come next.
    pub(crate) fn decrypt(&self, at: &mut Position, bytes: &mut [u8]) {
        match &self.aes {
            Aes::Bits128(aes) => decrypt(aes, at, bytes),
            Aes::Bits256(aes) => decrypt(aes, at, bytes),
        }
    }

    /// Decrypts all of a package, several blocks at a time.
    pub(crate) fn decrypt_package(&self, bytes: &mut [u8]) {
        let iv = (&*self.iv).into();
        match &self.aes {
            Aes::Bits128(aes) => Decryptor::inner_iv_init(aes, iv).decrypt(bytes),
            Aes::Bits256(aes) => Decryptor::inner_iv_init(aes, iv).decrypt(bytes),
        }
    }
}

impl fmt::Debug for Keyed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.aes {
            Aes::Bits128(_) => "AES-128-CFB",
            Aes::Bits256(_) => "AES-256-CFB",
        })
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Position").finish_non_exhaustive()
    }
}

fn encrypt<C>(aes: &C, at: &mut Position, bytes: &mut [u8])
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    let mut state = BufEncryptor::from_state(aes, (&*at.register).into(), at.used);
    state.encrypt(bytes);
    let (register, used) = state.get_state();
    at.register.copy_from_slice(register);
    at.used = used;
}

fn decrypt<C>(aes: &C, at: &mut Position, bytes: &mut [u8])
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    let mut state = BufDecryptor::from_state(aes, (&*at.register).into(), at.used);
    state.decrypt(bytes);
    let (register, used) = state.get_state();
    at.register.copy_from_slice(register);
    at.used = used;
}

#[cfg(test)]
mod tests;
