//! A server whose system clock is set while it runs: upserts stay in order, and rows grow old by time that has passed.

use super::failing_disk::compiled;
use super::upserts::{firsts, folder, lookup, upsert};
use crate::harness::Millpond;
use serde_json::json;
use std::path::PathBuf;

const HOUR_S: i64 = 3600;

/// A folder with a server's files, and a clock that is set when told to.
struct Place {
    folder: tempfile::TempDir,
    library: PathBuf,
    clock: PathBuf,
}

impl Place {
    /// Fresh rows of the server grow old in an hour.
    fn new() -> Place {
        let folder = folder("path = \"overlay\"\ndurability = \"logged\"\nttl_ms = 3600000");
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
