//! Memory of a process, from /proc.

use anyhow::Context as _;

/// A figure of /proc/PID/status in bytes, such as `VmRSS:`.
pub(crate) fn memory_bytes(pid: u32, name: &str) -> anyhow::Result<f64> {
    let file = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    let kib = status.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?.trim();
        rest.strip_suffix("kB")?.trim().parse::<f64>().ok()
    });
    Ok(kib.with_context(|| format!("{file} has no {name}"))? * 1024.0)
}
