//! The machine a run was made on, as far as it explains figures.
//!
//! Read from `/proc`; what cannot be read is absent, never guessed.

use serde::{Deserialize, Serialize};

use crate::proc::text;

/// What does not change during a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The processor's name.
    pub cpu_model: Option<String>,
    /// Cores this process may use.
    pub cores: Option<usize>,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// Open files this process may have, after raising the limit as far as allowed.
    pub open_files_max: Option<u64>,
}

/// What else the machine was doing: the kernel's load averages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadAverage {
    /// Runnable tasks, mean of the last minute.
    pub minute_1: f64,
    /// Runnable tasks, mean of the last five minutes.
    pub minutes_5: f64,
}

impl Machine {
    /// Describes this machine.
    pub fn read() -> Machine {
        let file = |path: &str| std::fs::read_to_string(path).ok();
        Machine {
            cpu_model: file("/proc/cpuinfo").and_then(|text| cpu_model(&text)),
            cores: std::thread::available_parallelism().ok().map(usize::from),
            memory_bytes: file("/proc/meminfo").and_then(|text| text::kib(&text, "MemTotal:")),
            kernel: file("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
            open_files_max: file("/proc/self/limits").and_then(|text| open_files(&text)),
        }
    }
}

impl LoadAverage {
    /// The load average now, or nothing where the system does not say.
    pub fn read() -> Option<LoadAverage> {
        let text = std::fs::read_to_string("/proc/loadavg").ok()?;
        let mut fields = text.split_ascii_whitespace();
        Some(LoadAverage {
            minute_1: fields.next()?.parse().ok()?,
            minutes_5: fields.next()?.parse().ok()?,
        })
    }
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn open_files(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_proc_are_understood() {
        assert_eq!(
            cpu_model("processor : 0\nmodel name\t: Some CPU @ 3 GHz\n"),
            Some("Some CPU @ 3 GHz".into())
        );
        assert_eq!(
            text::kib("MemTotal:       1024 kB\nMemFree: 1 kB\n", "MemTotal:"),
            Some(1 << 20)
        );
        assert_eq!(
            open_files("Max open files            1024                 4096       files\n"),
            Some(1024)
        );
        assert_eq!(cpu_model(""), None);
        assert_eq!(text::kib("MemTotal: many", "MemTotal:"), None);
        assert_eq!(open_files("Max open files unlimited"), None);
    }
}
