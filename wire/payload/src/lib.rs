//! Payloads: one map in msgpack or JSON, read in place and written straight into a buffer.
//!
//! It knows no method (wire/schema does) and no frame (wire/frame does). Its invariant: no input makes it panic, or
//! allocate beyond what the input's own length allows.
//!
//! ```
//! use millpond_wire_payload::{Encoder, Encoding, Payload};
//!
//! let mut bytes = Vec::new();
//! Encoder::new(&mut bytes, Encoding::Msgpack, false).map(|out| {
//!     out.key("table");
//!     out.text("films");
//! });
//! assert_eq!(bytes, b"\x81\xa5table\xa5films");
//!
//! let payload = Payload::new(Encoding::Json, br#"{"table": "films"}"#).unwrap();
//! let read = payload.read(|reader| {
//!     reader.map("a map", |reader, key| {
//!         assert_eq!((key, reader.text()?), (&b"table"[..], "films"));
//!         Ok(())
//!     })
//! });
//! assert_eq!(read, Ok(()));
//! ```

mod ascii;
mod blocks;
mod encoder;
mod error;
mod gained;
mod json;
mod number;
mod payload;
mod reader;
mod reserved;
#[cfg(test)]
mod tests;
mod token;
mod value;

pub use encoder::Encoder;
pub use error::{PayloadError, Problem};
pub use gained::Gained;
pub use number::Number;
pub use payload::{Payload, decode_map};
pub use reader::{Reader, VALUES_MAX};
pub use reserved::{Hidden, Reserved, kept_trace};
pub use token::Token;
pub use value::{Map, Value};

/// What a reading gives.
pub type Read<T> = Result<T, PayloadError>;

/// How a payload is written: FPNN's two flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// A msgpack map (flag 0x80).
    Msgpack,
    /// JSON object text (flag 0x40).
    Json,
}
