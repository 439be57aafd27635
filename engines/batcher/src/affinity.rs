//! Ties the calling thread to one CPU. Not a scheduler: it makes one system call.
//! Invariant: a CPU number that the kernel's set cannot hold is refused, never written.

use std::io;

/// Lets the calling thread run on `cpu` alone.
///
/// # Errors
/// When there is no such CPU here or the process may not use it.
#[cfg(target_os = "linux")]
pub(crate) fn pin_to(cpu: usize) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Elsewhere pinning is refused rather than ignored.
#[cfg(not(target_os = "linux"))]
pub(crate) fn pin_to(_cpu: usize) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// In a thread of its own, so that the test runner's thread stays free.
    fn check(cpu: usize, expected: bool) {
        let pinned = std::thread::spawn(move || pin_to(cpu)).join().unwrap();
        assert_eq!(pinned.is_ok(), expected, "cpu {cpu}: {pinned:?}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_is_pinned_to_a_cpu_that_exists() {
        check(allowed_cpu(), true);
        check(1023, false);
        check(usize::MAX, false);
    }

    /// The first CPU this process may use, as the kernel tells it.
    #[cfg(target_os = "linux")]
    fn allowed_cpu() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
            .unwrap();
        let first: String = list.trim().chars().take_while(char::is_ascii_digit).collect();
        first.parse().unwrap()
    }
}
