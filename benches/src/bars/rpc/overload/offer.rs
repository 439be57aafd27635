//! One rate offered to a server: what came of the calls, and what they cost it.
//!
//! Its invariant: an answer that is wrong, or an error other than a deadline that passed, leaves no figure.

use crate::process_memory::memory_bytes;
use crate::threads::{self, Threads};
use anyhow::{Context as _, ensure};
use millpond_press_report::Point;
use millpond_press_verdict::Conditions;

/// The code of a call whose deadline passed.
const DEADLINE_PASSED: u32 = 30_102;
/// The name of the one net thread.
const NET_THREAD: &str = "net-0";

/// Resident memory of the server, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    pub(super) before: f64,
    /// The most between the two.
    pub(super) peak: f64,
    pub(super) after: f64,
}

/// What the server used meanwhile.
pub(super) struct Usage {
    memory: Memory,
    net_s: f64,
}

/// What the server had used before.
pub(super) struct Before {
    pid: u32,
    memory: f64,
    threads: Threads,
}

impl Before {
    /// Reads it, and lets the process's peak begin anew.
    pub(super) fn read(pid: u32) -> anyhow::Result<Before> {
        // 5 forgets the peak (Linux' Documentation/filesystems/proc.rst, clear_refs).
        let file = format!("/proc/{pid}/clear_refs");
        std::fs::write(&file, "5").with_context(|| format!("cannot write {file}"))?;
        Ok(Before {
            pid,
            memory: memory_bytes(pid, "VmRSS:")?,
            threads: threads::read(pid)?,
        })
    }

    pub(super) fn until_now(self) -> anyhow::Result<Usage> {
        let used = threads::between(&self.threads, &threads::read(self.pid)?);
        let net = used
            .get(NET_THREAD)
            .with_context(|| format!("the server has no thread {NET_THREAD}, but {:?}", used.keys()))?;
        Ok(Usage {
            net_s: net.ran.as_secs_f64(),
            memory: Memory {
                before: self.memory,
                peak: memory_bytes(self.pid, "VmHWM:")?,
                after: memory_bytes(self.pid, "VmRSS:")?,
            },
        })
    }
}

/// What came of a rate.
pub(super) struct Offer {
    /// Requests a second that were sent.
    pub(super) offered: f64,
    /// Answers a second.
    pub(super) goodput: f64,
    pub(super) refused_per_s: f64,
    answers: f64,
    refused: f64,
    /// Calls that were let in and told that their deadline had passed.
    pub(super) expired: u64,
    pub(super) answered_us_p99: f64,
    pub(super) refused_us_p99: f64,
    /// Processor time of the net thread.
    pub(super) net_s: f64,
    pub(super) lasted_s: f64,
    pub(super) memory: Memory,
    /// Seconds from its end until a call was answered as quickly as without it.
    pub(super) recovery_s: f64,
    pub(super) verdict: String,
    pub(super) conditions: Conditions,
}

impl Offer {
    pub(super) fn of(name: &str, point: &Point, usage: Usage, recovery_s: f64) -> anyhow::Result<Offer> {
        let counters = &point.counters;
        let expired = counters.status_codes.get(&DEADLINE_PASSED).copied().unwrap_or(0);
        ensure!(
            counters.failed_total() == expired && !point.interrupted,
            "{name}: {counters:?}"
        );
        let lasted_s = point.us_total as f64 / 1e6;
        let refused = counters.refused_total() as f64;
        Ok(Offer {
            offered: point.sent_per_s,
            goodput: point.qps,
            refused_per_s: refused / lasted_s,
            answers: counters.answers() as f64,
            refused,
            expired,
            answered_us_p99: point.latency.us_p99.unwrap_or(f64::NAN),
            // Where nothing was refused, nothing was late.
            refused_us_p99: match counters.refused_total() {
                0 => 0.0,
                _ => point.latency_refused.us_p99.unwrap_or(f64::NAN),
            },
            net_s: usage.net_s,
            lasted_s,
            memory: usage.memory,
            recovery_s,
            verdict: format!("{:?}", point.verdict.judgement),
            conditions: Conditions::of(point),
        })
    }

    /// Of the calls that were let in, those that expired.
    pub(super) fn expired_share(&self) -> f64 {
        self.expired as f64 / (self.answers + self.expired as f64)
    }
}

/// Microseconds of the net thread for a refusal, from two loads with different shares of them: both times are an answer's cost
/// times the answers and a refusal's times the refusals.
pub(super) fn refusal_us(light: &Offer, heavy: &Offer) -> f64 {
    let determinant = light.answers * heavy.refused - heavy.answers * light.refused;
    (light.answers * heavy.net_s - heavy.answers * light.net_s) / determinant * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(answers: f64, refused: f64) -> Offer {
        let memory = Memory {
            before: 0.0,
            peak: 0.0,
            after: 0.0,
        };
        Offer {
            offered: 0.0,
            goodput: 0.0,
            refused_per_s: 0.0,
            answers,
            refused,
            expired: 0,
            answered_us_p99: 0.0,
            refused_us_p99: 0.0,
            net_s: (answers * 20.0 + refused * 3.0) / 1e6,
            lasted_s: 1.0,
            memory,
            recovery_s: 0.0,
            verdict: String::new(),
            conditions: Conditions::without_load(0.0),
        }
    }

    #[test]
    fn a_refusals_cost_is_told_apart_from_an_answers() {
        let found = refusal_us(&offer(5000.0, 40.0), &offer(4900.0, 45_000.0));
        assert!((found - 3.0).abs() < 1e-6, "{found}");
        // The same load twice says nothing.
        assert!(refusal_us(&offer(1.0, 1.0), &offer(1.0, 1.0)).is_nan());
    }
}
