//! New versions that a server finds in a table's folder by itself: served when they are whole, refused once when they are not.

use super::switches::look_up_until;
use super::versions::{CONFIG, folder, served, switched, write_version};
use crate::harness::Millpond;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Waits end here only so that a hang fails.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The table is looked at as often as the configuration allows.
const WATCHED: [&str; 2] = ["features.films.watch=true", "features.films.watch_every_ms=10"];

pub(crate) fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + WAIT_MAX;
    while !done() {
        assert!(Instant::now() < until, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn wait_for_version(server: &Millpond, version: u64) {
    wait(&format!("version {version} serves"), || served(server) == version);
}

fn wait_for_count(server: &Millpond, what: &str, count: u64) {
    server.wait_for_metric(&format!("millpond_table_{what}_total{{table=\"films\"}} {count}"));
}

/// A version made elsewhere, for a test to copy.
fn made(version: u64) -> (tempfile::TempDir, PathBuf) {
    let elsewhere = tempfile::tempdir().unwrap();
    write_version(elsewhere.path(), version);
    let path = elsewhere.path().join(format!("{version:08}"));
    (elsewhere, path)
}

fn copy(from: &Path, to: &Path, name: &str) {
    fs::copy(from.join(name), to.join(name)).unwrap();
}

const SHARDS: [&str; 2] = ["shard-00000.mpf", "shard-00001.mpf"];

#[test]
fn versions_that_appear_under_load_are_served() {
    let folder = folder(&[1]);
    let table = folder.path().join("tables/films");
    let server = Millpond::start(folder.path(), &WATCHED);
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (addr, stop, answered) = (&server.addr, &stop, &answered);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                runtime.block_on(look_up_until(addr, stop, answered));
            });
        }
        for version in 2..6 {
            write_version(&table, version);
            wait_for_version(&server, version);
            let before = answered.load(Ordering::Relaxed);
            wait("calls are answered", || {
                answered.load(Ordering::Relaxed) > before + 5
            });
        }
        stop.store(true, Ordering::Relaxed);
    });
    wait_for_count(&server, "arrivals", 4);
    wait_for_count(&server, "arrivals_refused", 0);
    // It is on the disk, and the way back leads to the version before.
    let answer = switched(&server, "features.rollback", &json!({}));
    assert_eq!(
        (&answer["active"], &answer["before"]),
        (&json!(4), &json!(5)),
        "{answer}"
    );
    assert!(server.terminate().success());
    let log = fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    assert_eq!(log.matches("the new version serves").count(), 4, "{log}");
}

#[test]
fn half_a_copy_is_passed_over() {
    let folder = folder(&[1]);
    let table = folder.path().join("tables/films");
    let server = Millpond::start(folder.path(), &WATCHED);
    let (_elsewhere, three) = made(3);
    let copied = table.join("00000003");
    fs::create_dir(&copied).unwrap();
    SHARDS.iter().for_each(|shard| copy(&three, &copied, shard));
    // As many looks find the half copy as find this one.
    write_version(&table, 2);
    wait_for_version(&server, 2);
    copy(&three, &copied, "manifest.json");
    wait_for_version(&server, 3);
    wait_for_count(&server, "arrivals", 2);
    wait_for_count(&server, "arrivals_refused", 0);
}

#[test]
fn a_broken_version_is_refused_once_and_served_when_it_is_whole() {
    let folder = folder(&[1]);
    let table = folder.path().join("tables/films");
    let server = Millpond::start(folder.path(), &WATCHED);
    let (_elsewhere, five) = made(5);
    let copied = table.join("00000005");
    fs::create_dir(&copied).unwrap();
    copy(&five, &copied, SHARDS[0]);
    let whole = fs::read(five.join(SHARDS[1])).unwrap();
    fs::write(copied.join(SHARDS[1]), &whole[..whole.len() / 2]).unwrap();
    copy(&five, &copied, "manifest.json");
    wait_for_count(&server, "arrivals_refused", 1);
    assert_eq!(served(&server), 1);
    // One below it is served meanwhile. It takes two looks at least, which find the broken one too.
    write_version(&table, 4);
    wait_for_version(&server, 4);
    wait_for_count(&server, "arrivals_refused", 1);
    fs::write(copied.join(SHARDS[1]), &whole).unwrap();
    wait_for_version(&server, 5);
    wait_for_count(&server, "arrivals_refused", 1);
    wait_for_count(&server, "arrivals", 2);
    assert!(server.terminate().success());
    let log = fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    let refused: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("new version is refused"))
        .collect();
    assert_eq!(refused.len(), 1, "{log}");
    assert!(refused[0].contains("shard-00001.mpf is damaged"), "{log}");
}

#[test]
fn a_start_without_a_version_passes_over_one_of_its_source_that_is_broken() {
    let folder = folder(&[]);
    let store = folder.path().join("store");
    write_version(&store, 1);
    write_version(&store, 2);
    let broken = store.join("00000002").join(SHARDS[1]);
    let mut bytes = fs::read(&broken).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&broken, bytes).unwrap();
    let source = format!("features.films.source=\"file://{}\"", store.display());
    let server = Millpond::start(folder.path(), &[&source]);
    assert_eq!(served(&server), 1);
}

#[test]
fn a_rollback_stays() {
    let folder = folder(&[1]);
    let table = folder.path().join("tables/films");
    let server = Millpond::start(folder.path(), &WATCHED);
    write_version(&table, 3);
    wait_for_version(&server, 3);
    switched(&server, "features.rollback", &json!({}));
    assert_eq!(served(&server), 1);
    // The next number is the one that was built too late.
    write_version(&table, 2);
    let look_twice = |server: &Millpond, refused: u64| {
        fs::create_dir_all(table.join("00000009")).unwrap();
        fs::write(table.join("00000009/manifest.json"), format!("{refused}")).unwrap();
        wait_for_count(server, "arrivals_refused", refused);
    };
    look_twice(&server, 1);
    assert_eq!(
        served(&server),
        1,
        "neither the one that was rolled back nor one below it"
    );
    drop(server);
    let server = Millpond::start(folder.path(), &WATCHED);
    look_twice(&server, 1);
    assert_eq!(served(&server), 1, "after a restart, too");
    // Another switch takes the higher number out of `version` and `before`.
    switched(&server, "features.activate", &json!({"version": 2}));
    switched(&server, "features.activate", &json!({"version": 1}));
    drop(server);
    let server = Millpond::start(folder.path(), &WATCHED);
    look_twice(&server, 1);
    assert_eq!(served(&server), 1);
    write_version(&table, 4);
    wait_for_version(&server, 4);
}

#[test]
fn watching_is_configured_as_it_can_be() {
    let folder = folder(&[1]);
    let check = |set: &[&str], words: &[&str]| {
        let (status, stderr) = Millpond::try_start(folder.path(), set).err().unwrap();
        assert!(!status.success());
        for word in words {
            assert!(stderr.contains(word), "{word:?} is not in {stderr}");
        }
    };
    let watch = "features.films.watch=true";
    check(
        &[watch, "features.films.version=1"],
        &["features.films.watch", "features.films.version is 1"],
    );
    check(
        &["features.films.watch_every_ms=50"],
        &["watch_every_ms says nothing without features.films.watch"],
    );
    check(
        &[watch, "features.films.watch_every_ms=3"],
        &["watch_every_ms is 3", "10 to 3600000"],
    );
    // Without it nothing is served by itself.
    assert!(!CONFIG.contains("watch"));
    let server = Millpond::start(folder.path(), &[]);
    write_version(&folder.path().join("tables/films"), 2);
    write_version(&folder.path().join("tables/films"), 3);
    assert_eq!(served(&server), 1);
    wait_for_count(&server, "arrivals", 0);
}
