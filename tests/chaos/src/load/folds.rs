//! Folds of what was upserted into versions that are made active, before a server starts and beside it; those beside it are killed at
//! times. Nothing that a lookup shows may change by any of it, which the lookups themselves check.

use super::TRY_AGAIN;
use super::switches::{CONFLICT, DAMAGED};
use crate::configuration::TOKEN;
use crate::finding::{Broken, Findings};
use crate::fresh::{LOG, NAME};
use crate::front::{Answer, Came, Front};
use crate::life::Life;
use crate::scene::Scene;
use crate::settings::Settings;
use crate::table::TABLES;
use crate::tally::Tally;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Folds stand on each other, eight at the most: then they are made one version.
const FOLDS_MAX: u64 = 5;
/// A fold takes about so long.
const FOLD_MS: u64 = 40;

/// Folds and activates until the round is over.
pub fn run(scene: &Scene<'_>) {
    let mut random = scene.generator(7200);
    while !scene.is_over() {
        scene.sleep(Duration::from_millis(random.random_range(0..150)));
        let is_one = scene.fresh.stacked() >= FOLDS_MAX;
        let Ok(mut child) = folding(scene.settings, scene.folder, is_one).spawn() else {
            return scene.tell(Broken::Service, "a fold cannot be started");
        };
        Tally::add(&scene.tally.folds, 1);
        if random.random_ratio(1, 3) {
            std::thread::sleep(Duration::from_millis(random.random_range(0..FOLD_MS)));
            let _ = child.kill();
            let _ = child.wait();
            // It may have made its version before, on which the next one stands.
            if !is_one {
                scene.fresh.stack(false);
            }
            continue;
        }
        match said(child.wait_with_output()) {
            Ok(()) => activate(scene, is_one, &mut random),
            Err(_) if scene.disk_failed.load(Ordering::SeqCst) => {}
            Err(said) => scene.tell(
                Broken::Version,
                format!("a fold beside the server failed: {said}"),
            ),
        }
    }
}

/// Folds and activates while no server runs.
pub fn between(settings: &Settings, life: &Life, findings: &Findings, tally: &Tally) {
    // The first server has not begun a log.
    if !life.folder().join(LOG).exists() {
        return;
    }
    let table = format!("{TABLES}/{NAME}");
    let mut activate = command(settings, life.folder());
    activate.args(["activate", &table]);
    let is_one = life.fresh().stacked() >= FOLDS_MAX;
    Tally::add(&tally.folds, 1);
    for mut command in [folding(settings, life.folder(), is_one), activate] {
        if let Err(said) = said(command.output()) {
            return findings.tell(Broken::Version, format!("a fold between servers failed: {said}"));
        }
    }
    life.fresh().stack(is_one);
    Tally::add(&tally.folds_served, 1);
}

fn said(done: std::io::Result<std::process::Output>) -> Result<(), String> {
    match done {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn command(settings: &Settings, folder: &Path) -> Command {
    let mut command = Command::new(&settings.millpond);
    command.arg("features").current_dir(folder).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// What makes the next version: of the log, or of all the versions that stand on each other.
fn folding(settings: &Settings, folder: &Path, is_one: bool) -> Command {
    let mut command = command(settings, folder);
    match is_one {
        true => command.args(["build", "--compact", "--out", TABLES, "--name", NAME]),
        false => command.args(["fold", &format!("{TABLES}/{NAME}"), "--log", LOG]),
    };
    command
}

/// Has the server serve the highest version.
fn activate(scene: &Scene<'_>, is_one: bool, random: &mut StdRng) {
    // It may serve although nobody hears of it, as a server that starts serves it; that all are one is known only from the answer.
    if !is_one {
        scene.fresh.stack(false);
    }
    let Ok(mut connection) = scene.connect(Front::any(random), random) else {
        return;
    };
    Tally::add(&scene.tally.calls, 1);
    match connection.call("features.activate", json!({"table": NAME, "_token": TOKEN})) {
        Came::Answer(_, Answer::Good(_)) => {
            Tally::add(&scene.tally.answered, 1);
            Tally::add(&scene.tally.folds_served, 1);
            if is_one {
                scene.fresh.stack(true);
            }
        }
        Came::Answer(_, Answer::Error(code, ex)) => {
            Tally::add(&scene.tally.refused, 1);
            let is_disk = code == DAMAGED && scene.disk_failed.load(Ordering::SeqCst);
            if !TRY_AGAIN.contains(&code) && code != CONFLICT && !is_disk {
                let seen = format!("a switch to what was folded was refused with {code}: {ex}");
                scene.tell(Broken::Version, seen);
            }
        }
        Came::Closed => Tally::add(&scene.tally.closed, 1),
        Came::Nothing => scene.tell(Broken::Answer, "a switch to what was folded was never answered"),
        Came::Wrong(wrong) => scene.tell(Broken::Answer, format!("a switch to what was folded: {wrong}")),
    }
}
