//! A version from before a fold: what it hides is said by the answer, by the commands and in the log. And a fold's version is not deleted
//! together with upserts that nothing else has, unless its caller says so.

use super::upserts::{LOGGED, firsts, fold, folder, lookup, upsert};
use super::versions::{refused, switched, write_version};
use crate::harness::{Millpond, millpond};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Waits end here only so that a hang fails.
const WAIT_MAX: Duration = Duration::from_secs(60);

const HIDES: &str =
    "version 1 hides the upserts of 3 sequences of the log (1 to 3): they were folded into version 2, and ";

/// A folder whose version 2 is a fold of three upserts; no server runs.
fn folded() -> tempfile::TempDir {
    let folder = folder(LOGGED);
    let server = Millpond::start(folder.path(), &[]);
    for key in [3, 4, 1000] {
        assert_eq!(upsert(&server, &[key], 7.0).0, 200);
    }
    assert!(server.terminate().success());
    assert!(fold(folder.path()).contains("folded up to sequence 3; nothing more"));
    folder
}

/// What a command prints, and what it says beside that.
fn features(folder: &Path, arguments: &[&str]) -> (String, String) {
    let (is_done, printed, said) = tried(folder, arguments);
    assert!(is_done, "{said}");
    (printed, said)
}

/// The same of a command that may fail, and whether it has not.
fn tried(folder: &Path, arguments: &[&str]) -> (bool, String, String) {
    let mut command = millpond();
    let done = command
        .current_dir(folder)
        .arg("features")
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.success(), text(done.stdout), text(done.stderr))
}

/// Waits until the log has as many: a switch is answered before it is logged what it hides.
fn wait_for_warnings(folder: &Path, count: usize) {
    let until = Instant::now() + WAIT_MAX;
    while warnings(folder) < count && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(warnings(folder), count);
}

fn warnings(folder: &Path) -> usize {
    let log = fs::read_to_string(folder.join("millpond.log")).unwrap();
    // Another table of these files has no overlay.
    let of_films = |line: &&str| line.contains(HIDES) && line.contains("table=\"films\"");
    log.lines().filter(of_films).count()
}

#[test]
fn a_server_that_goes_back_behind_a_fold_says_what_is_hidden() {
    let folder = folded();
    let server = Millpond::start(folder.path(), &[]);
    let check = |answer: &serde_json::Value, hides: bool| match hides {
        true => {
            let warning = answer["warning"].as_str().unwrap();
            assert!(warning.starts_with(HIDES), "{warning}");
            assert!(
                warning.contains("are not in the overlay any more; to have them back activate version 2"),
                "{warning}"
            );
        }
        false => assert_eq!(answer.get("warning"), None, "{answer}"),
    };
    let rows = |expected: [f64; 3]| assert_eq!(firsts(&lookup(&server, &[3, 4, 1000])), expected);
    let listed = || server.call("features.versions", &json!({"table": "films"})).1;
    check(&listed(), false);
    rows([7.0; 3]);
    check(
        &switched(&server, "features.activate", &json!({"version": 1})),
        true,
    );
    rows([1.0, 1.0, 0.0]);
    check(&listed(), true);
    check(&switched(&server, "features.rollback", &json!({})), false);
    rows([7.0; 3]);

    let token = folder.path().join("deploy.token");
    fs::write(&token, "s3cret\n").unwrap();
    let asked = |command: &str| {
        let server = ["--server", &server.addr, "--token-file", token.to_str().unwrap()];
        features(folder.path(), &[&[command, "films"], &server[..]].concat())
    };
    let warning = format!("warning: {HIDES}");
    let (told, said) = asked("rollback");
    assert!(
        told.contains("1: 301 rows") && said.starts_with(&warning),
        "{said}"
    );
    let (_, said) = asked("versions");
    assert!(said.starts_with(&warning), "{said}");
    wait_for_warnings(folder.path(), 2);
    let mut onto_less = millpond();
    onto_less.current_dir(folder.path());
    let arguments = ["features", "fold", "tables/films", "--log", "overlay"];
    let done = onto_less.args(arguments).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(
        said.contains("version 1 has them up to sequence 0: fold onto version 2, which has them (--base 2)"),
        "{said}"
    );
    // A new row shows, and what was folded stays hidden.
    assert_eq!(upsert(&server, &[4], 9.0).0, 200);
    rows([1.0, 9.0, 0.0]);
    check(&listed(), true);
    assert!(server.terminate().success());
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(warnings(folder.path()), 3, "a start says it too");
    // A version that was built whole since is to have it from its sources.
    write_version(&folder.path().join("tables/films"), 3);
    check(&switched(&server, "features.activate", &json!({})), false);
}

#[test]
fn a_fold_that_never_served_hides_nothing_when_it_is_left() {
    let folder = folder(LOGGED);
    let server = Millpond::start(folder.path(), &[]);
    // From here on `ACTIVE` says that version 1 serves.
    switched(&server, "features.activate", &json!({"version": 1}));
    for key in [3, 4] {
        assert_eq!(upsert(&server, &[key], 7.0).0, 200);
    }
    fold(folder.path());
    let answer = switched(&server, "features.activate", &json!({"version": 1}));
    assert_eq!(answer.get("warning"), None, "{answer}");
    assert_eq!(firsts(&lookup(&server, &[3, 4])), [7.0; 2]);
    drop(server);
    let (_, said) = features(folder.path(), &["activate", "tables/films", "1"]);
    assert_eq!(said, "");
    assert_eq!(warnings(folder.path()), 0);
}

#[test]
fn the_commands_on_a_folder_say_what_a_start_will_hide() {
    let folder = folded();
    assert!(Millpond::start(folder.path(), &[]).terminate().success());
    let check = |arguments: &[&str], told: &str, hides: bool| {
        let (printed, said) = features(folder.path(), arguments);
        assert!(printed.contains(told), "{printed}");
        let expected = format!(
            "warning: {HIDES}if a server served version 2 meanwhile, the overlay does not have them any more; to have them back activate \
             version 2, or upsert them again\n"
        );
        assert_eq!(said, if hides { expected } else { String::new() });
    };
    check(&["versions", "tables/films"], "2: 302 rows", false);
    check(
        &["activate", "tables/films", "1"],
        "a start serves version 1 (before: 2)",
        true,
    );
    check(&["versions", "tables/films"], "a start serves it\n2: ", true);
    check(
        &["rollback", "tables/films"],
        "a start serves version 2 (before: 1)",
        false,
    );
    check(
        &["rollback", "tables/films"],
        "a start serves version 1 (before: 2)",
        true,
    );
}

/// Why a version stays, and what is said once it is gone.
const ALONE: &str = "version 2 is the only one that has the upserts of 3 sequences of the log (1 to 3), ";
const WENT: &str = "version 2 was the only one that had the upserts of 3 sequences of the log (1 to 3), ";

#[test]
fn a_server_deletes_folded_upserts_only_for_a_caller_that_says_so() {
    let folder = folded();
    let server = Millpond::start(folder.path(), &["features.films.versions_held=0"]);
    switched(&server, "features.activate", &json!({"version": 1}));
    let refusal =
        "which are not in the overlay any more; to delete it and them nevertheless, say --lose-upserts";
    refused(
        &server,
        "features.delete",
        &json!({"version": 2}),
        30112,
        &[ALONE, refusal, "lose_upserts"],
    );
    fs::write(folder.path().join("deploy.token"), "s3cret\n").unwrap();
    let asked = |flags: &[&str]| {
        let arguments = [
            "delete",
            "films",
            "2",
            "--token-file",
            "deploy.token",
            "--server",
            &server.addr,
        ];
        tried(folder.path(), &[&arguments[..], flags].concat())
    };
    let (is_done, _, said) = asked(&[]);
    assert!(!is_done && said.contains(ALONE), "{said}");
    assert!(folder.path().join("tables/films/00000002").exists());
    let (is_done, listed, said) = asked(&["--lose-upserts"]);
    assert!(
        is_done && said.starts_with(&format!("warning: {WENT}which are not in the overlay")),
        "{said}"
    );
    assert!(listed.starts_with("1: ") && !listed.contains("\n2: "), "{listed}");
    assert!(!folder.path().join("tables/films/00000002").exists());
    assert!(server.terminate().success());
    let log = fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    let has = |words: &[&str]| {
        log.lines()
            .any(|line| words.iter().all(|word| line.contains(word)))
    };
    assert!(
        has(&[
            "INFO",
            "a change of versions was refused",
            "delete version 2",
            ALONE
        ]),
        "{log}"
    );
    assert!(
        has(&["WARN", "version deleted, and folded upserts with it", WENT]),
        "{log}"
    );
    assert!(!log.contains("ERROR"), "{log}");
}

#[test]
fn the_command_on_a_folder_deletes_folded_upserts_only_when_it_is_told_to() {
    let folder = folded();
    assert!(Millpond::start(folder.path(), &[]).terminate().success());
    features(folder.path(), &["activate", "tables/films", "1"]);
    let delete = ["delete", "tables/films", "2"];
    let (is_done, _, said) = tried(folder.path(), &delete);
    let uncertain = "and if a server served version 2 meanwhile, the overlay does not have them any more";
    assert!(
        !is_done && said.contains(ALONE) && said.contains(uncertain),
        "{said}"
    );
    assert!(said.contains("say --lose-upserts"), "{said}");
    let (printed, said) = features(folder.path(), &[&delete[..], &["--lose-upserts"]].concat());
    assert_eq!(printed, "version 2 is deleted\n");
    assert_eq!(
        said,
        format!("warning: {WENT}{uncertain}: upsert those again that are needed\n")
    );
}

#[test]
fn a_fold_is_deleted_where_a_version_that_was_built_since_has_its_rows() {
    let folder = folded();
    let server = Millpond::start(folder.path(), &["features.films.versions_held=0"]);
    write_version(&folder.path().join("tables/films"), 3);
    switched(&server, "features.activate", &json!({}));
    let answer = switched(&server, "features.delete", &json!({"version": 2}));
    assert_eq!(answer.get("warning"), None, "{answer}");
}
