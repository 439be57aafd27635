//! The machine a run was made on, as far as it explains figures.
//!
//! Read from `/proc`; what cannot be read is absent, never guessed.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::proc::text;

/// Idle states that are looked for.
const C_STATES_MAX: usize = 16;

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
    /// What the kernel says of threads that share a core: `on`, `off`, `notsupported`, …
    pub smt: Option<String>,
    /// The idle states that a core may enter, the shallowest first; empty where the kernel has no driver for them.
    pub c_states: Option<Vec<String>>,
    /// What sets a core's frequency: `performance`, `powersave`, …
    pub governor: Option<String>,
    /// The frequency of the first core when it was read, in MHz.
    pub mhz: Option<f64>,
    /// The bounds that the governor has, in MHz; the same number twice for one that is pinned.
    pub mhz_bounds: Option<(f64, f64)>,
    /// What the machine is to a hypervisor, by the names of its maker; `none` for a processor that sees no hypervisor.
    pub virtualisation: Option<String>,
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
        let word = |path: &str| {
            file(path)
                .map(|text| text.trim().to_owned())
                .filter(|word| !word.is_empty())
        };
        let mhz = |name: &str| {
            let khz: f64 = word(&format!("/sys/devices/system/cpu/cpu0/cpufreq/{name}"))?
                .parse()
                .ok()?;
            Some(khz / 1_000.0)
        };
        let info = file("/proc/cpuinfo");
        let maker = || {
            let names = ["sys_vendor", "product_name"].map(|name| word(&format!("/sys/class/dmi/id/{name}")));
            names.into_iter().flatten().collect::<Vec<_>>().join(" ")
        };
        Machine {
            cpu_model: info.as_deref().and_then(cpu_model),
            smt: word("/sys/devices/system/cpu/smt/control"),
            c_states: c_states(Path::new("/sys/devices/system/cpu")),
            governor: word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            mhz: info
                .as_deref()
                .and_then(|text| field(text, "cpu MHz")?.parse().ok()),
            mhz_bounds: mhz("scaling_min_freq").zip(mhz("scaling_max_freq")),
            virtualisation: info.as_deref().and_then(|text| virtualisation(text, maker)),
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
    field(cpuinfo, "model name").map(str::to_owned)
}

/// The first value of this name.
fn field<'t>(cpuinfo: &'t str, name: &str) -> Option<&'t str> {
    let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

/// The names of what a core may sleep in and is not forbidden to; none where no driver sends it there.
fn c_states(cpus: &Path) -> Option<Vec<String>> {
    let word = |path: &Path| Some(std::fs::read_to_string(path).ok()?.trim().to_owned());
    let states = (0..C_STATES_MAX).map_while(|number| {
        let state = cpus.join(format!("cpu0/cpuidle/state{number}"));
        Some((
            word(&state.join("name"))?,
            word(&state.join("disable")).is_some_and(|word| word != "0"),
        ))
    });
    let enabled: Vec<String> = states
        .filter(|(_, is_off)| !is_off)
        .map(|(name, _)| name)
        .collect();
    let has_driver = word(&cpus.join("cpuidle/current_driver"))? != "none";
    // A driver whose states cannot be read may send it anywhere.
    (has_driver != enabled.is_empty()).then_some(enabled)
}

/// The hypervisor by the machine's maker, as far as the processor says that there is one.
fn virtualisation(cpuinfo: &str, maker: impl FnOnce() -> String) -> Option<String> {
    let is_guest = field(cpuinfo, "flags")?
        .split_ascii_whitespace()
        .any(|flag| flag == "hypervisor");
    Some(match (is_guest, maker()) {
        (false, _) => "none".into(),
        (true, maker) if maker.is_empty() => "a hypervisor".into(),
        (true, maker) => format!("a hypervisor ({maker})"),
    })
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
    fn a_hypervisor_is_seen_by_the_processors_flags() {
        let maker = || "QEMU".to_owned();
        assert_eq!(
            virtualisation("flags\t: fpu hypervisor sse\n", maker),
            Some("a hypervisor (QEMU)".into())
        );
        assert_eq!(virtualisation("flags\t: fpu sse\n", maker), Some("none".into()));
        assert_eq!(
            virtualisation("flags\t: hypervisor\n", String::new),
            Some("a hypervisor".into())
        );
        assert_eq!(virtualisation("model name\t: x\n", maker), None, "not told");
        assert_eq!(field("cpu MHz\t\t: 2445.3\n", "cpu MHz"), Some("2445.3"));
    }

    #[test]
    fn idle_states_that_are_forbidden_are_left_out() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(c_states(dir.path()), None, "nothing is said");
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, text).expect("written");
        };
        write("cpuidle/current_driver", "none\n");
        assert_eq!(c_states(dir.path()), Some(Vec::new()));
        write("cpuidle/current_driver", "acpi_idle\n");
        assert_eq!(c_states(dir.path()), None, "a driver without states");
        for (number, name, disable) in [(0, "POLL", "0"), (1, "C1", "0"), (2, "C6", "1")] {
            write(&format!("cpu0/cpuidle/state{number}/name"), name);
            write(&format!("cpu0/cpuidle/state{number}/disable"), disable);
        }
        assert_eq!(
            c_states(dir.path()),
            Some(vec!["POLL".to_owned(), "C1".to_owned()])
        );
    }

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
