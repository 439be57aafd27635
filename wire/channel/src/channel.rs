//! The two directions of a channel: sealing what goes out, opening what comes in, in package or stream mode.
//!
//! It reads and writes no socket. Its invariant: bytes are encrypted and decrypted in place and exactly once, and the length
//! of a package is held against the limit before anything is done for it.

use crate::cipher::{Keyed, Position};
use crate::error::Error;
use std::sync::Arc;

/// Bytes before every package: its length without them, u32, little-endian.
const LENGTH_BYTES: usize = 4;

/// How frames lie on the wire: `streamMode` of the quest `*key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Each frame is a package of its own: length, then ciphertext that starts from the key and iv again. FPNN's default.
    #[default]
    Package,
    /// One ciphertext a direction, without lengths.
    Stream,
}

/// Both directions; they share one key schedule of about a kilobyte. Client and server hold the same.
#[derive(Debug)]
pub struct Channel {
    /// For what this side sends.
    pub sealer: Sealer,
    /// For what this side receives.
    pub opener: Opener,
}

impl Channel {
    pub(crate) fn new(keyed: Keyed, mode: Mode) -> Channel {
        let keyed = Arc::new(keyed);
        let stream = || (mode == Mode::Stream).then(|| keyed.start());
        let opener = match stream() {
            None => Opener::Package(PackageOpener { keyed: keyed.clone() }),
            Some(at) => Opener::Stream(StreamOpener {
                keyed: keyed.clone(),
                at,
            }),
        };
        let at = stream();
        Channel {
            sealer: Sealer { keyed, at },
            opener,
        }
    }
}

/// What one side sends, in either mode. What it sealed must be sent in that order, all of it and once.
#[derive(Debug)]
pub struct Sealer {
    keyed: Arc<Keyed>,
    /// The end of what was sealed, in stream mode.
    at: Option<Position>,
}

impl Sealer {
    /// Appends one frame, encrypted.
    ///
    /// # Errors
    /// [`Error::Empty`], and [`Error::TooLarge`] beyond 4 GiB; `out` is then as it was.
    pub fn seal(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        if frame.is_empty() {
            return Err(Error::Empty);
        }
        let mut package_start = None;
        let at = match &mut self.at {
            Some(at) => at,
            None => {
                let (bytes, limit) = (frame.len(), u32::MAX as usize);
                let length = u32::try_from(bytes).map_err(|_| Error::TooLarge { bytes, limit })?;
                out.extend_from_slice(&length.to_le_bytes());
                package_start.insert(self.keyed.start())
            }
        };
        let start = out.len();
        out.extend_from_slice(frame);
        self.keyed.encrypt(at, &mut out[start..]);
        Ok(())
    }
}

/// What one side receives: frames or bytes, by the mode.
#[derive(Debug)]
pub enum Opener {
    /// One package after the other.
    Package(PackageOpener),
    /// Bytes as they come.
    Stream(StreamOpener),
}

/// Opens packages. It keeps nothing between them.
#[derive(Debug)]
pub struct PackageOpener {
    keyed: Arc<Keyed>,
}

/// What [`PackageOpener::open`] found at the front of its input.
#[derive(Debug, PartialEq, Eq)]
pub enum Opened<'a> {
    /// No whole package yet; the input is as it was.
    Partial {
        /// Bytes of input known to be needed in all (a lower bound).
        needed: usize,
    },
    /// One whole package, decrypted where it lay.
    Whole {
        /// Bytes of input that it used: they must not be given again.
        len: usize,
        /// The frame in clear.
        frame: &'a [u8],
    },
}

impl PackageOpener {
    /// Opens the first package of `input` in place; `limit` is in bytes of its frame.
    ///
    /// A changed ciphertext is not noticed here: it decrypts to something else.
    ///
    /// # Errors
    /// [`Error::TooLarge`] as soon as a length beyond `limit` is there, [`Error::Empty`] for a length of 0. The
    /// next package's start is then unknown: close the connection.
    pub fn open<'a>(&mut self, input: &'a mut [u8], limit: usize) -> Result<Opened<'a>, Error> {
        let Some((length, rest)) = input.split_first_chunk_mut::<LENGTH_BYTES>() else {
            return Ok(Opened::Partial { needed: LENGTH_BYTES });
        };
        // On 32-bit machines a length may not fit; it is then beyond any limit.
        let bytes = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if bytes > limit {
            return Err(Error::TooLarge { bytes, limit });
        }
        if bytes == 0 {
            return Err(Error::Empty);
        }
        let len = bytes.saturating_add(LENGTH_BYTES);
        let Some(frame) = rest.get_mut(..bytes) else {
            return Ok(Opened::Partial { needed: len });
        };
        self.keyed.decrypt_package(frame);
        Ok(Opened::Whole { len, frame })
    }
}

/// Decrypts a stream, cut anywhere.
#[derive(Debug)]
pub struct StreamOpener {
    keyed: Arc<Keyed>,
    at: Position,
}

impl StreamOpener {
    /// Decrypts in place the bytes that come next. Each byte must be given once, in the order of the wire.
    ///
    /// A changed byte is not noticed here: it spoils itself and the sixteen bytes after it.
    pub fn apply(&mut self, bytes: &mut [u8]) {
        self.keyed.decrypt(&mut self.at, bytes);
    }
}
