//! A fold that is killed at any moment: the version before it serves on with all upserts, and the next fold has them all.

use super::upserts::{LOGGED, firsts, fold, folder, lookup, upsert};
use super::versions::ROWS;
use crate::harness::{Millpond, millpond};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Keys of an upsert, and how many there are: a fold takes a while.
const KEYS: u64 = 2000;
const UPSERTS: u64 = 10;

/// Moments at which a fold is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// That part of the time that a whole one took.
    Eighths(u32),
    /// As soon as its folder is there.
    Begun,
    /// As soon as a file of rows is in it.
    Written,
}

/// The value of all rows of an upsert, which stays in those that no later one wrote.
fn value(upsert: u64) -> f64 {
    (upsert + 1) as f64 / 2.0
}

/// Each upsert has half of its keys in common with the next one.
fn keys(upsert: u64) -> Vec<u64> {
    let begin = upsert * KEYS / 2;
    (begin..begin + KEYS).collect()
}

/// Every acknowledged row that no later upsert wrote, and a key that nobody wrote.
fn check_rows(server: &Millpond, version: u64) {
    let unknown = ROWS * 1000;
    for at in 0..UPSERTS {
        let mut asked = keys(at);
        asked.truncate((KEYS / 2) as usize);
        asked.push(unknown);
        let answer = lookup(server, &asked);
        assert_eq!(answer["version"], json!(version), "upsert {at}");
        let found = firsts(&answer);
        let (unknown, rows) = found.split_last().unwrap();
        assert!(rows.iter().all(|first| *first == value(at)), "upsert {at}");
        assert_eq!(*unknown, 0.0);
    }
}

/// What a fold has made in the table's folder by now.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("tables/films")).unwrap();
    let made = entries.map(|entry| entry.unwrap().path());
    made.filter(|path| !path.ends_with("00000001") && path.is_dir())
        .collect()
}

fn start_fold(folder: &Path) -> Child {
    millpond()
        .current_dir(folder)
        .args(["features", "fold", "tables/films", "--log", "overlay"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits for the moment, or until the fold ends.
fn wait(fold: &mut Child, folder: &Path, moment: Moment, whole: Duration) {
    let has_come = || match moment {
        Moment::Eighths(_) => true,
        Moment::Begun => !entries(folder).is_empty(),
        Moment::Written => entries(folder).iter().any(|made| {
            let files = fs::read_dir(made).into_iter().flatten().flatten();
            files
                .filter_map(|file| file.metadata().ok())
                .any(|file| file.len() > 0)
        }),
    };
    if let Moment::Eighths(eighths) = moment {
        thread::sleep(whole * eighths / 8);
    }
    while !has_come() && fold.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_micros(200));
    }
}

/// Takes away what a fold has made.
fn clear(folder: &Path) {
    for made in entries(folder) {
        fs::remove_dir_all(made).unwrap();
    }
}

#[test]
fn a_fold_that_is_killed_loses_no_upsert_and_the_next_one_has_them_all() {
    let folder = folder(LOGGED);
    let server = Millpond::start(folder.path(), &[]);
    for at in 0..UPSERTS {
        assert_eq!(upsert(&server, &keys(at), value(at)).0, 200);
    }
    server.signal("KILL");
    drop(server);
    let began = Instant::now();
    fold(folder.path());
    let whole = began.elapsed();
    clear(folder.path());

    let moments = (0..8)
        .map(Moment::Eighths)
        .chain([Moment::Begun, Moment::Written]);
    let mut killed = 0;
    for moment in moments {
        let mut running = start_fold(folder.path());
        wait(&mut running, folder.path(), moment, whole);
        running.kill().unwrap();
        running.wait().unwrap();
        if folder.path().join("tables/films/00000002").exists() {
            // It was done before it was killed.
            clear(folder.path());
        } else {
            killed += 1;
        }
        let server = Millpond::start(folder.path(), &[]);
        check_rows(&server, 1);
        server.signal("KILL");
    }
    assert!(killed >= 5, "{killed} folds were killed");

    let said = fold(folder.path());
    // One that was killed before it made a file leaves an empty folder, which stays for a day.
    let has_files = |path: &PathBuf| fs::read_dir(path).unwrap().next().is_some();
    let left: Vec<PathBuf> = entries(folder.path()).into_iter().filter(has_files).collect();
    assert_eq!(left, [folder.path().join("tables/films/00000002")]);
    assert!(
        said.contains(&format!("folded up to sequence {}", UPSERTS)),
        "{said}"
    );
    for _ in 0..2 {
        let server = Millpond::start(folder.path(), &[]);
        check_rows(&server, 2);
        server.signal("KILL");
    }
}

#[test]
fn what_a_killed_fold_left_is_removed_by_the_next_one_and_what_a_live_one_writes_is_not() {
    let folder = folder(LOGGED);
    let table = folder.path().join("tables/films");
    let unfinished = |name: &str| {
        let path = table.join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("shard-00000.mpf"), "half").unwrap();
        path
    };
    let (dead, live) = (
        unfinished(".00000002.4711-0.unfinished"),
        unfinished(".00000002.1-0.unfinished"),
    );
    fs::write(dead.join("journal"), "").unwrap();
    let journal = fs::File::create(live.join("journal")).unwrap();
    journal.lock().unwrap();
    let said_of = |arguments: &[&str]| {
        let done = millpond()
            .current_dir(folder.path())
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8([done.stdout, done.stderr].concat()).unwrap()
    };
    fs::create_dir(folder.path().join("overlay")).unwrap();
    let folding = ["features", "fold", "tables/films", "--log", "overlay"];
    let said = said_of(&folding);
    assert!(
        said.contains("removed tables/films/.00000002.4711-0.unfinished, which a fold or build that was killed had left\n")
            && said.contains("nothing to fold"),
        "{said}"
    );
    assert!(!dead.exists() && live.join("shard-00000.mpf").exists());
    drop(journal);
    let said = said_of(&[
        "features",
        "build",
        "--out",
        "tables",
        "--name",
        "films",
        "--compact",
    ]);
    assert!(
        said.contains("removed tables/films/.00000002.1-0.unfinished"),
        "{said}"
    );
    assert_eq!(entries(folder.path()), [table.join("00000002")]);
    // Nobody can tell what this is.
    let strange = unfinished(".00000003.4711-0.unfinished");
    let said = said_of(&folding);
    assert!(
        said.contains("warning: tables/films/.00000003.4711-0.unfinished stays: it has no journal"),
        "{said}"
    );
    assert!(strange.exists());
}
