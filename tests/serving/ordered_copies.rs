//! `millpond ordered …`: dump, load, verify, backup and restore, beside servers and without.

use crate::harness::{Http, Millpond, millpond, r1_folder};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Runs `millpond ordered` with these.
fn ordered(arguments: &[&str], paths: &[&Path]) -> Output {
    let mut command = millpond();
    command.arg("ordered").args(arguments).args(paths);
    command.output().unwrap()
}

fn done(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn failed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The lines of a dump.
fn dump(dir: &Path) -> Vec<Value> {
    let text = done(&ordered(&["dump"], &[dir]));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn files(dir: &Path, end: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    files.sort();
    files
}

/// Writes the number of the write to two keys, both or none, until it is over. Few keys, so that the log grows by more than the store.
fn write(addr: &str, is_over: &AtomicBool, acknowledged: &AtomicU64) {
    let mut http = Http::connect(addr);
    let mut at = 0;
    while !is_over.load(Ordering::Relaxed) {
        at += 1;
        let entries = [
            ["last".to_owned(), at.to_string()],
            [format!("k{}", at % 50), at.to_string()],
        ];
        let (status, answer) = http.call("ordered.put", &json!({"entries": entries}));
        assert_eq!(status, 200, "{answer}");
        acknowledged.store(at, Ordering::Relaxed);
    }
}

/// What a key holds in a dump.
fn value(lines: &[Value], key: &str) -> Option<u64> {
    let line = lines.iter().find(|line| line["key_base64"] == base64(key))?;
    Some(text(&line["value_base64"]).parse().unwrap())
}

#[test]
fn backups_of_a_store_that_is_written_have_all_that_was_acknowledged() {
    let folder = r1_folder();
    let store = folder.path().join("events");
    let server = Millpond::start(
        folder.path(),
        &[
            "ordered.events.checkpoint_log_bytes=20000",
            "ordered.events.segment_bytes_max=8000",
            "ordered.events.durability=\"logged\"",
        ],
    );
    let (is_over, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writer = std::thread::spawn({
        let (is_over, acknowledged, addr) = (is_over.clone(), acknowledged.clone(), server.addr.clone());
        move || write(&addr, &is_over, &acknowledged)
    });
    server.wait_for("millpond_store_checkpoint_bytes{store=\"events\"}", |bytes| {
        bytes > 0
    });
    let mut last_found = 0;
    for round in 0..8 {
        let before = acknowledged.load(Ordering::Relaxed);
        let (backup, restored) = (
            folder.path().join(format!("backup{round}")),
            folder.path().join(format!("restored{round}")),
        );
        let arguments: &[&str] = if round % 2 == 0 {
            &["backup"]
        } else {
            &["backup", "--copy"]
        };
        let said = done(&ordered(arguments, &[&store, &backup]));
        assert_eq!(said.contains("is the same file"), round % 2 == 0, "{said}");
        assert!(done(&ordered(&["verify"], &[&backup])).contains("sound"));
        done(&ordered(&["restore"], &[&backup, &restored]));
        let lines = dump(&restored);
        assert_eq!(lines, dump(&backup));
        // Each key holds what it did at the last write that the copy has.
        let found = value(&lines, "last").unwrap();
        assert!(
            found >= before.max(last_found),
            "{found}, {before} were acknowledged"
        );
        for key in 0..50 {
            let expected = (1..=found).rev().take(50).find(|at| at % 50 == key);
            assert_eq!(value(&lines, &format!("k{key}")), expected, "k{key} at {found}");
        }
        last_found = found;
    }
    is_over.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert!(server.terminate().success());
    // The server's own folder is what its last acknowledgement says.
    let last = value(&dump(&store), "last");
    assert_eq!(last, Some(acknowledged.load(Ordering::Relaxed)));
    // A server takes a restored folder.
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::rename(folder.path().join("restored7"), &store).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    let (_, answer) = server.call("ordered.get", &json!({"keys": ["last"]}));
    assert_eq!(answer["values"][0], json!(last_found.to_string().as_bytes()));
}

fn base64(text: &str) -> Value {
    use base64::Engine as _;
    json!(base64::engine::general_purpose::STANDARD.encode(text))
}

fn text(value: &Value) -> String {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(value.as_str().unwrap());
    String::from_utf8(bytes.unwrap()).unwrap()
}

#[test]
fn a_dump_loads_into_another_store() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other, lines) = (
        folder.path().join("one"),
        folder.path().join("other"),
        folder.path().join("lines"),
    );
    // More items than one append takes.
    let many = vec!["eA=="; 70_000];
    let long = json!({"key": "many", "items_base64": many}).to_string();
    std::fs::write(
        &lines,
        "{\"key_base64\": \"/wA=\", \"value_base64\": \"AAECAw==\"}\n\
         {\"key\": \"text\", \"value\": \"é\", \"expires_ms\": 99999999999999}\n\
         {\"key\": \"gone\", \"value\": \"x\", \"expires_ms\": 5}\n\
         {\"key\": \"list\", \"items_base64\": [\"YQ==\", \"\", \"Yg==\"], \"expires_ms\": 99999999999999}\n\
         {\"key\": \"empty\", \"value\": \"\", \"version\": 77}\n"
            .to_owned()
            + &long,
    )
    .unwrap();
    let said = done(&ordered(&["load"], &[&one, &lines]));
    assert!(
        said.contains("5 entries loaded") && said.contains("(1 more have expired)"),
        "{said}"
    );
    let dumped = ordered(&["dump"], &[&one]);
    let found = dump(&one);
    let keys: Vec<&Value> = found.iter().map(|line| &line["key_base64"]).collect();
    assert_eq!(
        keys,
        [
            &base64("empty"),
            &base64("list"),
            &base64("many"),
            &base64("text"),
            &json!("/wA=")
        ]
    );
    assert_eq!(found[2]["items_base64"], json!(many));
    assert_eq!(found[1]["items_base64"], json!(["YQ==", "", "Yg=="]));
    assert!(found[1].get("value_base64").is_none() && found[1]["expires_ms"].is_u64());
    assert_eq!(found[4]["value_base64"], "AAECAw==");
    let expires_ms = found[3]["expires_ms"].as_u64().unwrap();
    assert!(
        (99_999_990_000_000..100_000_060_000_000).contains(&expires_ms),
        "{expires_ms}"
    );
    // By a pipe, as the help says.
    let mut command = millpond();
    command
        .args(["ordered", "load"])
        .arg(&other)
        .stdin(Stdio::piped());
    let mut loading = command.stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut loading.stdin.take().unwrap(), &dumped.stdout).unwrap();
    assert!(loading.wait().unwrap().success());
    let strip = |mut lines: Vec<Value>| {
        for line in &mut lines {
            let line = line.as_object_mut().unwrap();
            line.remove("version");
            line.remove("expires_ms");
        }
        lines
    };
    assert_eq!(strip(dump(&other)), strip(found));
}

#[test]
fn a_line_that_cannot_be_loaded_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let [store, lines] = ["store", "lines"].map(|name| folder.path().join(name));
    let list = json!({"key": "list", "items_base64": ["YQ=="]}).to_string();
    std::fs::write(&lines, list).unwrap();
    done(&ordered(&["load"], &[&store, &lines]));
    for (line, expected) in [
        (
            "{\"key\": \"a\"}",
            "line 1: expected one of value, value_base64 and items_base64",
        ),
        (
            "{\"key_base64\": \"?\", \"value\": \"\"}",
            "line 1: key_base64 is not base64",
        ),
        (
            "{\"key\": \"a\", \"key_base64\": \"YQ==\", \"value\": \"\"}",
            "expected one of key and key_base64",
        ),
        (
            "{\"key\": \"list\", \"items_base64\": []}",
            "line 1: items_base64 is empty; a list has at least one item",
        ),
        ("{\"kye\": \"a\"}", "unknown field `kye`"),
        (
            json!({"key": "k".repeat(65_537), "value": ""})
                .to_string()
                .as_str(),
            "line 1: bytes of a key: 65537, at most 65536 allowed",
        ),
        (
            json!({"key": "a", "value": "v".repeat((8 << 20) + 1)})
                .to_string()
                .as_str(),
            "line 1: bytes of a value: 8388609, at most 8388608 allowed",
        ),
        (
            json!({"key": "a", "items_base64": ["YWFh".repeat(400_000)]})
                .to_string()
                .as_str(),
            "line 1: bytes of a list: 1200008, at most 1048576 allowed",
        ),
    ] {
        std::fs::write(&lines, line).unwrap();
        let said = failed(&ordered(&["load"], &[&store, &lines]));
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(dump(&store).len(), 1, "what was there stays");
}

#[test]
fn a_load_that_stops_says_what_it_has_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let [store, lines] = ["store", "lines"].map(|name| folder.path().join(name));
    // The first line is empty, so entries and lines differ.
    let good = |count: u32| -> String {
        let line = |at| format!("\n{{\"key\": \"k{at}\", \"value\": \"v\"}}");
        (0..count).map(line).collect()
    };
    for (count, expected, kept) in [
        (
            2500,
            "line 2502: expected one of value, value_base64 and items_base64; 2000 entries of the lines before are loaded and stay: go on from line 2002\n",
            2000,
        ),
        (
            10,
            "line 12: expected one of value, value_base64 and items_base64; no entry was loaded: correct the line and begin again\n",
            0,
        ),
    ] {
        std::fs::write(&lines, good(count) + "\n{\"key\": \"bad\"}\n").unwrap();
        let said = failed(&ordered(&["load"], &[&store, &lines]));
        assert!(said.ends_with(expected), "{said}");
        assert_eq!(dump(&store).len(), kept);
        std::fs::remove_dir_all(&store).unwrap();
    }
    // The disk is full after the first write.
    let large = json!({"key": "large", "value": "v".repeat(40_000)}).to_string();
    std::fs::write(&lines, good(1000) + "\n" + &large).unwrap();
    let said = failed(&ordered_on_a_full_disk(32, &["load"], &[&store, &lines]));
    let expected = "1000 entries of the lines before are loaded and stay: go on from line 1002\n";
    assert!(
        said.contains("File too large") && said.ends_with(expected),
        "{said}"
    );
    assert_eq!(dump(&store).len(), 1000);
}

#[test]
fn what_is_damaged_held_or_in_the_way_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (store, backup, lines) = (
        folder.path().join("store"),
        folder.path().join("backup"),
        folder.path().join("lines"),
    );
    std::fs::write(
        &lines,
        "{\"key\": \"a\", \"value\": \"1\"}\n{\"key\": \"b\", \"value\": \"2\"}\n",
    )
    .unwrap();
    done(&ordered(&["load"], &[&store, &lines]));
    done(&ordered(&["load"], &[&store, &lines]));
    done(&ordered(&["backup"], &[&store, &backup]));
    let taken = "cannot make the folder of the copy: it is there and not empty; move away what is there, or choose another folder\n";
    for said in [
        failed(&ordered(&["backup"], &[&store, &backup])),
        failed(&ordered(&["restore"], &[&backup, &store])),
    ] {
        assert!(said.ends_with(taken), "{said}");
    }
    let other = folder.path().join("other");
    std::fs::create_dir(folder.path().join("other.unfinished")).unwrap();
    let said = failed(&ordered(&["backup"], &[&store, &other]));
    let left = "other.unfinished: cannot make the folder: a copy that was broken off has left it; move away what is there, or choose another \
                folder\n";
    assert!(said.ends_with(left), "{said}");
    let said = failed(&ordered(&["verify"], &[&folder.path().join("none")]));
    assert!(said.contains("no such folder"), "{said}");
    let nothing = folder.path().join("nothing");
    std::fs::create_dir(&nothing).unwrap();
    for command in ["verify", "dump"] {
        let said = failed(&ordered(&[command], &[&nothing]));
        assert!(said.contains("there is no segment of a log in it"), "{said}");
    }

    // The first record is no torn tail.
    let segment = files(&backup, ".mpl").remove(0);
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[64 + 30] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    let target = folder.path().join("target");
    for said in [
        failed(&ordered(&["verify"], &[&backup])),
        failed(&ordered(&["restore"], &[&backup, &target])),
        failed(&ordered(&["backup"], &[&backup, &target])),
        failed(&ordered(&["dump"], &[&backup])),
    ] {
        // The store's own file is named, and not one of a copy that is gone.
        assert!(
            said.contains(&format!("{}: damaged record at offset 64", segment.display()))
                && !said.contains(".unfinished"),
            "{said}"
        );
    }
    assert!(!target.exists() && !folder.path().join("target.unfinished").exists());
    assert_eq!(std::fs::read(&segment).unwrap(), bytes, "nothing was changed");
}

#[test]
fn a_store_that_a_server_has_is_backed_up_and_not_dumped() {
    let folder = r1_folder();
    let server = Millpond::start(folder.path(), &[]);
    server.call("ordered.put", &json!({"entries": [["a", "1"]]}));
    let store = folder.path().join("events");
    for command in ["verify", "dump"] {
        let said = failed(&ordered(&[command], &[&store]));
        assert!(
            said.contains("already open elsewhere")
                && said.contains("with `millpond ordered backup` and name the copy"),
            "{said}"
        );
    }
    let backup = folder.path().join("backup");
    done(&ordered(&["backup"], &[&store, &backup]));
    assert_eq!(dump(&backup).len(), 1);
    drop(server);
}

/// `millpond ordered` where no file may grow beyond so many KiB, as on a disk that is full then.
fn ordered_on_a_full_disk(kib: u32, arguments: &[&str], paths: &[&Path]) -> Output {
    let limited = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" ordered \"$@\"", 2 * kib);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &limited]).arg(millpond().get_program());
    command.args(arguments).args(paths).output().unwrap()
}

#[test]
fn a_copy_that_finds_the_disk_full_is_no_copy_and_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let [store, backup, restored, lines] =
        ["store", "backup", "restored", "lines"].map(|name| folder.path().join(name));
    let line = |at: u32| format!("{{\"key\": \"k{at:04}\", \"value\": \"{}\"}}\n", "v".repeat(100));
    std::fs::write(&lines, (0..300).map(line).collect::<String>()).unwrap();
    done(&ordered(&["load"], &[&store, &lines]));
    let expected = dump(&store);
    let check = |said: &str, (from, to): (&Path, &Path)| {
        let from = from.join("log-00000000000000000001.mpl");
        let copied = format!(
            "{}: cannot copy the file: to {}.unfinished/log-00000000000000000001.mpl: File too large",
            from.display(),
            to.display()
        );
        assert!(said.contains(&copied), "{said}");
        assert!(!to.exists(), "{said}");
        // What is left of it is named by the next attempt, and moved away.
        let unfinished = to.with_extension("unfinished");
        if unfinished.exists() {
            std::fs::remove_dir_all(unfinished).unwrap();
        }
    };
    let said = failed(&ordered_on_a_full_disk(
        4,
        &["backup", "--copy"],
        &[&store, &backup],
    ));
    check(&said, (&store, &backup));
    done(&ordered(&["backup", "--copy"], &[&store, &backup]));
    let said = failed(&ordered_on_a_full_disk(4, &["restore"], &[&backup, &restored]));
    check(&said, (&backup, &restored));
    done(&ordered(&["restore"], &[&backup, &restored]));
    assert_eq!(dump(&restored), expected);
    let said = failed(&ordered_on_a_full_disk(4, &["load"], &[&restored, &lines]));
    assert!(said.contains("File too large"), "{said}");
    assert_eq!(
        dump(&restored),
        expected,
        "what was there stays, whatever was loaded"
    );
}
