//! FPNN's encrypted channel, where the build has it (feature `fpnn-encryption`) and the configuration a key: a byte layer that the
//! first call of a connection asks for.
//!
//! It is for FPNN's old clients and authenticates nothing: what is new takes TLS. Its invariant: once a key is agreed on, no byte
//! leaves or comes in clear.
//! Source: FPNN (github.com/highras/fpnn), core/KeyExchange.cpp and core/Encryptor.cpp.

use millpond_net::{Counters, Layer, Opened, RemoteAddr, Turn, limited};
use millpond_wire_channel::{Channel, Curve, KeyBits, Mode, Opened as Package, Opener, PrivateKey};
use millpond_wire_payload::{Encoding, Map, Value, decode_map};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The server's key.
#[derive(Debug)]
pub struct Encryption {
    key: PrivateKey,
}

impl Encryption {
    /// Reads the private key, 32 raw bytes, for a curve by its name, `secp256k1` or `secp256r1`.
    ///
    /// # Errors
    /// The curve, or the file and the hint.
    pub fn read(curve: &str, path: &Path) -> Result<Encryption, String> {
        let curve: Curve = curve.parse().map_err(|error| format!("{error}"))?;
        let key = PrivateKey::read(curve, path).map_err(|error| error.to_string())?;
        Ok(Encryption { key })
    }

    /// X then Y of the public key, 64 bytes, as clients are given it.
    pub fn public_key(&self) -> [u8; 64] {
        self.key.public_key()
    }

    /// The layer that the payload of a `*key` call asks for, whose frames have so many bytes at most.
    pub(super) fn layer(
        &self,
        encoding: Encoding,
        payload: &[u8],
        frame_bytes_max: usize,
        turn: &Turn<'_>,
    ) -> Result<Box<dyn Layer>, String> {
        let map = decode_map(encoding, payload).map_err(|error| error.to_string())?;
        let (public, bits, mode) = request(&map)?;
        let agreed = self.key.agree(public, bits, mode);
        Ok(Box::new(Secure {
            channel: agreed.map_err(|error| error.to_string())?,
            pending: Vec::new(),
            frame_bytes_max,
            peer: turn.peer(),
            counters: Arc::clone(turn.counters()),
        }))
    }
}

/// publicKey, bits and streamMode, with FPNN's defaults.
fn request<'m>(map: &'m Map<'_>) -> Result<(&'m [u8], KeyBits, Mode), String> {
    let public = match map.get("publicKey") {
        Some(Value::Bytes(bytes)) => bytes.as_ref(),
        Some(Value::Text(text)) => text.as_bytes(),
        _ => return Err("key \"publicKey\" is missing; expected 64 bytes".into()),
    };
    let bits = match map.get("bits") {
        None => KeyBits::default(),
        Some(Value::UInt(bits)) => KeyBits::try_from(*bits).map_err(|error| error.to_string())?,
        Some(other) => return Err(format!("key \"bits\" is {}; expected 128 or 256", other.kind())),
    };
    let mode = match map.get("streamMode") {
        None | Some(Value::Bool(false)) => Mode::Package,
        Some(Value::Bool(true)) => Mode::Stream,
        Some(other) => {
            return Err(format!(
                "key \"streamMode\" is {}; expected a boolean",
                other.kind()
            ));
        }
    };
    Ok((public, bits, mode))
}

/// A connection's channel.
pub(super) struct Secure {
    channel: Channel,
    /// Bytes received that are no whole package yet.
    pending: Vec<u8>,
    /// Bytes of a frame at most.
    frame_bytes_max: usize,
    peer: RemoteAddr,
    counters: Arc<Counters>,
}

impl Secure {
    fn receive(&mut self, received: &mut [u8], plain: &mut Vec<u8>) -> Result<(), String> {
        let package = match &mut self.channel.opener {
            Opener::Stream(opener) => {
                opener.apply(received);
                plain.extend_from_slice(received);
                return Ok(());
            }
            Opener::Package(package) => package,
        };
        self.pending.extend_from_slice(received);
        let mut used = 0;
        loop {
            match package.open(&mut self.pending[used..], self.frame_bytes_max) {
                Ok(Package::Whole { len, frame }) => {
                    plain.extend_from_slice(frame);
                    used += len;
                }
                Ok(Package::Partial { .. }) => break,
                Err(error) => return Err(error.to_string()),
            }
        }
        self.pending.drain(..used);
        if self.pending.is_empty() {
            self.pending = Vec::new();
        }
        Ok(())
    }
}

impl Layer for Secure {
    fn open(&mut self, received: &mut [u8], plain: &mut Vec<u8>, _: &mut Vec<u8>) -> Opened {
        let Err(error) = self.receive(received, plain) else {
            return Opened::Open;
        };
        limited!(info, self.counters.quiet, super::NOT_SECURE, [peer = %self.peer, %error], "connection closed: not what was agreed on");
        self.counters.malformed.fetch_add(1, Ordering::Relaxed);
        Opened::Failed
    }

    fn seal_message(&mut self, out: &mut Vec<u8>, start: usize) {
        let frame = out.split_off(start);
        // It fails for no frame that can be written: its length is a u32 already.
        if self.channel.sealer.seal(&frame, out).is_err() {
            out.truncate(start);
        }
    }

    fn held_bytes(&self) -> usize {
        self.pending.capacity()
    }

    fn forget_held(&mut self) {
        self.pending = Vec::new();
    }
}
