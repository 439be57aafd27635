//! FPNN's encrypted channel, for clients that speak nothing better: key agreement and AES-CFB128, no I/O.
//!
//! Both sides agree on a secret by ECDH, the client with a key pair of one connection, the server with one key for all
//! of them. The AES key is the secret's first 16 bytes or all 32, the iv is MD5(secret). It starts with the answer to
//! the quest `*key`, which itself goes in clear.
//!
//! # What it does not protect
//!
//! It hides frames from someone who only listens, and no more. Use TLS where it can be had.
//!
//! - **Nothing is authenticated.** There is no checksum: whoever sits in between can change frames, and a flipped bit of
//!   ciphertext flips the same bit of plaintext. Anyone may send `*key`; the server learns nothing about who it is.
//! - **The iv is reused.** In package mode every frame starts from the same key and iv, so equal beginnings look equal, and
//!   one frame whose first 16 bytes are known (headers are) shows those of all others.
//! - **Both directions share key and iv**, so the same holds across them, in stream mode too, and a frame can be sent
//!   back to its sender.
//! - **No forward secrecy against the server's key**: who obtains it reads every conversation that was recorded.
//! - A replayed client key gives the same key and iv again.
//!
//! It is not a connection and knows no frames, methods or payloads: the transport says which bytes are one frame. Its
//! invariant: no input makes it panic, and nothing is allocated or decrypted for a length beyond the caller's limit.
//!
//! ```
//! use millpond_wire_channel::{Curve, Ephemeral, KeyBits, Mode, Opened, Opener, PrivateKey};
//!
//! # fn main() -> Result<(), millpond_wire_channel::Error> {
//! let server_key = PrivateKey::from_bytes(Curve::Secp256k1, &[7; 32])?;
//! let client_key = Ephemeral::generate(Curve::Secp256k1)?;
//! let client_public = client_key.public_key(); // goes to the server in `*key`
//!
//! let mut server = server_key.agree(&client_public, KeyBits::Bits128, Mode::Package)?;
//! let mut client = client_key.agree(&server_key.public_key(), KeyBits::Bits128, Mode::Package)?;
//!
//! let mut wire = Vec::new();
//! server.sealer.seal(b"an answer", &mut wire)?;
//! let Opener::Package(opener) = &mut client.opener else { unreachable!() };
//! assert_eq!(opener.open(&mut wire, 8 << 20)?, Opened::Whole { len: 13, frame: b"an answer" });
//! # Ok(())
//! # }
//! ```

mod channel;
mod cipher;
mod curve;
mod error;
mod key;

pub use channel::{Channel, Mode, Opened, Opener, PackageOpener, Sealer, StreamOpener};
pub use cipher::KeyBits;
pub use curve::{Curve, PUBLIC_KEY_BYTES, SECRET_BYTES};
pub use error::{Error, KeyProblem};
pub use key::{Ephemeral, PrivateKey};
