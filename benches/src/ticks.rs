//! Processor time of the whole machine, from /proc/stat.
//!
//! Its invariant: the ticks of a reading belong to the time that passed; a file that stands still, or runs at another speed, is no
//! reading.

use std::time::{Duration, Instant};

/// Ticks a second of one processor (USER_HZ of every Linux there is).
const TICKS_PER_S: f64 = 100.0;
/// How far the ticks may be from the time that passed.
const OFF_MAX: f64 = 0.5;

/// A reading.
pub(crate) struct Ticks {
    at: Instant,
    processors: usize,
    all: u64,
    idle: u64,
    steal: u64,
}

/// What was used between two readings, in percent of one core.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share {
    /// By anything, interrupts included, and without what the hypervisor took.
    pub(crate) busy_percent: f64,
    /// By the hypervisor.
    pub(crate) steal_percent: f64,
}

impl Ticks {
    pub(crate) fn read() -> Option<Ticks> {
        parse(&std::fs::read_to_string("/proc/stat").ok()?, Instant::now())
    }

    /// What was used since; nothing where the machine does not tell, or the figures stand still.
    pub(crate) fn until_now(&self) -> Option<Share> {
        let now = Ticks::read()?;
        share(self, &now, now.at.duration_since(self.at))
    }
}

/// `cpu user nice system idle iowait irq softirq steal …`, then a line for each processor.
fn parse(text: &str, at: Instant) -> Option<Ticks> {
    let mut lines = text.lines();
    let whole = lines.next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = whole
        .split_ascii_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = fields.as_slice() else {
        return None;
    };
    Some(Ticks {
        at,
        processors: lines.take_while(|line| line.starts_with("cpu")).count(),
        all: [user, nice, system, idle, iowait, irq, softirq, steal]
            .iter()
            .sum(),
        idle: idle + iowait,
        steal,
    })
}

fn share(before: &Ticks, after: &Ticks, passed: Duration) -> Option<Share> {
    let due = passed.as_secs_f64() * TICKS_PER_S * after.processors as f64;
    let grown = |before: u64, after: u64| after.checked_sub(before).map(|ticks| ticks as f64);
    let all = grown(before.all, after.all)?;
    if due <= 0.0 || (all - due).abs() > OFF_MAX * due {
        return None;
    }
    let percent = |ticks: f64| 100.0 * ticks / all * after.processors as f64;
    // Idle time may be counted back by a tick.
    let idle = grown(before.idle, after.idle).unwrap_or(0.0);
    let steal = grown(before.steal, after.steal).unwrap_or(0.0);
    Some(Share {
        busy_percent: percent((all - idle - steal).max(0.0)),
        steal_percent: percent(steal),
    })
}

/// Runs `work`; what the hypervisor took meanwhile, in percent of one core, is zero where the machine does not tell.
pub(crate) fn watched<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, f64)> {
    let before = Ticks::read();
    let done = work()?;
    let share = before.and_then(|before| before.until_now());
    Ok((done, share.map_or(0.0, |share| share.steal_percent)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ticks(user: u64, idle: u64, steal: u64) -> Ticks {
        let text = format!("cpu  {user} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 1 2\ncpu1 1 2\nintr 5\n");
        parse(&text, Instant::now()).unwrap()
    }

    #[test]
    fn shares_are_of_one_core() {
        let passed = Duration::from_secs(10);
        let found = share(&ticks(0, 0, 0), &ticks(500, 1300, 200), passed).unwrap();
        assert_eq!(
            found,
            Share {
                busy_percent: 50.0,
                steal_percent: 20.0
            }
        );
    }

    #[test]
    fn figures_that_stand_still_or_run_at_another_speed_are_no_reading() {
        let passed = Duration::from_secs(10);
        let check = |after: Ticks, expected: bool| {
            assert_eq!(share(&ticks(7, 7, 7), &after, passed).is_some(), expected);
        };
        check(ticks(7, 7, 7), false);
        check(ticks(7, 107, 7), false);
        check(ticks(7, 9007, 7), false);
        check(ticks(7, 1, 7), false);
        check(ticks(7, 2007, 7), true);
    }

    #[test]
    fn this_machine_is_read() {
        assert!(Ticks::read().is_some_and(|ticks| ticks.processors > 0 && ticks.all > 0));
        assert!(parse("cpu  1 2 3", Instant::now()).is_none());
        assert!(parse("", Instant::now()).is_none());
    }
}
