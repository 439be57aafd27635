//! `millpond features fold` on the command line: what it refuses, and what it says.

use super::upserts::{LOGGED, folder, upsert};
use super::versions::{DIM, write_version};
use crate::harness::{Millpond, millpond};
use millpond_engines_features::Schema;
use millpond_engines_features::write::Writer;
use serde_json::json;
use std::fs;
use std::path::Path;

/// Whether a fold was done, and what it said.
fn fold(folder: &Path, table: &str, more: &[&str]) -> (bool, String) {
    let mut command = millpond();
    command.current_dir(folder);
    command.args(["features", "fold", table, "--log", "overlay"]);
    let done = command.args(more).output().unwrap();
    let said = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8(said).unwrap())
}

fn check(found: (bool, String), is_done: bool, words: &[&str]) {
    let (was_done, said) = found;
    assert_eq!(was_done, is_done, "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in {said}");
    }
}

#[test]
fn the_log_of_another_table_is_refused_by_the_fold_and_by_a_start() {
    let folder = folder(LOGGED);
    let users = folder.path().join("tables/users");
    let writer = Writer::create(&users, "users", 1, Schema::floats(DIM), 1).unwrap();
    writer.finish().unwrap();
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(upsert(&server, &[3], 7.0).0, 200);
    assert_eq!(upsert(&server, &[4], 7.0).0, 200);
    let words = [
        "overlay overlay: its log has upserts of table \"films\"",
        "not of \"users\"",
        "features.NAME.overlay.path",
    ];
    check(fold(folder.path(), "tables/users", &[]), false, &words);
    assert!(server.terminate().success());
    check(fold(folder.path(), "tables/users", &[]), false, &words);
    assert!(!users.join("00000002").exists());

    let Err((_, said)) = Millpond::try_start(folder.path(), &["features.films.path=tables/users"]) else {
        panic!("it serves the log of films over users");
    };
    assert!(
        said.contains("features.films: overlay ") && said.contains("upserts of table \"films\""),
        "{said}"
    );
    // The rightful one starts under another name and from another folder.
    fs::rename(folder.path().join("tables/films"), folder.path().join("moved")).unwrap();
    let moved = ["features.films.path=moved", "features.still.path=moved"];
    assert!(Millpond::start(folder.path(), &moved).terminate().success());
    check(
        fold(folder.path(), "moved", &[]),
        true,
        &["folded up to sequence 2; nothing more is in the log\n"],
    );
}

#[test]
fn a_fold_before_the_last_one_serves_writes_no_second_version() {
    let folder = folder(LOGGED);
    let server = Millpond::start(folder.path(), &[]);
    for key in [3, 4] {
        assert_eq!(upsert(&server, &[key], 7.0).0, 200);
    }
    let activate = |version| {
        let call = json!({"table": "films", "version": version, "_token": "s3cret"});
        assert_eq!(server.call("features.activate", &call).0, 200);
    };
    // Without `ACTIVE` a start would serve the version that was folded, so the next fold would be one onto it.
    write_version(&folder.path().join("tables/films"), 2);
    activate(2);
    let folds = |is_done, words: &[&str]| check(fold(folder.path(), "tables/films", &[]), is_done, words);
    folds(
        true,
        &["folded up to sequence 1; upserts of 1 key stay in the log"],
    );
    let had = [
        "version 3 has all of it already",
        "no version was written",
        "millpond features activate tables/films 3 ",
    ];
    folds(true, &had);
    assert!(!folder.path().join("tables/films/00000004").exists());
    for key in [5, 6] {
        assert_eq!(upsert(&server, &[key], 7.0).0, 200);
    }
    folds(true, &["version 4: "]);
    activate(4);
}

#[test]
fn a_fold_without_new_upserts_writes_nothing_and_says_so() {
    let folder = folder(LOGGED);
    let folds = |words: &[&str]| check(fold(folder.path(), "tables/films", &[]), true, words);
    let nothing = |base: u64| format!("no version was written: version {base} has all that can be folded");
    let server = Millpond::start(folder.path(), &[]);
    folds(&[&nothing(1), "folded\nnothing more is in the log"]);
    assert_eq!(upsert(&server, &[3], 7.0).0, 200);
    folds(&[
        &nothing(1),
        "folded (the last upsert stays in the log until another follows it or the server stops)\nupserts of 1 key stay in the log for the next fold",
    ]);
    assert!(server.terminate().success());
    folds(&["version 2: ", "nothing more is in the log"]);
    for _ in 0..3 {
        assert!(Millpond::start(folder.path(), &[]).terminate().success());
        folds(&[&nothing(2), "nothing more is in the log"]);
    }
    assert!(!folder.path().join("tables/films/00000003").exists());
}
