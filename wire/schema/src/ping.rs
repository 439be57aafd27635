//! `*ping`: {} → {ts: milliseconds since the Unix epoch}.
//! It is answered before everything else; its invariant: it touches no engine.

use crate::frame::Encoder;

/// Writes the answer; `ts_ms` is the server's clock.
pub fn encode_answer(out: &mut Encoder<'_>, ts_ms: u64) {
    out.map(1);
    out.key("ts");
    out.uint(ts_ms);
    out.end_map();
}
