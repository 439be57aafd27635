//! What a campaign did, counted: rounds, faults by kind, calls, puts.
//!
//! Its invariant: a count is of what happened, never of what was planned.

use crate::plan::Kind;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Each word stands in one place: its name, and what is printed.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident: $text:literal,)*) => {
        /// The words that faults are counted by, in the order of the summary.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Word {
            $($(#[$doc])* $name,)*
        }

        impl Word {
            /// All of them.
            pub const ALL: &[Word] = &[$(Word::$name,)*];

            /// As it is printed.
            pub fn text(self) -> &'static str {
                match self {
                    $(Word::$name => $text,)*
                }
            }
        }
    };
}

words! {
    /// SIGKILL while it serves.
    Kill: "kill-9",
    /// SIGKILL after SIGTERM.
    KillInStop: "kill-9-in-stop",
    /// SIGKILL before it serves.
    KillInStart: "kill-9-in-start",
    /// [`crate::plan::Fault::Pause`]
    Pause: "pause",
    /// [`crate::plan::Fault::FullDisk`]
    FullDisk: "full-disk",
    /// [`crate::plan::Fault::FileSize`]
    FileSize: "file-size",
    /// [`crate::plan::Fault::ReadOnlyFolder`]
    ReadOnlyFolder: "read-only-folder",
    /// [`crate::plan::Fault::FailedSync`]
    FailedSync: "failed-sync",
    /// [`crate::plan::Fault::SlowSync`]
    SlowSync: "slow-sync",
    /// [`crate::plan::Fault::NewCertificate`]
    NewCertificate: "new-certificate",
    /// [`crate::plan::Fault::WrongCertificate`]
    WrongCertificate: "wrong-certificate",
    /// [`crate::plan::Fault::Resets`]
    Resets: "resets",
    /// [`crate::plan::Fault::HalfCloses`]
    HalfCloses: "half-closes",
    /// [`crate::plan::Fault::SlowReaders`]
    SlowReaders: "slow-readers",
    /// [`crate::plan::Fault::Garbage`]
    Garbage: "garbage",
    /// [`crate::plan::Fault::Deadlines`]
    Deadlines: "deadlines",
    /// [`crate::plan::Fault::KillMember`]
    KillMember: "kill-member",
    /// [`crate::plan::Fault::PauseMember`]
    PauseMember: "pause-member",
}

/// What is counted by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    /// A round that was begun.
    Round(Kind),
    /// A fault that was made.
    Fault(Word),
    /// A fault that this machine does not allow.
    LeftOut(Word),
    /// A store that took no puts after its disk was well again: what a fault came to.
    ReadOnlyStore,
}

impl Counted {
    /// The line of the summary that it stands in, and the word there.
    fn place(self) -> (&'static str, &'static str) {
        match self {
            Counted::Round(kind) => ("rounds", kind.text()),
            Counted::Fault(word) => ("faults", word.text()),
            Counted::LeftOut(word) => ("left outs", word.text()),
            Counted::ReadOnlyStore => ("seen", "read-only-store"),
        }
    }
}

/// Counts of a campaign; threads share it.
#[derive(Debug, Default)]
pub struct Tally {
    /// Calls sent by callers that behave.
    pub calls: AtomicU64,
    /// Calls answered with a result.
    pub answered: AtomicU64,
    /// Calls answered with an error that the faults explain.
    pub refused: AtomicU64,
    /// Calls whose connection closed instead.
    pub closed: AtomicU64,
    /// Puts acknowledged.
    pub puts: AtomicU64,
    /// Puts read back after a restart and found whole.
    pub puts_checked: AtomicU64,
    /// Mixed writes acknowledged.
    pub mixed: AtomicU64,
    /// Mixed writes looked for after a restart.
    pub mixed_checked: AtomicU64,
    /// Mixed writes that a follower did not have when it was promoted, where none is promised.
    pub mixed_behind: AtomicU64,
    /// Followers that were promoted,
    pub promotions: AtomicU64,
    /// servers that caught up with the leader from what they had,
    pub followed_on: AtomicU64,
    /// and those that were given a copy of its stores.
    pub copies: AtomicU64,
    /// Checkpoints that were asked for and written.
    pub checkpoints: AtomicU64,
    /// Upserts acknowledged.
    pub upserts: AtomicU64,
    /// Upserts looked for after a restart.
    pub upserts_checked: AtomicU64,
    /// Folds of them that were begun,
    pub folds: AtomicU64,
    /// and those whose version serves.
    pub folds_served: AtomicU64,
    /// Lookups in the feature table answered.
    pub lookups: AtomicU64,
    /// Switches of its version answered.
    pub switches: AtomicU64,
    /// Builds of a version that were killed,
    pub builds: AtomicU64,
    /// how many of them had ended before,
    pub builds_whole: AtomicU64,
    /// and how many of these went on with what a killed one had left.
    pub builds_resumed: AtomicU64,
    /// Most memory of a server and its processes, in bytes.
    pub resident_bytes_max: AtomicU64,
    /// Longest stop, in milliseconds.
    pub stop_ms_max: AtomicU64,
    /// Longest lie of `/readyz`, in milliseconds.
    pub lie_ms_max: AtomicU64,
    kinds: Mutex<BTreeMap<Counted, u64>>,
}

impl Tally {
    /// Counts one of a kind.
    pub fn count(&self, kind: Counted) {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        *kinds.entry(kind).or_default() += 1;
    }

    /// How many of a kind there were.
    pub fn of(&self, kind: Counted) -> u64 {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.get(&kind).copied().unwrap_or(0)
    }

    /// kill -9 of a server that had started.
    pub fn kills(&self) -> u64 {
        self.of(Counted::Fault(Word::Kill)) + self.of(Counted::Fault(Word::KillInStop))
    }

    /// Adds to a count.
    pub fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Raises a maximum.
    pub fn raise(maximum: &AtomicU64, value: u64) {
        maximum.fetch_max(value, Ordering::Relaxed);
    }

    /// Raises a maximum of milliseconds.
    pub fn raise_ms(maximum: &AtomicU64, took: Duration) {
        Tally::raise(maximum, u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    }

    fn summarize_mixed(&self, text: &mut String) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let _ = writeln!(
            text,
            "mixed writes: {} acknowledged, {} times one was looked for after a restart, {} not promised and not there; {} checkpoints asked for",
            get(&self.mixed),
            get(&self.mixed_checked),
            get(&self.mixed_behind),
            get(&self.checkpoints)
        );
        if get(&self.promotions) > 0 {
            let _ = writeln!(
                text,
                "followers: {} promoted; {} times one caught up with what it had, {} times one was given a copy",
                get(&self.promotions),
                get(&self.followed_on),
                get(&self.copies)
            );
        }
    }

    /// The summary, a line a subject.
    pub fn summary(&self) -> String {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut text = String::new();
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines: Vec<(&str, Vec<String>)> = Vec::new();
        for (kind, count) in kinds.iter() {
            let (subject, word) = kind.place();
            let listed = format!("{word} {count}");
            match lines.last_mut() {
                Some((last, line)) if *last == subject => line.push(listed),
                _ => lines.push((subject, vec![listed])),
            }
        }
        for (subject, line) in lines {
            let _ = writeln!(text, "{subject}: {}", line.join(", "));
        }
        let _ = writeln!(
            text,
            "calls: {} sent, {} answered, {} refused, {} with a connection that closed",
            get(&self.calls),
            get(&self.answered),
            get(&self.refused),
            get(&self.closed)
        );
        let _ = writeln!(
            text,
            "puts: {} acknowledged, {} times one was looked for after a restart",
            get(&self.puts),
            get(&self.puts_checked)
        );
        self.summarize_mixed(&mut text);
        let _ = writeln!(
            text,
            "upserts: {} acknowledged, {} times one was looked for after a restart, {} folds, {} of them served",
            get(&self.upserts),
            get(&self.upserts_checked),
            get(&self.folds),
            get(&self.folds_served)
        );
        let _ = writeln!(
            text,
            "tables: {} lookups, {} switches, {} builds killed, {} of them with a whole version, {} of those begun by another",
            get(&self.lookups),
            get(&self.switches),
            get(&self.builds),
            get(&self.builds_whole),
            get(&self.builds_resumed)
        );
        let _ = writeln!(
            text,
            "most memory: {:.1} MiB; longest stop: {} ms; longest lie of /readyz: {} ms",
            get(&self.resident_bytes_max) as f64 / f64::from(1 << 20),
            get(&self.stop_ms_max),
            get(&self.lie_ms_max)
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_fault_came_to_is_no_fault() {
        let tally = Tally::default();
        for kind in [
            Counted::ReadOnlyStore,
            Counted::Fault(Word::FailedSync),
            Counted::Fault(Word::Kill),
            Counted::Fault(Word::KillInStart),
            Counted::Fault(Word::KillInStop),
            Counted::Round(Kind::Storm),
        ] {
            tally.count(kind);
        }
        assert_eq!(tally.kills(), 2, "one was before it served");
        let summary = tally.summary();
        let lines: Vec<&str> = summary.lines().take(3).collect();
        let expected = [
            "rounds: storm 1",
            "faults: kill-9 1, kill-9-in-stop 1, kill-9-in-start 1, failed-sync 1",
            "seen: read-only-store 1",
        ];
        assert_eq!(lines, expected);
    }
}
