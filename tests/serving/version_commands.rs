//! `millpond features versions`, `activate`, `rollback` and `delete`: on a folder, and on a running server.

use super::versions::{folder, served};
use crate::harness::Millpond;
use millpond_engines_features::Schema;
use millpond_engines_features::write::Writer;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What it prints, and on which stream.
fn features(arguments: &[&str]) -> Result<String, String> {
    let done = crate::harness::millpond()
        .arg("features")
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    match done.status.code() {
        Some(0) => Ok(text(done.stdout)),
        _ => Err(text(done.stderr)),
    }
}

fn check(found: Result<String, String>, words: &[&str]) {
    let found = found.unwrap_or_else(|error| panic!("{error}"));
    for word in words {
        assert!(found.contains(word), "{word:?} is not in {found}");
    }
}

fn refused(found: Result<String, String>, word: &str) {
    let error = found.unwrap_err();
    assert!(error.contains(word), "{word:?} is not in {error}");
}

fn path(folder: &Path) -> String {
    folder.join("tables/films").display().to_string()
}

/// Many more files than a process may have open, so that no look at a version may keep one.
#[test]
fn commands_on_a_folder_open_one_file_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("tables/films");
    for version in [1, 2] {
        let writer = Writer::create(&table, "films", version, Schema::floats(2), 100).unwrap();
        writer.finish().unwrap();
    }
    for (command, told) in [
        ("versions", "2: 0 rows"),
        ("activate", "a start serves version 2"),
    ] {
        let done = Command::new("sh")
            .args(["-c", "ulimit -n 40; exec \"$0\" features \"$1\" \"$2\""])
            .arg(crate::harness::millpond().get_program())
            .arg(command)
            .arg(&table)
            .output()
            .unwrap();
        let (said, error) = (
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr),
        );
        assert!(said.contains(told) && !said.contains("open"), "{said}");
        assert_eq!(error, "", "{said}");
    }
}

#[test]
fn a_folder_says_what_the_next_start_serves() {
    let folder = folder(&[1, 2, 3]);
    let films = path(folder.path());
    check(
        features(&["versions", &films]),
        &["1: 301 rows, ", "3: 303 rows, "],
    );
    refused(features(&["rollback", &films]), "nothing was active before");
    check(
        features(&["activate", &films, "1"]),
        &["a start serves version 1 (before: 3)", "--server"],
    );
    check(
        features(&["versions", &films]),
        &["bytes, a start serves it\n2: 302 rows"],
    );
    refused(features(&["activate", &films, "9"]), "version 9 is not in");
    refused(features(&["delete", &films, "1"]), "is the active one");
    // What a start could not open is not made active.
    let shard = Path::new(&films).join("00000002/shard-00000.mpf");
    let whole = fs::read(&shard).unwrap();
    fs::write(&shard, &whole[..whole.len() - 100]).unwrap();
    refused(features(&["activate", &films, "2"]), "length in bytes");
    check(
        features(&["versions", &films]),
        &[", does not open: ", "length in bytes"],
    );
    fs::write(&shard, whole).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    assert_eq!(served(&server), 1);
    check(
        features(&["rollback", &films]),
        &["a start serves version 3 (before: 1)"],
    );
    assert_eq!(served(&server), 1, "a server that runs goes on");
    drop(server);
    assert_eq!(served(&Millpond::start(folder.path(), &[])), 3);
    check(features(&["activate", &films]), &["version 3 (before: 1)"]);
    check(features(&["delete", &films, "2"]), &["version 2 is deleted"]);
    refused(features(&["versions", &films, "--tls-ca", "ca.pem"]), "--server");
    for command in ["versions", "activate", "rollback"] {
        refused(
            features(&[command, "no-such-folder"]),
            "there is no folder no-such-folder; name a table's folder, or name a server with --server",
        );
    }
}

#[test]
fn a_start_whose_version_is_damaged_says_how_to_serve_another() {
    let folder = folder(&[1, 2, 3]);
    let films = path(folder.path());
    let damage = |version: &str| {
        let shard = Path::new(&films).join(version).join("shard-00000.mpf");
        let mut bytes = fs::read(&shard).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&shard, bytes).unwrap();
    };
    let fails = |words: &str| {
        let (status, log) = Millpond::try_start(folder.path(), &[]).err().unwrap();
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(log.contains(words), "{words:?} is not in {log}");
    };
    damage("00000003");
    fails("/films' 2` has a start serve version 2");
    check(features(&["activate", &films, "1"]), &["version 1 (before: 3)"]);
    check(features(&["activate", &films, "2"]), &["version 2 (before: 1)"]);
    damage("00000002");
    // A flipped bit shows when all is read; a file that is gone shows at once.
    let shard = Path::new(&films).join("00000001/shard-00001.mpf");
    let whole = fs::read(&shard).unwrap();
    fs::remove_file(&shard).unwrap();
    refused(features(&["rollback", &films]), "shard-00001.mpf");
    fs::write(&shard, whole).unwrap();
    // Version 3 is not proposed: it is damaged too.
    fails("version 1 served before: `millpond features rollback ");
    check(features(&["rollback", &films]), &["version 1 (before: 2)"]);
    assert_eq!(served(&Millpond::start(folder.path(), &[])), 1);
}

#[test]
fn a_build_says_which_version_it_stands_on_where_another_is_active() {
    let folder = folder(&[1, 2]);
    let films = path(folder.path());
    let built = |more: &[&str]| {
        let tables = folder.path().join("tables").display().to_string();
        let removed = folder.path().join("removed.csv");
        fs::write(&removed, "key\n7\n").unwrap();
        let done = crate::harness::millpond()
            .args(["features", "build", "--out", &tables, "--name", "films"])
            .args(["--remove", &removed.display().to_string()])
            .args(more)
            .output()
            .unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{said}");
        said
    };
    assert!(!built(&["--delta"]).contains("warning"));
    check(features(&["activate", &films, "1"]), &["version 1"]);
    let said = built(&["--delta"]);
    assert!(
        said.contains("changes version 3, the highest, and a start serves version 1"),
        "{said}"
    );
    assert!(!built(&["--base", "1"]).contains("warning"));
}

#[test]
fn a_running_server_is_switched() {
    let folder = folder(&[1, 2, 3]);
    let server = Millpond::start(folder.path(), &[]);
    let token = folder.path().join("deploy.token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let token = token.display().to_string();
    let at = |arguments: &[&str]| {
        let whole = [arguments, &["--server", &server.addr, "--token-file", &token]].concat();
        features(&whole)
    };
    check(
        at(&["activate", "films", "1"]),
        &[
            "1: 301 rows, ",
            "bytes, serves\n2: 302 rows",
            "3: 303 rows",
            ", held",
        ],
    );
    assert_eq!(served(&server), 1);
    check(
        at(&["rollback", "films"]),
        &["1: 301 rows", ", held\n2: 302", ", serves"],
    );
    assert_eq!(served(&server), 3);
    refused(
        at(&["delete", "films", "1"]),
        "is kept open (features.films.versions_held)",
    );
    check(at(&["delete", "films", "2"]), &["3: 303 rows"]);
    refused(at(&["activate", "films", "9"]), "version 9 is not in");
    refused(at(&["activate", "actors"]), "actors");
    let without = ["activate", "films", "1", "--server", &server.addr];
    refused(features(&without), "; give --token-file FILE\n");
    let empty = folder.path().join("empty.token").display().to_string();
    std::fs::write(&empty, "\n").unwrap();
    let with_empty = [&without[..], &["--token-file", &empty]].concat();
    refused(
        features(&with_empty),
        "empty.token is empty; expected the server's token",
    );
    check(
        features(&["versions", "films", "--server", &server.addr]),
        &[", serves"],
    );
    assert_eq!(served(&server), 3);
    check(features(&["activate", &path(folder.path()), "1"]), &["version 1"]);
    check(
        features(&["versions", "films", "--server", &server.addr]),
        &["\nversion 3 serves until a restart: a restart serves version 1"],
    );
}
