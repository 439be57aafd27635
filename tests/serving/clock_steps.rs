//! A server whose system clock is set while it runs: upserts stay in order, and rows and entries grow old by time that has passed.

use super::failing_disk::compiled;
use super::upserts::{firsts, folder, lookup, upsert};
use crate::harness::{Millpond, r1_folder};
use serde_json::json;
use std::path::PathBuf;

const HOUR_S: i64 = 3600;
const YEAR_S: i64 = 365 * 24 * HOUR_S;

/// A folder with a server's files, and a clock that is set when told to.
struct Place {
    folder: tempfile::TempDir,
    library: PathBuf,
    clock: PathBuf,
}

impl Place {
    /// Fresh rows of the server grow old in an hour.
    fn new() -> Place {
        Place::of(folder(
            "path = \"overlay\"\ndurability = \"logged\"\nttl_ms = 3600000",
        ))
    }

    fn of(folder: tempfile::TempDir) -> Place {
        Place {
            library: compiled(folder.path(), "stepped_clock"),
            clock: folder.path().join("clock"),
            folder,
        }
    }

    fn start(&self) -> Millpond {
        let environment = [
            ("LD_PRELOAD", self.library.as_path()),
            ("MILLPOND_TEST_CLOCK", &self.clock),
        ];
        Millpond::start_in(self.folder.path(), &[], &environment)
    }

    /// Sets the clock to so many seconds ahead of the machine's.
    fn set(&self, ahead_s: i64) {
        // Whole or not at all: a file that is being written is empty for a moment.
        let unfinished = self.clock.with_extension("new");
        std::fs::write(&unfinished, ahead_s.to_string()).unwrap();
        std::fs::rename(unfinished, &self.clock).unwrap();
    }
}

/// By how many hours the server's clock is ahead of the machine's.
fn hours_ahead(server: &Millpond) -> i64 {
    let (status, answer) = server.call("*ping", &json!({}));
    assert_eq!(status, 200, "{answer}");
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64;
    let ahead_ms = answer["ts"].as_i64().unwrap() - now;
    (ahead_ms as f64 / 3_600_000.0).round() as i64
}

#[test]
fn a_clock_that_is_set_neither_ages_rows_nor_hides_the_newest() {
    let place = Place::new();
    let server = place.start();
    assert_eq!(upsert(&server, &[1, 2], 5.0).0, 200);
    // The rows are no older for that.
    place.set(2 * HOUR_S);
    assert_eq!(hours_ahead(&server), 2);
    assert_eq!(firsts(&lookup(&server, &[1, 2, 3])), [5.0, 5.0, 1.0]);
    assert_eq!(upsert(&server, &[2], 6.0).0, 200);
    // What is written by an earlier time is still the newest.
    place.set(-24 * HOUR_S);
    assert_eq!(hours_ahead(&server), -24);
    assert_eq!(upsert(&server, &[1], 7.0).0, 200);
    assert_eq!(firsts(&lookup(&server, &[1, 2, 3])), [7.0, 6.0, 1.0]);
    // A process that starts a day back goes on where the log ends.
    server.signal("KILL");
    let server = place.start();
    assert_eq!(firsts(&lookup(&server, &[1, 2, 3])), [7.0, 6.0, 1.0]);
    assert_eq!(upsert(&server, &[1], 8.0).0, 200);
    server.signal("KILL");
    // For one that starts later, the time between has passed.
    place.set(2 * HOUR_S);
    let server = place.start();
    assert_eq!(firsts(&lookup(&server, &[1, 2, 3])), [1.0, 1.0, 1.0]);
    assert_eq!(upsert(&server, &[1], 9.0).0, 200);
    assert_eq!(firsts(&lookup(&server, &[1, 2, 3])), [9.0, 1.0, 1.0]);
}

fn put_for(server: &Millpond, key: &str, ttl_ms: u64) {
    let call = json!({"entries": [[key, "v"]], "ttl_ms": ttl_ms});
    let (status, answer) = server.call("ordered.put", &call);
    assert_eq!(status, 200, "{answer}");
}

/// Which of these keys are there.
fn there<'k>(server: &Millpond, keys: &[&'k str]) -> Vec<&'k str> {
    let (status, answer) = server.call("ordered.get", &json!({"keys": keys}));
    assert_eq!(status, 200, "{answer}");
    let versions = answer["versions"].as_array().unwrap();
    let keys = keys
        .iter()
        .zip(versions)
        .filter(|(_, version)| **version != json!(0));
    keys.map(|(key, _)| *key).collect()
}

#[test]
fn a_clock_that_jumps_a_year_expires_no_entry_and_brings_none_back() {
    let place = Place::of(r1_folder());
    let server = place.start();
    let keys = ["short", "long", "ahead", "behind"];
    put_for(&server, "short", 50);
    put_for(&server, "long", 3_600_000);
    place.set(YEAR_S);
    assert_eq!(hours_ahead(&server), 365 * 24);
    put_for(&server, "ahead", 3_600_000);
    server.wait_for("millpond_store_keys{store=\"events\"}", |keys| keys == 2);
    assert_eq!(there(&server, &keys), ["long", "ahead"]);
    place.set(-YEAR_S);
    put_for(&server, "behind", 3_600_000);
    assert_eq!(there(&server, &keys), ["long", "ahead", "behind"]);
    // A process that starts two years back goes on where the log ends: with what has expired gone, and the rest there.
    server.signal("KILL");
    let server = place.start();
    assert_eq!(there(&server, &keys), ["long", "ahead", "behind"]);
    server.signal("KILL");
    // For one that starts later, the time between has passed, and one behind it whose clock is right again shows nothing of it.
    place.set(YEAR_S);
    let server = place.start();
    assert!(there(&server, &keys).is_empty());
    server.wait_for("millpond_store_keys{store=\"events\"}", |entries| entries == 0);
    server.signal("KILL");
    place.set(0);
    let server = place.start();
    assert!(there(&server, &keys).is_empty());
    put_for(&server, "again", 3_600_000);
    assert_eq!(there(&server, &["again"]), ["again"]);
}
