//! Builds of a further version of the feature table that are killed at any moment: what they leave is whole, or is no version.

use crate::finding::Broken;
use crate::scene::Scene;
use crate::table::{CUT, NAME, TABLES, build_arguments};
use crate::tally::Tally;
use rand::RngExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A build takes about so long.
const BUILD_MS: u64 = 60;

/// Builds and kills until the round is over.
pub fn run(scene: &Scene<'_>) {
    let mut random = scene.generator(6000);
    let table = scene.folder.join(TABLES).join(NAME);
    let built = table.join(format!("{:08}", CUT + 1));
    while !scene.is_over() {
        let mut build = features(scene);
        build.args(build_arguments(CUT));
        let Ok(mut child) = build.spawn() else {
            return scene.tell(Broken::Service, "a build cannot be started");
        };
        scene.sleep(Duration::from_millis(random.random_range(0..BUILD_MS)));
        let _ = child.kill();
        let _ = child.wait();
        Tally::add(&scene.tally.builds, 1);
        if built.exists() {
            look(scene, &table, &built);
        }
        scene.sleep(Duration::from_millis(random.random_range(0..200)));
    }
}

fn features(scene: &Scene<'_>) -> Command {
    let mut command = Command::new(&scene.settings.millpond);
    command
        .arg("features")
        .current_dir(scene.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// What has a version's name has to be whole; it is removed again.
fn look(scene: &Scene<'_>, table: &Path, built: &Path) {
    Tally::add(&scene.tally.builds_whole, 1);
    let verified = features(scene).arg("verify").arg(built).status();
    if !verified.is_ok_and(|status| status.success()) {
        let seen = format!("{} is not whole after a build was killed", built.display());
        return scene.tell(Broken::Version, seen);
    }
    let version = (CUT + 1).to_string();
    let deleted = features(scene).arg("delete").arg(table).arg(&version).status();
    let is_gone = deleted.is_ok_and(|status| status.success()) && !built.exists();
    if !is_gone && !scene.disk_failed.load(std::sync::atomic::Ordering::SeqCst) {
        scene.tell(Broken::Version, format!("version {version} cannot be deleted"));
    }
}
