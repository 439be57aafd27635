//! Lines of the log that anybody can cause by a connection: of each kind one a second is written, the others are counted.
//!
//! Its invariant: a line that is left out is told of by a number, in the next line of its kind or in one of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// From one line of a kind to the next.
const EVERY_MS: u64 = 1000;

/// What such a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    NotHttp,
    NotFrame,
    NotWebSocket,
    NotTls,
    NotSecure,
    NotAsked,
    CutShort,
    Unfinished,
    SlowReader,
    WriteBuffers,
    Dropped,
    NotAccepted,
    OverLimit,
    Panicked,
    ReceiverPanicked,
}

const KINDS: [(Cause, &str); 15] = [
    (Cause::NotHttp, "bad HTTP requests"),
    (Cause::NotFrame, "bytes that are no frame"),
    (Cause::NotWebSocket, "bad WebSocket frames"),
    (Cause::NotTls, "TLS that failed"),
    (
        Cause::NotSecure,
        "encryption that was not agreed on, or not kept to",
    ),
    (Cause::NotAsked, "answers to what was never asked"),
    (Cause::CutShort, "peers that closed in the middle of a request"),
    (Cause::Unfinished, "too much held of requests that are not whole"),
    (Cause::SlowReader, "peers that do not read their answers"),
    (Cause::WriteBuffers, "too much waiting for all peers"),
    (Cause::Dropped, "connections that could not begin"),
    (Cause::NotAccepted, "connections that could not be accepted"),
    (Cause::OverLimit, "connections over the limit"),
    (Cause::Panicked, "panics in serving a connection"),
    (Cause::ReceiverPanicked, "panics of receivers of a peer's answer"),
];

/// What was written and left out, by kind.
#[derive(Debug)]
pub(crate) struct Quiet {
    began: Instant,
    kinds: [Kind; KINDS.len()],
}

#[derive(Debug, Default)]
struct Kind {
    /// When the last line was written, in ms from the beginning and one more; zero where none was.
    written_ms: AtomicU64,
    left_out: AtomicU64,
}

impl Default for Quiet {
    fn default() -> Quiet {
        Quiet {
            began: Instant::now(),
            kinds: std::array::from_fn(|_| Kind::default()),
        }
    }
}

impl Quiet {
    /// Whether a line of that kind may be written now; with how many before it were left out, if any.
    pub(crate) fn admits(&self, cause: Cause) -> Option<Option<u64>> {
        self.admits_at(cause, self.began.elapsed().as_millis() as u64)
    }

    fn admits_at(&self, cause: Cause, now_ms: u64) -> Option<Option<u64>> {
        let kind = &self.kinds[cause as usize];
        let written = kind.written_ms.load(Ordering::Relaxed);
        let is_due = written == 0 || now_ms + 1 >= written + EVERY_MS;
        // One of several threads writes it.
        let writes = is_due
            && kind
                .written_ms
                .compare_exchange(written, now_ms + 1, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if !writes {
            kind.left_out.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let left_out = kind.left_out.swap(0, Ordering::Relaxed);
        Some((left_out > 0).then_some(left_out))
    }

    /// Tells of lines that were left out, where no further one has.
    pub(crate) fn tell(&self) {
        for (of, left_out) in self.untold_at(self.began.elapsed().as_millis() as u64) {
            tracing::info!(left_out, of, "lines about connections were left out");
        }
    }

    fn untold_at(&self, now_ms: u64) -> Vec<(&'static str, u64)> {
        let told = |(kind, (_, of)): (&Kind, &(Cause, &'static str))| {
            let written = kind.written_ms.load(Ordering::Relaxed);
            if kind.left_out.load(Ordering::Relaxed) == 0 || now_ms + 1 < written + EVERY_MS {
                return None;
            }
            let left_out = kind.left_out.swap(0, Ordering::Relaxed);
            (left_out > 0).then_some((*of, left_out))
        };
        self.kinds.iter().zip(&KINDS).filter_map(told).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_of_a_kind_a_second_and_the_number_of_the_others() {
        let quiet = Quiet::default();
        let admits = |cause, ms| quiet.admits_at(cause, ms);
        assert_eq!(admits(Cause::NotHttp, 0), Some(None));
        for ms in [0, 1, 999] {
            assert_eq!(admits(Cause::NotHttp, ms), None);
        }
        assert_eq!(admits(Cause::NotFrame, 5), Some(None), "each kind for itself");
        assert_eq!(quiet.untold_at(999), []);
        assert_eq!(admits(Cause::NotHttp, 1000), Some(Some(3)));
        assert_eq!(admits(Cause::NotHttp, 1001), None);
        assert_eq!(quiet.untold_at(1999), []);
        assert_eq!(quiet.untold_at(2000), [("bad HTTP requests", 1)]);
        assert_eq!(quiet.untold_at(3000), []);
        assert_eq!(admits(Cause::NotHttp, 3000), Some(None));
    }

    #[test]
    fn kinds_stand_in_their_order() {
        for (at, (cause, _)) in KINDS.iter().enumerate() {
            assert_eq!(*cause as usize, at);
        }
    }
}
