//! What cores share with each other: what work on some of them does to work on others, read of the system.
//!
//! Its invariant: nothing is guessed. Where the system does not say what cores share, their interference is unknown.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Where the system says it.
const CPUS: &str = "/sys/devices/system/cpu";
/// The most cores that a list is read of.
const CORES_MAX: usize = 4_096;
/// Caches of a core that are looked at.
const CACHES_MAX: usize = 8;

/// What work on some cores does to work on others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interference {
    /// The system does not say what the cores share.
    #[default]
    Unknown,
    /// They may run on the same core, or on those that carry the bytes between the two ends.
    CpuContention,
    /// They run on threads of the same core.
    SmtContention,
    /// Their cores share a cache of the second level.
    CacheL2,
    /// Their cores share a cache of the third level, and none nearer.
    CacheL3,
    /// Their cores share no cache: what is left is the memory behind them.
    Memory,
}

impl Interference {
    /// What work on the cores `theirs` does to work on the cores `ours`: the strongest of what any two of them share. No
    /// cores stand for any.
    pub fn between(ours: &[usize], theirs: &[usize]) -> Interference {
        Interference::read(Path::new(CPUS), ours, theirs)
    }

    fn read(cpus: &Path, ours: &[usize], theirs: &[usize]) -> Interference {
        if ours.is_empty() || theirs.is_empty() || ours.iter().any(|core| theirs.contains(core)) {
            return Interference::CpuContention;
        }
        let shares = |found: &BTreeSet<usize>| theirs.iter().any(|core| found.contains(core));
        let mut weakest = Interference::Memory;
        for core in ours {
            let of_core = cpus.join(format!("cpu{core}"));
            let Some(siblings) = list(&of_core.join("topology/thread_siblings_list")) else {
                return Interference::Unknown;
            };
            if shares(&siblings) {
                return Interference::SmtContention;
            }
            let caches = of_core.join("cache");
            if !caches.is_dir() {
                return Interference::Unknown;
            }
            let indexes = (0..CACHES_MAX).map(|index| caches.join(format!("index{index}")));
            let known: Vec<(u32, bool)> = indexes.filter_map(|cache| level(&cache, shares)).collect();
            if known.is_empty() {
                return Interference::Unknown;
            }
            for (level, _) in known.into_iter().filter(|(_, is_shared)| *is_shared) {
                weakest = match (level, weakest) {
                    (..=2, _) | (_, Interference::CacheL2) => Interference::CacheL2,
                    _ => Interference::CacheL3,
                };
            }
        }
        weakest
    }

    /// Whether it is a cache's.
    pub fn is_of_cache(self) -> bool {
        matches!(self, Interference::CacheL2 | Interference::CacheL3)
    }

    /// In words.
    pub fn in_words(self) -> &'static str {
        match self {
            Interference::Unknown => {
                "interference of an unknown kind: the system does not say what the cores share"
            }
            Interference::CpuContention => "CPU contention",
            Interference::SmtContention => "SMT contention",
            Interference::CacheL2 => "cache interference (shared L2)",
            Interference::CacheL3 => "cache interference (shared L3)",
            Interference::Memory => "memory interference (no shared cache)",
        }
    }
}

/// The level of a cache, and whether `shares` says so of the cores that it is of.
fn level(cache: &Path, shares: impl Fn(&BTreeSet<usize>) -> bool) -> Option<(u32, bool)> {
    let level = std::fs::read_to_string(cache.join("level")).ok()?;
    let cores = list(&cache.join("shared_cpu_list"))?;
    Some((level.trim().parse().ok()?, shares(&cores)))
}

/// A list of cores of a file: `0-3,8`.
fn list(file: &Path) -> Option<BTreeSet<usize>> {
    cores(std::fs::read_to_string(file).ok()?.trim())
}

fn cores(text: &str) -> Option<BTreeSet<usize>> {
    let mut cores = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= CORES_MAX {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Four cores: 0 and 1 are threads of one, 0 to 2 share an L2, all but 4 an L3.
    fn machine() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for core in 0..5 {
            let write = |name: &str, text: &str| {
                let path = dir.path().join(format!("cpu{core}/{name}"));
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, format!("{text}\n")).unwrap();
            };
            let own = core.to_string();
            write(
                "topology/thread_siblings_list",
                if core < 2 { "0-1" } else { &own },
            );
            write("cache/index0/level", "1");
            write(
                "cache/index0/shared_cpu_list",
                if core < 2 { "0-1" } else { &own },
            );
            write("cache/index1/level", "2");
            write(
                "cache/index1/shared_cpu_list",
                if core < 3 { "0-2" } else { &own },
            );
            write("cache/index2/level", "3");
            write(
                "cache/index2/shared_cpu_list",
                if core < 4 { "0-1,2,3" } else { &own },
            );
        }
        dir
    }

    #[test]
    fn interference_is_named_by_what_cores_share() {
        let machine = machine();
        let read = |ours: &[usize], theirs: &[usize]| Interference::read(machine.path(), ours, theirs);
        assert_eq!(read(&[0], &[0, 4]), Interference::CpuContention);
        assert_eq!(read(&[], &[4]), Interference::CpuContention, "on any core");
        assert_eq!(read(&[0], &[1]), Interference::SmtContention);
        assert_eq!(read(&[0], &[2]), Interference::CacheL2);
        assert_eq!(read(&[0], &[3, 2]), Interference::CacheL2, "the strongest");
        assert_eq!(read(&[3], &[0, 1]), Interference::CacheL3);
        assert_eq!(read(&[0], &[4]), Interference::Memory);
        assert_eq!(
            read(&[9], &[4]),
            Interference::Unknown,
            "a core of which nothing is said"
        );
        std::fs::remove_dir_all(machine.path().join("cpu3/cache")).unwrap();
        assert_eq!(read(&[3], &[0]), Interference::Unknown);
        std::fs::create_dir_all(machine.path().join("cpu3/cache/index0")).unwrap();
        assert_eq!(
            read(&[3], &[0]),
            Interference::Unknown,
            "a cache of which nothing is said"
        );
    }

    #[test]
    fn lists_of_cores_are_understood() {
        assert_eq!(cores("0-2,5"), Some(BTreeSet::from([0, 1, 2, 5])));
        for bad in ["", "x", "1-", "0-99999999"] {
            assert_eq!(cores(bad), None, "{bad}");
        }
    }
}
