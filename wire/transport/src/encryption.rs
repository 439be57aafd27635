//! FPNN's encrypted channel on a connection, where the build has it (feature `fpnn-encryption`) and the configuration a key.
//!
//! It is for FPNN's old clients and authenticates nothing: what is new takes TLS. A build without the feature has the same
//! names and can make none of them. Its invariant: once a key is agreed on, no byte leaves or comes in clear.
//! Source: fpnn-wire.md, 1.4.

#[cfg(not(feature = "fpnn-encryption"))]
pub use absent::Encryption;
#[cfg(not(feature = "fpnn-encryption"))]
pub(crate) use absent::Secure;
#[cfg(feature = "fpnn-encryption")]
pub use present::Encryption;
#[cfg(feature = "fpnn-encryption")]
pub(crate) use present::Secure;

#[cfg(not(feature = "fpnn-encryption"))]
mod absent {
    use millpond_wire_frame::Encoding;

    /// The server's key: this build has none.
    #[derive(Debug)]
    pub enum Encryption {}

    /// A connection's channel: this build has none.
    pub(crate) enum Secure {}

    impl Encryption {
        pub(crate) fn agree(&self, _: Encoding, _: &[u8]) -> Result<Secure, String> {
            match *self {}
        }
    }

    impl Secure {
        pub(crate) fn receive(&mut self, _: &[u8], _: &mut Vec<u8>, _: usize) -> Result<(), String> {
            match *self {}
        }

        pub(crate) fn seal(&mut self, _: &mut Vec<u8>, _: usize) {
            match *self {}
        }

        pub(crate) fn held_bytes(&self) -> usize {
            match *self {}
        }

        pub(crate) fn forget_held(&mut self) {
            match *self {}
        }
    }
}

#[cfg(feature = "fpnn-encryption")]
mod present {
    use millpond_wire_channel::{Channel, Curve, KeyBits, Mode, Opened, Opener, PrivateKey};
    use millpond_wire_payload::{Encoding, Map, Value, decode_map};
    use std::path::Path;

    /// The server's key.
    #[derive(Debug)]
    pub struct Encryption {
        key: PrivateKey,
    }

    impl Encryption {
        /// Reads the private key, 32 raw bytes, for a curve by its name, `secp256k1` or `secp256r1`.
        ///
        /// # Errors
        /// The curve, or the file and the mend.
        pub fn read(curve: &str, path: &Path) -> Result<Encryption, String> {
            let curve: Curve = curve.parse().map_err(|error| format!("{error}"))?;
            let key = PrivateKey::read(curve, path).map_err(|error| error.to_string())?;
            Ok(Encryption { key })
        }

        /// X then Y of the public key, 64 bytes, as clients are given it.
        pub fn public_key(&self) -> [u8; 64] {
            self.key.public_key()
        }

        /// The channel that the payload of a `*key` call asks for.
        pub(crate) fn agree(&self, encoding: Encoding, payload: &[u8]) -> Result<Secure, String> {
            let map = decode_map(encoding, payload).map_err(|error| error.to_string())?;
            let (public, bits, mode) = request(&map)?;
            let channel = self
                .key
                .agree(public, bits, mode)
                .map_err(|error| error.to_string())?;
            Ok(Secure {
                channel,
                pending: Vec::new(),
            })
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
    pub(crate) struct Secure {
        channel: Channel,
        /// Bytes received that are no whole package yet.
        pending: Vec<u8>,
    }

    impl Secure {
        /// Takes ciphertext and appends what it holds to `plain`; `limit` is that of a frame.
        pub(crate) fn receive(
            &mut self,
            bytes: &[u8],
            plain: &mut Vec<u8>,
            limit: usize,
        ) -> Result<(), String> {
            let package = match &mut self.channel.opener {
                Opener::Stream(opener) => {
                    let start = plain.len();
                    plain.extend_from_slice(bytes);
                    opener.apply(&mut plain[start..]);
                    return Ok(());
                }
                Opener::Package(package) => package,
            };
            self.pending.extend_from_slice(bytes);
            let mut used = 0;
            loop {
                match package.open(&mut self.pending[used..], limit) {
                    Ok(Opened::Whole { len, frame }) => {
                        plain.extend_from_slice(frame);
                        used += len;
                    }
                    Ok(Opened::Partial { .. }) => break,
                    Err(error) => return Err(error.to_string()),
                }
            }
            self.pending.drain(..used);
            if self.pending.is_empty() {
                self.pending = Vec::new();
            }
            Ok(())
        }

        /// Bytes of memory that hold a package that is not whole.
        pub(crate) fn held_bytes(&self) -> usize {
            self.pending.capacity()
        }

        /// Lets go of it: nothing more is received.
        pub(crate) fn forget_held(&mut self) {
            self.pending = Vec::new();
        }

        /// Encrypts the one frame that lies in `out` from `start` on.
        pub(crate) fn seal(&mut self, out: &mut Vec<u8>, start: usize) {
            let frame = out.split_off(start);
            // It fails for no frame that can be written: its length is a u32 already.
            if self.channel.sealer.seal(&frame, out).is_err() {
                out.truncate(start);
            }
        }
    }
}
