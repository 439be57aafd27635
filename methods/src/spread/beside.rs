//! Deadline, token and trace, forwarded with each call to another node.
//! Its invariant: it has no more time than the call, and the caller's token: what that opens here it is to open there.

use crate::Served;
use millpond_wire_payload::{Encoder, Encoding, Reserved};
use std::time::Instant;

/// What a call to another node carries of the call that caused it.
pub(super) struct Beside {
    pub(super) deadline: Instant,
    pub(super) token: Option<String>,
    pub(super) trace: Option<String>,
}

impl Beside {
    /// That of a call.
    pub(super) fn of(call: &Served<'_>, reserved: &Reserved<'_>, deadline: Instant) -> Beside {
        let meta = &call.asked.meta;
        let token = reserved.token.map(|token| token.0).or(meta.token);
        Beside {
            deadline,
            token: token.map(str::to_owned),
            trace: reserved.trace.or(meta.trace).map(str::to_owned),
        }
    }

    /// The payload of a call that is sent now, whose own entries `write` writes.
    pub(super) fn payload(&self, now: Instant, write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
        let left = self.deadline.saturating_duration_since(now);
        let mut payload = Vec::new();
        Encoder::new(&mut payload, Encoding::Msgpack, false).map(|out| {
            write(out);
            out.key("_deadline_ms");
            out.uint(u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1));
            for (key, text) in [("_token", &self.token), ("_trace", &self.trace)] {
                if let Some(text) = text {
                    out.key(key);
                    out.text(text);
                }
            }
        });
        payload
    }
}
