//! A version from before a fold: what it hides is said by the answer, by the commands and in the log.

use super::upserts::{LOGGED, firsts, fold, folder, lookup, upsert};
use super::versions::{switched, write_version};
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
    let mut command = millpond();
    let done = command
        .current_dir(folder)
        .arg("features")
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert!(done.status.success(), "{}", text(done.stderr));
    (text(done.stdout), text(done.stderr))
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
