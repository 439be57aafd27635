//! Memory stays under what the documentation says.

use crate::configuration::memory_bytes_max;
use crate::finding::Broken;
use crate::scene::Scene;
use crate::tally::Tally;
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(50);

/// Watches until the round is over; tells once.
pub fn watch(scene: &Scene<'_>) {
    let limit = memory_bytes_max(u64::from(scene.server.processes()));
    let mut is_told = false;
    while !scene.is_over() {
        let bytes = scene.server.resident_bytes();
        Tally::raise(&scene.tally.resident_bytes_max, bytes);
        if bytes > limit && !is_told {
            is_told = true;
            scene.tell(
                Broken::Memory,
                format!("{bytes} bytes are resident; {limit} are documented"),
            );
        }
        scene.sleep(EVERY);
    }
}
