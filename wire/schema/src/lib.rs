//! What the methods' payloads hold: one file a method with both directions, and one table of errors.
//!
//! It is not a server: no handler, no socket, no engine. Its invariant: whatever `encode` writes, `decode` of the same
//! file reads back, in msgpack and in JSON.
//!
//! ```
//! use millpond_wire_schema::{features_lookup, frame::{Encoding, decode_map}};
//!
//! let payload = br#"{"table": "films", "keys": [1, 2, 3]}"#;
//! let (call, _) = features_lookup::Call::decode(decode_map(Encoding::Json, payload).unwrap()).unwrap();
//! assert_eq!(call.lookups[0].keys, [1, 2, 3]);
//! ```

pub mod features_lookup;
pub mod infer;
pub mod infos;
pub mod ordered_get;
pub mod ordered_put;
pub mod ordered_scan;
pub mod ping;
pub mod rank;
pub mod status;

pub use millpond_wire_frame as frame;
pub use status::{Code, Status};
