//! When an upsert was made, wherever that was: what decides between two of one key on several servers.
//!
//! It reads no clock; who takes the call gives the stamp. Invariant: of two upserts of different calls one has the higher stamp, and
//! every server says the same of them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time of an upsert and who gave it. The default stands for none: such upserts count in the order in which they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Stamp {
    /// Milliseconds of Unix time, and in the lower 16 bits a count of the upserts within one.
    pub time: u64,
    /// A number of the server that took the call: it decides where two have the same time.
    pub origin: u64,
}

impl Stamp {
    /// How far a stamp may be ahead of this server's clock: one that is further off would beat all others for as long.
    pub const AHEAD_MAX: Duration = Duration::from_secs(60);
    /// Bytes of it, as they are stored.
    pub const BYTES: usize = 16;

    /// Whether it is one.
    pub fn is_some(self) -> bool {
        self != Stamp::default()
    }

    /// The lowest of that millisecond of Unix time: the default for the first one.
    pub(crate) fn of_ms(ms: u64) -> Stamp {
        Stamp {
            time: ms.min(u64::MAX >> 16) << 16,
            origin: 0,
        }
    }

    /// Its time alone, in milliseconds of Unix time.
    pub fn ms(self) -> u64 {
        self.time >> 16
    }

    /// The last millisecond of Unix time of which a server whose clock is right may give a stamp.
    pub fn ms_max(now: SystemTime) -> u64 {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let most = now.saturating_add(Stamp::AHEAD_MAX).as_millis();
        u64::try_from(most).unwrap_or(u64::MAX)
    }

    /// Whether it was given longer ago than `age`.
    pub fn is_older_than(self, age: Duration, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        Duration::from_millis(self.ms()).saturating_add(age) < now
    }

    /// Whether no server whose clock is right gives such a stamp yet.
    pub fn is_ahead(self, now: SystemTime) -> bool {
        self.ms() > Stamp::ms_max(now)
    }
}
