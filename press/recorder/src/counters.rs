//! How requests and connections ended.
//!
//! Its invariant: a request adds one to exactly one of `ok`, `unchecked`, `wrong`, `refused`, `errors`, `not_sent`, `cut`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Why a request that was sent has no answer that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// No answer within the request's time.
    Timeout,
    /// The peer ended the connection before the answer was whole.
    Closed,
    /// The connection broke: reset, broken pipe, unreachable.
    Reset,
    /// What came is not an answer of the protocol.
    Garbage,
    /// The answer is larger than the client accepts.
    TooLarge,
    /// The server answered that it failed; the codes are counted beside.
    Status,
    /// An answer that nothing asked for: twice, or out of order.
    Unexpected,
}

impl ErrorKind {
    /// The name used in results.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Timeout => "timeout",
            ErrorKind::Closed => "closed",
            ErrorKind::Reset => "reset",
            ErrorKind::Garbage => "garbage",
            ErrorKind::TooLarge => "too_large",
            ErrorKind::Status => "status",
            ErrorKind::Unexpected => "unexpected",
        }
    }
}

/// The counts of one point, or of one thread of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Answers that were checked and are right.
    pub ok: u64,
    /// Answers that sampling left unchecked.
    pub unchecked: u64,
    /// Answers that were checked and are wrong.
    pub wrong: u64,
    /// Requests the server refused, by the code it gave.
    pub refused: BTreeMap<u32, u64>,
    /// Requests without an answer, by kind.
    pub errors: BTreeMap<ErrorKind, u64>,
    /// The codes (or HTTP statuses) behind [`ErrorKind::Status`].
    pub status_codes: BTreeMap<u32, u64>,
    /// Requests of a fixed number that were never sent, because their connection was refused or lost for good.
    pub not_sent: u64,
    /// Of `not_sent` those left on connections that were lost for good and not refused; 0 in results from before it was counted.
    #[serde(default)]
    pub not_sent_lost: u64,
    /// Requests on their way when the run was interrupted.
    pub cut: u64,
    /// Connections opened, reconnections included.
    pub connections_opened: u64,
    /// Connections the server refused by an answer and a close.
    pub connections_refused: u64,
    /// Attempts to connect that failed.
    pub connections_failed: u64,
    /// Connections that had failed and were not up again when the load ended; 0 in results of schema 3.
    #[serde(default)]
    pub connections_down: u64,
    /// Answers that came after their request had been given up; the request itself is counted as what it was given up for.
    pub late: u64,
    /// The first message of each kind of trouble, so that a count can be understood.
    pub first: BTreeMap<String, String>,
}

impl Counters {
    /// Answers: checked and right, or left unchecked by sampling.
    pub fn answers(&self) -> u64 {
        self.ok + self.unchecked
    }

    /// Requests refused, whatever the code. A result may come from elsewhere, so no sum overflows.
    pub fn refused_total(&self) -> u64 {
        self.refused
            .values()
            .fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// Requests without an answer that was awaited: errors of every kind.
    pub fn errors_total(&self) -> u64 {
        self.errors
            .values()
            .fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// Requests that failed: wrong answers and errors of every kind.
    pub fn failed_total(&self) -> u64 {
        self.wrong.saturating_add(self.errors_total())
    }

    /// Requests that were offered: the sum over every outcome.
    pub fn offered(&self) -> u64 {
        self.answers() + self.refused_total() + self.failed_total() + self.not_sent + self.cut
    }

    /// Adds the counts of another thread. Of the first messages, those already here stay.
    pub fn merge(&mut self, other: &Counters) {
        self.ok += other.ok;
        self.unchecked += other.unchecked;
        self.wrong += other.wrong;
        add(&mut self.refused, &other.refused);
        add(&mut self.errors, &other.errors);
        add(&mut self.status_codes, &other.status_codes);
        self.not_sent += other.not_sent;
        self.not_sent_lost += other.not_sent_lost;
        self.cut += other.cut;
        self.connections_opened += other.connections_opened;
        self.connections_refused += other.connections_refused;
        self.connections_failed += other.connections_failed;
        self.connections_down += other.connections_down;
        self.late += other.late;
        for (kind, message) in &other.first {
            self.note(kind, || message.clone());
        }
    }

    /// Keeps `message` if it is the first of its kind.
    pub fn note(&mut self, kind: &str, message: impl FnOnce() -> String) {
        if !self.first.contains_key(kind) {
            self.first.insert(kind.to_owned(), message());
        }
    }
}

fn add<K: Ord + Copy>(sums: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (&key, &count) in more {
        *sums.entry(key).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_strangers_do_not_overflow() {
        let mut counters = Counters::default();
        counters.refused.insert(1, u64::MAX);
        counters.refused.insert(2, u64::MAX);
        assert_eq!(counters.refused_total(), u64::MAX);
    }
}
