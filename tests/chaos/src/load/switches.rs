//! One caller that switches the version of the feature table, again and again, and at times asks for the one that was cut.

use super::TRY_AGAIN;
use crate::configuration::TOKEN;
use crate::finding::Broken;
use crate::front::{Answer, Came, Connection, Front};
use crate::scene::Scene;
use crate::table::{CUT, NAME, VERSIONS};
use crate::tally::Tally;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Codes that refuse a switch and say that nothing has changed: another goes on; a damaged version.
pub(super) const CONFLICT: u64 = 30112;
pub(super) const DAMAGED: u64 = 30111;
/// A process of several was killed while it opened the version.
const PROCESS_ENDED: u64 = 20001;

/// Switches until the round is over.
pub fn run(scene: &Scene<'_>) {
    let mut random = scene.generator(5000);
    while !scene.is_over() {
        let front = Front::any(&mut random);
        let Ok(mut connection) = scene.connect(front, &mut random) else {
            scene.sleep(Duration::from_millis(10));
            continue;
        };
        for _ in 0..random.random_range(1..10) {
            if scene.is_over() || !switch(scene, &mut connection, &mut random) {
                break;
            }
            scene.sleep(Duration::from_millis(
                random.random_range(0..=10 * scene.pause_ms_max),
            ));
        }
    }
}

/// One switch. Whether the connection can go on.
fn switch(scene: &Scene<'_>, connection: &mut Connection, random: &mut StdRng) -> bool {
    let is_cut = random.random_ratio(1, 6);
    let version = if is_cut {
        CUT
    } else {
        random.random_range(1..=VERSIONS)
    };
    let (front, asked) = (connection.front(), scene.served.ask(version));
    Tally::add(&scene.tally.calls, 1);
    let payload = json!({"table": NAME, "version": version, "_token": TOKEN});
    match connection.call("features.activate", payload) {
        Came::Answer(_, Answer::Good(answer)) => {
            Tally::add(&scene.tally.answered, 1);
            Tally::add(&scene.tally.switches, 1);
            scene.served.switched(&asked, answer["persistent"] == json!(true));
            if is_cut || answer["active"] != json!(version) {
                let seen = format!("a switch to version {version} was answered {answer:.200}");
                scene.tell(Broken::Version, seen);
            }
            true
        }
        Came::Answer(_, Answer::Error(code, ex)) => {
            Tally::add(&scene.tally.refused, 1);
            let disk_failed = scene.disk_failed.load(Ordering::SeqCst);
            scene.served.refused(&asked, disk_failed);
            let is_explained = TRY_AGAIN.contains(&code)
                || code == CONFLICT
                || (code == DAMAGED && (is_cut || disk_failed))
                || (code == PROCESS_ENDED && scene.server.processes() > 1);
            if !is_explained {
                let seen = format!("a switch to version {version} was refused with {code}: {ex}");
                scene.tell(Broken::Version, seen);
            }
            true
        }
        Came::Closed => {
            Tally::add(&scene.tally.closed, 1);
            false
        }
        Came::Nothing => {
            scene.tell(
                Broken::Answer,
                format!("a switch over {front} was never answered"),
            );
            false
        }
        Came::Wrong(wrong) => {
            scene.tell(Broken::Answer, format!("a switch over {front}: {wrong}"));
            false
        }
    }
}
