//! Memory stays under what is documented: what the server takes when nobody has called yet, and what `millpond doctor` computes
//! that callers can make it hold.

use crate::finding::Broken;
use crate::scene::Scene;
use crate::tally::Tally;
use anyhow::Context as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(50);
/// What a store, and what keeps count, may grow by in a round: its writers put no more than a few MB.
const ROUND_BYTES_MAX: u64 = 32 << 20;

/// What callers can make a server of this configuration hold, all its processes together, as `millpond doctor` says.
///
/// # Errors
/// It says nothing of it.
pub fn documented_bytes(millpond: &Path, folder: &Path, processes: u32) -> anyhow::Result<u64> {
    let mut doctor = Command::new(millpond);
    doctor
        .args(["doctor", "--config"])
        .arg(folder.join("millpond.toml"));
    // Several processes share no port 0; nothing is bound here.
    for (key, value) in [
        ("server.listen", "127.0.0.1:13500".to_owned()),
        ("server.tls.listen", "127.0.0.1:13503".to_owned()),
        ("server.processes", processes.to_string()),
    ] {
        doctor.args(["--set", &format!("{key}={value}")]);
    }
    // Its status tells of this machine, which is not asked here.
    let said = doctor.output().context("cannot run millpond doctor")?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    documented(&said)
        .with_context(|| format!("millpond doctor does not say what callers can make it hold: {said}"))
}

/// "callers can make the server hold 456 MiB beside tables, models and stores, and 9 for calls that wait for models; …"
fn documented(said: &str) -> Option<u64> {
    let (_, rest) = said.split_once("callers can make the server hold ")?;
    let (sentence, _) = rest.split_once(';')?;
    let (held, rest) = sentence.split_once(" MiB beside")?;
    let waits = rest
        .split_once(", and ")
        .and_then(|(_, rest)| rest.split(' ').next());
    let mib = held.parse::<u64>().ok()? + waits.map_or(Some(0), |waits| waits.parse().ok())?;
    Some(mib << 20)
}

/// Watches until the round is over; tells once.
pub fn watch(scene: &Scene<'_>, at_rest: u64) {
    let limit = at_rest + scene.documented_bytes + ROUND_BYTES_MAX;
    let mut is_told = false;
    while !scene.is_over() {
        let bytes = scene.server.resident_bytes();
        Tally::raise(&scene.tally.resident_bytes_max, bytes);
        if bytes > limit && !is_told {
            is_told = true;
            scene.tell(
                Broken::Memory,
                format!("{bytes} bytes are resident; {limit} are documented, {at_rest} of them from before the first call"),
            );
        }
        scene.sleep(EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doctors_sum_is_read() {
        let check = |said: &str, expected| assert_eq!(documented(said), expected, "{said}");
        let sum = "memory at worst: good\n  callers can make the server hold 100 MiB beside tables, models and stores";
        check(&format!("{sum}; 3 are available"), Some(100 << 20));
        check(
            &format!("{sum}, and 28 for calls that wait for models; 3 are available"),
            Some(128 << 20),
        );
        check("memory at worst: unknown", None);
    }
}
