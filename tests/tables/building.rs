//! A build that is killed, or whose disk is full, whatever its input: the versions that were there stay as they were.

use crate::harness::millpond;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// A folder of a table with one version.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::write(place.path("good.csv"), "key,x\n7,1\n").unwrap();
        let built = place.features(&[
            "build", "--input", "good.csv", "--out", "tables", "--name", "films",
        ]);
        assert!(built.status.success(), "{built:?}");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn features(&self, arguments: &[&str]) -> Output {
        let mut command = millpond();
        command.current_dir(self.0.path()).arg("features").args(arguments);
        command.output().unwrap()
    }

    /// The names in the table's folder.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("tables/films")).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// The version is whole, and the next build makes the next one.
    fn check_goes_on(&self) {
        let verified = self.features(&["verify", "tables/films"]);
        let said = String::from_utf8_lossy(&verified.stdout).into_owned();
        assert!(
            verified.status.success() && said.contains("version   1 of [1]"),
            "{verified:?}"
        );
        let built = self.features(&[
            "build", "--input", "good.csv", "--out", "tables", "--name", "films",
        ]);
        assert!(built.status.success(), "{built:?}");
        let same = self.features(&["diff", "tables/films", "1", "2"]);
        let said = String::from_utf8_lossy(&same.stdout).into_owned();
        assert!(
            said.contains("same      1") && said.contains("changed   0"),
            "{same:?}"
        );
    }
}

/// Input that goes on until the build is killed: its rows come through a pipe.
fn killed_while_it_reads(name: &str, arguments: &[&str], rows: &'static str) {
    let place = Place::new();
    let pipe = place.path(name);
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut build = millpond()
        .current_dir(place.0.path())
        .args([
            "features", "build", "--input", name, "--out", "tables", "--name", "films",
        ])
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let writer = {
        let pipe = pipe.clone();
        thread::spawn(move || {
            let mut pipe = File::options().write(true).open(pipe).unwrap();
            // It ends when nobody reads any more.
            while pipe.write_all(rows.as_bytes()).is_ok() {}
        })
    };
    let has_begun = || place.names().iter().any(|name| name.ends_with(".unfinished"));
    wait_until(&has_begun);
    build.kill().unwrap();
    build.wait().unwrap();
    writer.join().unwrap();
    let names = place.names();
    assert!(
        names.len() == 2 && names.contains(&"00000001".to_owned()),
        "{names:?}"
    );
    place.check_goes_on();
}

fn wait_until(is_so: &dyn Fn() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("nothing came of it in a minute");
}

#[test]
fn a_build_that_is_killed_leaves_the_versions_that_were_there() {
    // No key comes twice in what is read before the kill matters: duplicates are looked for at the end.
    killed_while_it_reads("in.jsonl", &[], "{\"key\": 1, \"vector\": [1]}\n");
    killed_while_it_reads("in.csv", &["--key-column", "1", "--value-column", "2"], "1,2\n");
    killed_while_it_reads(
        "texts.jsonl",
        &["--duplicates", "last"],
        "{\"key\": \"a\", \"vector\": [1]}\n",
    );
}

/// Builds with a limit on the length of files: writing beyond it fails, as it does on a full disk.
fn out_of_space(place: &Place, input: &str, arguments: &str) {
    let script = format!(
        "trap '' XFSZ; ulimit -f 16; exec \"$0\" features build --input {input} --out tables --name films {arguments}"
    );
    let program = millpond().get_program().to_owned();
    let mut command = Command::new("bash");
    command
        .current_dir(place.0.path())
        .arg("-c")
        .arg(script)
        .arg(program);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("cannot write "),
        "{output:?}"
    );
    assert_eq!(place.names(), ["00000001"], "{input}");
}

fn write(path: &Path, lines: impl Iterator<Item = String>) {
    fs::write(path, lines.collect::<String>()).unwrap();
}

#[test]
fn a_build_whose_disk_is_full_leaves_the_versions_that_were_there() {
    let place = Place::new();
    let header = std::iter::once("key,x\n".to_owned());
    write(
        &place.path("rows.csv"),
        header.chain((0..20_000).map(|key| format!("{key},1\n"))),
    );
    let lines = (0..20_000).map(|key| format!("{{\"key\": \"film {key}\", \"vector\": [1]}}\n"));
    write(&place.path("texts.jsonl"), lines);
    out_of_space(&place, "rows.csv", "");
    out_of_space(&place, "rows.csv", "--delta --memory 1MiB --shards 2");
    out_of_space(&place, "texts.jsonl", "--duplicates first");
    place.check_goes_on();
}

#[test]
fn a_delta_that_only_removes_needs_no_input() {
    let place = Place::new();
    let build = |arguments: &[&str]| {
        let to = ["build", "--out", "tables", "--name", "films"];
        let output = place.features(&[&to, arguments].concat());
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    for (arguments, expected) in [
        (&["--delta"][..], "--input <FILES>"),
        (&["--remove", "good.csv"], "say which by --delta or --base"),
        (
            &["--remove", "good.csv", "--delta", "--type", "f16"],
            "--input <FILES>",
        ),
    ] {
        let (is_built, said) = build(arguments);
        assert!(!is_built && said.contains(expected), "{arguments:?}: {said}");
    }
    let (is_built, said) = build(&["--remove", "good.csv", "--delta"]);
    assert!(is_built, "{said}");
    let inspected = place.features(&["inspect", "tables/films"]);
    let said = String::from_utf8(inspected.stdout).unwrap();
    for expected in ["rows      0\n", "source    --remove good.csv\n"] {
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn an_export_whose_disk_is_full_leaves_no_file() {
    let place = Place::new();
    let made = place.features(&[
        "random", "--out", "tables", "--name", "many", "--rows", "20000", "--dim", "4",
    ]);
    assert!(made.status.success(), "{made:?}");
    for name in ["out.parquet", "out.csv", "out.jsonl"] {
        let script =
            format!("trap '' XFSZ; ulimit -f 16; exec \"$0\" features export tables/many --output {name}");
        let mut command = Command::new("bash");
        command.current_dir(place.0.path()).arg("-c").arg(script);
        let output = command.arg(millpond().get_program()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains("cannot write "),
            "{output:?}"
        );
        let entries = fs::read_dir(place.0.path()).unwrap();
        let left = entries.filter(|entry| {
            entry
                .as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .contains("out.")
        });
        assert_eq!(left.count(), 0, "{name}");
    }
}
