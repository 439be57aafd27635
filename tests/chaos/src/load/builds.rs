//! Builds of a further version of the feature table that are killed at any moment: what they leave is whole, or is no version, and
//! what the builds after them go on with is, byte for byte, what a build gives that nobody killed.

use crate::finding::Broken;
use crate::scene::Scene;
use crate::table::{CUT, NAME, TABLES};
use crate::tally::Tally;
use anyhow::Context as _;
use rand::RngExt;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Rows and their numbers: more than `MEMORY`, so that rows go to files, and the journal says so, from about half of them on.
const ROWS: u64 = 9000;
const NUMBERS: u64 = 31;
const MEMORY: &str = "1MiB";
/// Several, so that some may be whole when a build is killed.
const SHARDS: &str = "4";
const INPUT: &str = "built.csv";
const VERSION: u64 = CUT + 1;

/// What a build of the version gives on a disk that nothing happens to.
#[derive(Debug)]
pub struct Unbroken {
    files: BTreeMap<String, Vec<u8>>,
    took: Duration,
}

impl Unbroken {
    /// Writes the rows and builds them, in a folder that goes again.
    ///
    /// # Errors
    /// The rows cannot be written, or the builder fails.
    pub fn build(millpond: &Path, folder: &Path) -> anyhow::Result<Unbroken> {
        std::fs::write(folder.join(INPUT), rows()).context("cannot write rows")?;
        let began = Instant::now();
        let built = build(millpond, folder, "unbroken")
            .status()
            .context("cannot build")?;
        let took = began.elapsed();
        anyhow::ensure!(built.success(), "a version cannot be built: {built}");
        let out = folder.join("unbroken");
        let files = files(&out.join(NAME).join(format!("{VERSION:08}")))?;
        std::fs::remove_dir_all(&out).context("cannot remove a version")?;
        Ok(Unbroken { files, took })
    }
}

fn rows() -> String {
    let line = |key: String, number: &dyn Fn(u64) -> String| {
        let numbers: Vec<String> = (0..NUMBERS).map(number).collect();
        format!("{key},{}\n", numbers.join(","))
    };
    let mut rows = line("key".to_owned(), &|number| format!("n{number}"));
    for key in 0..ROWS {
        rows += &line(key.to_string(), &|number| ((key * 7 + number) % 10).to_string());
    }
    rows
}

/// Builds and kills until the round is over.
pub fn run(scene: &Scene<'_>) {
    let mut random = scene.generator(6000);
    let table = scene.folder.join(TABLES).join(NAME);
    let built = table.join(format!("{VERSION:08}"));
    let took = u64::try_from(scene.unbroken.took.as_millis()).unwrap_or(u64::MAX);
    while !scene.is_over() {
        let goes_on = has_begun(&table);
        let Ok(mut child) = build(&scene.settings.millpond, scene.folder, TABLES).spawn() else {
            return scene.tell(Broken::Service, "a build cannot be started");
        };
        scene.sleep(Duration::from_millis(
            random.random_range(took / 4..=took + took / 2),
        ));
        let _ = child.kill();
        let _ = child.wait();
        Tally::add(&scene.tally.builds, 1);
        if built.exists() {
            Tally::add(&scene.tally.builds_whole, 1);
            Tally::add(&scene.tally.builds_resumed, u64::from(goes_on));
            look(scene, &table, &built);
        }
        scene.sleep(Duration::from_millis(random.random_range(0..200)));
    }
}

fn features(millpond: &Path, folder: &Path) -> Command {
    let mut command = Command::new(millpond);
    command
        .arg("features")
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn build(millpond: &Path, folder: &Path, out: &str) -> Command {
    let mut command = features(millpond, folder);
    command.args(["build", "--input", INPUT, "--out", out, "--name", NAME]);
    command.args(["--version", &VERSION.to_string()]);
    command.args(["--shards", SHARDS, "--memory", MEMORY]);
    command
}

/// Whether a build was killed that had written rows or shards: its journal says more than that it was begun.
fn has_begun(table: &Path) -> bool {
    let names = std::fs::read_dir(table).into_iter().flatten().flatten();
    let mut journals = names.map(|name| name.path().join("journal"));
    journals.any(|journal| std::fs::read_to_string(journal).is_ok_and(|text| text.lines().count() > 1))
}

/// The files of a version by their names. The manifest is without the time of the build, and the checksum over it.
fn files(version: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(version).context("cannot read a version")? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let mut bytes = std::fs::read(entry.path()).with_context(|| format!("cannot read {name}"))?;
        if name == "manifest.json" {
            let mut manifest: Value = serde_json::from_slice(&bytes).context("a manifest is no JSON")?;
            manifest["created_unix_s"].take();
            manifest["checksum"].take();
            bytes = manifest.to_string().into_bytes();
        }
        files.insert(name, bytes);
    }
    Ok(files)
}

/// What has a version's name has to be whole, and as an unbroken build's; it is removed again.
fn look(scene: &Scene<'_>, table: &Path, built: &Path) {
    let features = || features(&scene.settings.millpond, scene.folder);
    let verified = features().arg("verify").arg(built).status();
    if !verified.is_ok_and(|status| status.success()) {
        let seen = format!("{} is not whole after a build was killed", built.display());
        return scene.tell(Broken::Version, seen);
    }
    match files(built) {
        Ok(files) if files == scene.unbroken.files => {}
        Ok(files) => {
            let same = |(name, bytes): &(&String, &Vec<u8>)| scene.unbroken.files.get(*name) == Some(*bytes);
            let others: Vec<&String> = files
                .iter()
                .filter(|file| !same(file))
                .map(|(name, _)| name)
                .collect();
            let seen = format!(
                "{} is not what an unbroken build gives: {others:?}",
                built.display()
            );
            return scene.tell(Broken::Version, seen);
        }
        Err(error) => return scene.tell(Broken::Version, format!("{}: {error:#}", built.display())),
    }
    let version = VERSION.to_string();
    let deleted = features().arg("delete").arg(table).arg(&version).status();
    let is_gone = deleted.is_ok_and(|status| status.success()) && !built.exists();
    if !is_gone && !scene.disk_failed.load(Ordering::SeqCst) {
        scene.tell(Broken::Version, format!("version {version} cannot be deleted"));
    }
}
