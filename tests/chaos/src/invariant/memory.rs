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
        .args(["doctor", "--json", "--config"])
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
    let found: Vec<serde_json::Value> =
        serde_json::from_slice(&said.stdout).context("millpond doctor says no JSON")?;
    let bytes_max = found.iter().find_map(|finding| finding["bytes_max"].as_u64());
    bytes_max.context("millpond doctor does not say what callers can make it hold")
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
