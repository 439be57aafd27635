//! Processor time and memory of a process, this one or another on the same machine.
//!
//! The processor clock of a process counts nanoseconds over all its threads, those that ended included, so a point that
//! lasts a few milliseconds is still measured; `/proc/PID/stat` (ticks of 10 ms) is the fall-back. Its invariant: a process
//! that cannot be measured gives nothing, never zero.
#![allow(unsafe_code)] // Two calls of the C library that std does not offer.

use std::time::{Duration, Instant};

use crate::proc::text;

/// The kernel's largest process number. A larger one would fold into the number of some other clock.
const PID_MAX: u32 = 1 << 22;

/// The processor time of a process and when it was read.
#[derive(Debug, Clone, Copy)]
pub struct CpuSample {
    at: Instant,
    used: Duration,
}

impl CpuSample {
    /// Reads the clocks of several processes as one, or nothing when there is no such process here among them.
    pub fn of_all(pids: &[u32]) -> Option<CpuSample> {
        Some(CpuSample {
            used: pids.iter().map(|&pid| cpu_time(pid)).sum::<Option<Duration>>()?,
            at: Instant::now(),
        })
    }

    /// The processor time between the two samples, in seconds.
    pub fn seconds_until(&self, later: &CpuSample) -> f64 {
        later.used.saturating_sub(self.used).as_secs_f64()
    }

    /// The use between the two samples in percent of one core; nothing when no time passed.
    pub fn percent_until(&self, later: &CpuSample) -> Option<f64> {
        let wall = later.at.saturating_duration_since(self.at).as_secs_f64();
        (wall > 0.0).then(|| 100.0 * self.seconds_until(later) / wall)
    }
}

/// The processor time that process `pid` used so far, or nothing when it cannot be read.
pub(crate) fn cpu_time(pid: u32) -> Option<Duration> {
    if !(1..=PID_MAX).contains(&pid) {
        return None;
    }
    let pid_native = libc::pid_t::try_from(pid).ok()?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is a valid place for one clockid_t; the call reads nothing else of ours.
    let rc = unsafe { libc::clock_getcpuclockid(pid_native, &mut clock) };
    if rc == 0
        && let Some(used) = read_clock(clock)
    {
        return Some(used);
    }
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text::stat(&stat).map(|stat| Duration::from_nanos(stat.cpu_ns))
}

fn read_clock(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for one timespec; an unknown clock is an error return.
    let rc = unsafe { libc::clock_gettime(clock, &mut time) };
    if rc != 0 {
        return None;
    }
    Some(Duration::new(
        u64::try_from(time.tv_sec).ok()?,
        u32::try_from(time.tv_nsec).ok()?,
    ))
}

/// Resident memory of process `pid` in bytes, or nothing when it cannot be read.
pub fn memory_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text::kib(&status, "VmRSS:")
}

/// Processes of a tree that are looked at.
const TREE_MAX: usize = 256;

/// Process `pid` and its descendants, parents first, as far as they can be read.
pub fn process_tree(pid: u32) -> Vec<u32> {
    let mut tree = vec![pid];
    let mut next = 0;
    while let Some(&pid) = tree.get(next) {
        next += 1;
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        for task in tasks.flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let found = children
                .split_ascii_whitespace()
                .filter_map(|child| child.parse::<u32>().ok());
            tree.extend(found.filter(|child| *child != pid));
            tree.truncate(TREE_MAX);
        }
    }
    tree
}

/// Memory that the kernel keeps for itself in its slabs, reclaimable or not: sockets and their files among others. The inodes
/// of sockets count as reclaimable, so the part that is not would miss them.
pub fn kernel_slab_bytes() -> Option<u64> {
    text::kib(&std::fs::read_to_string("/proc/meminfo").ok()?, "Slab:")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_process_is_measured_by_its_number() {
        let pid = std::process::id();
        let before = CpuSample::of_all(&[pid]).unwrap();
        let mut sum = 0u64;
        for i in 0..30_000_000u64 {
            sum = sum.wrapping_mul(31).wrapping_add(std::hint::black_box(i));
        }
        std::hint::black_box(sum);
        let after = CpuSample::of_all(&[pid]).unwrap();
        assert!(before.seconds_until(&after) > 0.0);
        assert!(before.percent_until(&after).unwrap() > 0.0);
        assert!(memory_bytes(pid).unwrap() > 100_000);
    }

    #[test]
    fn a_tree_has_its_descendants() {
        let script = "sleep 60 & sleep 60 & echo up; wait";
        let mut child = std::process::Command::new("sh")
            .args(["-c", script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 2];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        let tree = process_tree(child.id());
        let own = process_tree(std::process::id());
        for pid in tree.iter().skip(1) {
            let _ = std::process::Command::new("kill").arg(pid.to_string()).status();
        }
        child.wait().unwrap();
        assert_eq!((tree.len(), tree[0]), (3, child.id()), "{tree:?}");
        assert!(tree.iter().all(|pid| own.contains(pid)), "{own:?}");
        assert_eq!(process_tree(1 << 30), [1 << 30]);
    }

    #[test]
    fn the_kernels_memory_is_read() {
        assert!(kernel_slab_bytes().unwrap() > 1 << 20);
        assert_eq!(
            text::kib("MemFree: 1 kB\nSlab:   12 kB\n", "Slab:"),
            Some(12 << 10)
        );
        assert_eq!(text::kib("Slab: many kB\nSUnreclaim: 1 kB", "Slab:"), None);
    }

    #[test]
    fn an_absent_process_gives_nothing() {
        assert_eq!(cpu_time(0), None);
        // Above the kernel's largest process number.
        assert_eq!(cpu_time(1 << 30), None);
        assert_eq!(memory_bytes(1 << 30), None);
    }

    #[test]
    fn stat_is_read_past_the_name() {
        let stat = "77 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20";
        assert_eq!(text::stat(stat).map(|stat| stat.cpu_ns), Some(3_000_000_000));
        assert_eq!(text::stat("77 (a) S 1 2"), None);
        assert_eq!(text::stat(""), None);
        assert_eq!(
            text::kib("Name:\tx\nVmRSS:\t  2048 kB\n", "VmRSS:"),
            Some(2 << 20)
        );
    }
}
