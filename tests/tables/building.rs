//! A build that is killed, or whose disk is full, whatever its input: the versions that were there stay as they were, and the next
//! build of the same goes on.

use crate::harness::millpond;
use std::cell::{Cell, RefCell};
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
            verified.status.success() && said.contains("version   1 (there are 1)"),
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

/// Builds with a limit on the length of files, in KiB: writing beyond it fails, as it does on a full disk.
fn out_of_space(place: &Place, input: &str, arguments: &str, blocks: u32) {
    let script = format!(
        "trap '' XFSZ; ulimit -f {blocks}; export SOURCE_DATE_EPOCH=7; \
         exec \"$0\" features build --version 2 --name films --input {input} --out tables {arguments}"
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
        !output.status.success() && said.contains("cannot write ") && said.contains("goes on from there"),
        "{output:?}"
    );
    let names = place.names();
    assert!(
        names.len() == 2 && names[0].ends_with(".unfinished") && names[1] == "00000001",
        "{input}: {names:?}"
    );
}

/// The command that builds version 2 at a time that is always the same.
fn building(place: &Place, out: &str, input: &str, arguments: &str) -> Command {
    let mut command = millpond();
    command
        .current_dir(place.0.path())
        .env("SOURCE_DATE_EPOCH", "7")
        .args(["features", "build", "--version", "2", "--name", "films"])
        .args(["--input", input, "--out", out])
        .args(arguments.split_whitespace());
    command
}

/// Builds version 2 in a folder of its own, without a break, and compares; the version is deleted again.
fn check_is_as_unbroken(place: &Place, input: &str, arguments: &str) {
    let files = |out: &str| {
        let dir = place.path(out).join("films/00000002");
        let mut files: Vec<(PathBuf, Vec<u8>)> = fs::read_dir(&dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                (
                    path.strip_prefix(&dir).unwrap().to_owned(),
                    fs::read(&path).unwrap(),
                )
            })
            .collect();
        files.sort();
        files
    };
    let copied = Command::new("cp")
        .args(["-r", "tables", "unbroken"])
        .current_dir(place.0.path())
        .status();
    assert!(copied.unwrap().success());
    fs::remove_dir_all(place.path("unbroken/films/00000002")).unwrap();
    let built = building(place, "unbroken", input, arguments).output().unwrap();
    assert!(built.status.success(), "{built:?}");
    assert!(files("tables") == files("unbroken"), "{input} {arguments}");
    assert_eq!(place.names(), ["00000001", "00000002"], "{input}");
    fs::remove_dir_all(place.path("unbroken")).unwrap();
    fs::remove_dir_all(place.path("tables/films/00000002")).unwrap();
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
        header.chain((0..60_000).map(|key| format!("{key},1\n"))),
    );
    let lines = (0..60_000).map(|key| format!("{{\"key\": \"film {key}\", \"vector\": [1]}}\n"));
    write(&place.path("texts.jsonl"), lines);
    // Rows that were all in memory are read again; of those in files a journal says how many are there.
    for (input, arguments, blocks, is_resumed) in [
        ("rows.csv", "", 16, false),
        ("rows.csv", "--memory 1MiB", 512, true),
        ("rows.csv", "--delta --memory 1MiB --shards 2", 16, false),
        ("texts.jsonl", "--duplicates first", 16, false),
        ("texts.jsonl", "--duplicates first --memory 1MiB", 512, true),
    ] {
        out_of_space(&place, input, arguments, blocks);
        let built = building(&place, "tables", input, arguments).output().unwrap();
        assert!(built.status.success(), "{built:?}");
        let said = String::from_utf8_lossy(&built.stderr).into_owned();
        assert_eq!(
            said.contains("went on with"),
            is_resumed,
            "{input} {arguments}: {said}"
        );
        check_is_as_unbroken(&place, input, arguments);
    }
    place.check_goes_on();
}

/// Kills a build whenever it has come further, until one comes to its end.
fn killed_again_and_again(place: &Place, input: &str, arguments: &str) {
    let journal_lines = || {
        let names = place.names().into_iter();
        let unfinished = names.filter(|name| name.ends_with(".unfinished"));
        let journals = unfinished.map(|name| place.path("tables/films").join(name).join("journal"));
        let lines = journals.filter_map(|path| Some(fs::read_to_string(path).ok()?.lines().count()));
        lines.max().unwrap_or(0)
    };
    let mut kills = 0;
    loop {
        let before = journal_lines();
        let mut build = building(place, "tables", input, arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (ended, build_ref) = (Cell::new(None), RefCell::new(&mut build));
        wait_until(&|| {
            ended.set(build_ref.borrow_mut().try_wait().unwrap());
            // The first line is there as soon as it begins.
            let is_further = journal_lines() > before.max(1);
            ended.get().is_some() || is_further
        });
        if let Some(status) = ended.get() {
            assert!(
                status.success(),
                "{input} {arguments}, after {kills} kills: {status}"
            );
            break;
        }
        build.kill().unwrap();
        build.wait().unwrap();
        kills += 1;
        if place.names().contains(&"00000002".to_owned()) {
            // It came too late, and perhaps before the build could remove what earlier ones had left; the next one would.
            let left = place.names().into_iter();
            for name in left.filter(|name| name.ends_with(".unfinished")) {
                fs::remove_dir_all(place.path("tables/films").join(name)).unwrap();
            }
            break;
        }
        assert!(kills < 1000, "it comes no further");
    }
    println!("{input} {arguments}: killed {kills} times");
    check_is_as_unbroken(place, input, arguments);
}

#[test]
fn a_build_that_is_killed_again_and_again_is_as_one_that_is_not() {
    let place = Place::new();
    // Some keys come twice.
    let keys = (0..10_000_u64).flat_map(|number| (number % 9_800).to_le_bytes());
    write_npy(&place.path("keys.npy"), "<u8", "(10000,)", keys);
    let numbers = (0..10_000 * 64).flat_map(|number| (number as f32).to_le_bytes());
    write_npy(&place.path("rows.npy"), "<f4", "(10000, 64)", numbers);
    let input = "keys.npy,rows.npy";
    killed_again_and_again(&place, input, "--duplicates last --memory 1MiB --shards 8");
    killed_again_and_again(&place, input, "--duplicates first --memory 1MiB");
    killed_again_and_again(&place, input, "--duplicates last --shards 8");
    place.check_goes_on();
}

fn write_npy(path: &Path, kind: &str, shape: &str, bytes: impl Iterator<Item = u8>) {
    let head = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    let head = format!("{head:<117}\n");
    let mut file = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    file.extend(head.bytes().chain(bytes));
    fs::write(path, file).unwrap();
}
