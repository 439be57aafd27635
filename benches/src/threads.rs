//! Processor time of each thread of a process, by the thread's name, from /proc.
//!
//! Its invariant: times only grow, so the difference of two readings is what was used between them.

use std::collections::BTreeMap;
use std::time::Duration;

/// What one thread has used since it began.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    /// On a core.
    pub(crate) ran: Duration,
    /// Ready to run, but not on a core.
    pub(crate) waited: Duration,
    /// The part of `ran` inside the kernel, in hundredths of a second: good over seconds only.
    pub(crate) kernel: Duration,
}

/// All threads of a process. Threads that share a name are added up.
pub(crate) type Threads = BTreeMap<String, Used>;

/// Reads them; a thread that ends meanwhile is left out.
pub(crate) fn read(pid: u32) -> std::io::Result<Threads> {
    let mut threads = Threads::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = entry?.path();
        let file = |name: &str| std::fs::read_to_string(task.join(name)).unwrap_or_default();
        let name = file("comm").trim().to_owned();
        if let Some(used) = parse(&file("schedstat"), &file("stat")) {
            let sum = threads.entry(name).or_default();
            *sum = Used {
                ran: sum.ran + used.ran,
                waited: sum.waited + used.waited,
                kernel: sum.kernel + used.kernel,
            };
        }
    }
    Ok(threads)
}

/// schedstat: "ran waited slices", in nanoseconds. stat: system time is the 15th field, and the name before it may hold
/// anything.
fn parse(schedstat: &str, stat: &str) -> Option<Used> {
    let mut fields = schedstat.split_ascii_whitespace();
    let ran = Duration::from_nanos(fields.next()?.parse().ok()?);
    let waited = Duration::from_nanos(fields.next()?.parse().ok()?);
    let after_name = &stat[stat.rfind(')')? + 1..];
    let hundredths: u64 = after_name.split_ascii_whitespace().nth(12)?.parse().ok()?;
    let kernel = Duration::from_millis(10 * hundredths);
    Some(Used { ran, waited, kernel })
}

/// What was used between two readings.
pub(crate) fn between(before: &Threads, after: &Threads) -> Threads {
    let minus = |name: &String, after: &Used| {
        let before = before.get(name).copied().unwrap_or_default();
        Used {
            ran: after.ran.saturating_sub(before.ran),
            waited: after.waited.saturating_sub(before.waited),
            kernel: after.kernel.saturating_sub(before.kernel),
        }
    };
    after
        .iter()
        .map(|(name, used)| (name.clone(), minus(name, used)))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_files_of_a_thread_are_understood() {
        let used = parse("1500 250 7\n", "77 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20").unwrap();
        assert_eq!((used.ran.as_nanos(), used.waited.as_nanos()), (1500, 250));
        assert_eq!(used.kernel, Duration::from_millis(500));
        assert!(parse("", "77 (a) S").is_none());
    }

    #[test]
    fn this_process_is_read() {
        let threads = read(std::process::id()).unwrap();
        assert!(!threads.is_empty());
        let nothing = between(&threads, &threads);
        assert!(nothing.values().all(|used| used.ran.is_zero()));
    }
}
