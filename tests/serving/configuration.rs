//! What keeps a server from starting: each with what, where and a hint, and no port left bound.

use crate::harness::{Millpond, r1_folder};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

fn check(folder: &Path, set: &[&str], words: &[&str]) {
    match Millpond::try_start(folder, set) {
        Ok(_) => panic!("it started; expected {words:?}"),
        Err((status, stderr)) => {
            assert_eq!(status.code(), Some(1), "{stderr}");
            for word in words {
                assert!(stderr.contains(word), "{word:?} is not in:\n{stderr}");
            }
            assert!(!stderr.contains("panicked"), "{stderr}");
        }
    }
}

fn shard(folder: &Path) -> std::path::PathBuf {
    folder.join("tables/embeddings/00000001/shard-00000.mpf")
}

#[test]
fn keys_and_references_are_refused_by_name() {
    let folder = r1_folder();
    check(folder.path(), &["server.lisen=1"], &["lisen", "listen"]);
    check(
        folder.path(),
        &["default_model=nope"],
        &["default_model", "nope", "mlp"],
    );
    check(
        folder.path(),
        &["models.mlp.path=gone.onnx"],
        &["models.mlp.path", "gone.onnx"],
    );
    check(
        folder.path(),
        &["features.embeddings.version=9"],
        &["version 9", "[1]"],
    );
    let text = std::fs::read_to_string(folder.path().join("millpond.toml")).unwrap();
    std::fs::write(
        folder.path().join("millpond.toml"),
        text.replace("threads = 2", "threads = 2\nthread = 1"),
    )
    .unwrap();
    check(folder.path(), &[], &["millpond.toml", "line 5", "thread"]);
}

#[test]
fn a_port_in_use_is_named() {
    let folder = r1_folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    check(
        folder.path(),
        &[&format!("server.listen={addr}")],
        &[&addr, "server.listen", "another process"],
    );
    check(
        folder.path(),
        &[&format!("admin.listen={addr}")],
        &[&addr, "admin.listen"],
    );
}

#[test]
fn what_is_named_of_the_machine_must_be_there() {
    let folder = r1_folder();
    let refused = |set: &str, words: &[&str]| {
        check(folder.path(), &[set], words);
        let checked = crate::harness::millpond()
            .arg("check-config")
            .arg(folder.path().join("millpond.toml"))
            .args(["--set", set])
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&checked.stderr);
        assert!(!checked.status.success(), "{set} was accepted");
        for word in ["millpond.toml"].iter().chain(words) {
            assert!(stderr.contains(word), "{word:?} is not in:\n{stderr}");
        }
    };
    refused(
        "log.file=logs/x.log",
        &["log.file", "logs/x.log", "is no folder; make it"],
    );
    refused("log.file=tables", &["log.file", "tables", "which is a folder"]);
    for key in ["features.embeddings.overlay.path", "ordered.events.path"] {
        refused(
            &format!("{key}=logs/fresh"),
            &[key, "logs/fresh", "logs is no folder; make it"],
        );
        refused(
            &format!("{key}=millpond.toml"),
            &[
                key,
                "millpond.toml",
                "which is there and is no folder; name another",
            ],
        );
    }
    // One folder by another name, there and not.
    for other in ["./events", "tables/../events", "events"] {
        refused(
            &format!("ordered.other.path={other}"),
            &["ordered.events.path and ordered.other.path are one folder, "],
        );
        if other == "tables/../events" {
            std::fs::create_dir(folder.path().join("events")).unwrap();
        }
    }
    refused(
        "features.embeddings.overlay.path=events",
        &["features.embeddings.overlay.path and ordered.events.path are one folder, "],
    );
    assert!(!folder.path().join("logs").exists(), "nothing is made");
    if Path::new("/sys/devices/system/cpu/online").exists() {
        refused(
            "server.cpus=[0, 60000]",
            &["server.cpus names processor 60000", "this machine has 0"],
        );
    }
    refused(
        "server.listen_also=[\"unix:a.sock\", \"unix:./tables/../a.sock\"]",
        &[
            "server.listen_also[0]",
            "server.listen_also[1]",
            "which are one socket",
        ],
    );
    refused(
        "server.cors_origins=[\"app.example.com\"]",
        &["server.cors_origins[0]", "app.example.com", "it has no scheme"],
    );
}

#[test]
fn damaged_tables_are_refused_before_ready() {
    let folder = r1_folder();
    let file = shard(folder.path());
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    check(
        folder.path(),
        &[],
        &["features.embeddings", "shard-00000.mpf", "restore"],
    );
    let mut flipped = whole.clone();
    let last = flipped.len() - 3;
    flipped[last] ^= 4;
    std::fs::write(&file, &flipped).unwrap();
    check(folder.path(), &[], &["features.embeddings", "shard-00000.mpf"]);
    // Found before the first bind, and by check-config too.
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    assert!(!log.contains("listening"), "{log}");
    let checked = crate::harness::millpond()
        .arg("check-config")
        .arg(folder.path().join("millpond.toml"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&checked.stderr);
    assert!(
        !checked.status.success() && stderr.contains("shard-00000.mpf"),
        "{stderr}"
    );
    std::fs::write(&file, &whole).unwrap();
    drop(Millpond::start(folder.path(), &[]));
}

#[test]
fn models_and_stores_that_cannot_be_opened_are_named() {
    let folder = r1_folder();
    std::fs::write(folder.path().join("mlp.onnx"), b"not a model").unwrap();
    check(folder.path(), &[], &["models.mlp", "mlp.onnx"]);
    let folder = r1_folder();
    std::fs::write(folder.path().join("events"), b"a file where the folder belongs").unwrap();
    check(folder.path(), &[], &["ordered.events", "events"]);
    check(
        folder.path(),
        &["log.file=\"events/x.log\""],
        &["log.file", "x.log"],
    );
}

#[test]
fn a_file_of_torchpipe_is_told_from_a_configuration() {
    let show = |file: &Path| {
        let mut command = crate::harness::millpond();
        let done = command.args(["pipeline", "show"]).arg(file).output().unwrap();
        assert!(!done.status.success());
        String::from_utf8(done.stderr).unwrap()
    };
    let classify = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/torchpipe/classify.toml");
    let told = show(&classify);
    let hint = "classify.toml looks like a file of torchpipe: add --from torchpipe; ";
    assert!(
        told.contains(hint) && told.contains("unknown field `batching_timeout`"),
        "{told}"
    );
    let folder = r1_folder();
    let config = folder.path().join("millpond.toml");
    std::fs::write(&config, "[models.backend]\nbackend = \"onnx\"\n").unwrap();
    let told = show(&config);
    assert!(
        told.contains("backend is \"onnx\"") && !told.contains("torchpipe"),
        "{told}"
    );
}

/// A worker that says why it ends: in the log of a server, and to standard error of a check, which has no log.
#[test]
fn what_a_worker_wrote_before_it_failed_is_where_the_error_says() {
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python3");
    std::fs::write(&python, "#!/bin/sh\necho no weights here\nexit 3\n").unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(folder.path().join("score.py"), "").unwrap();
    let config = folder.path().join("millpond.toml");
    let model = "[models.m]\nbackend = \"python\"\npython = \"./python3\"\nfile = \"score.py\"\nfunction = \"score\"\n\
                 inputs = [\"x: f32[N]\"]\noutputs = [\"y: f32[N]\"]\n";
    std::fs::write(&config, model).unwrap();
    let ended = "its worker process ended (exit status: 3) while it loaded; see what it wrote";
    let refused = |arguments: &[&str]| {
        let mut command = crate::harness::millpond();
        let done = command.args(arguments).arg(&config).output().unwrap();
        assert_eq!(done.status.code(), Some(1));
        String::from_utf8(done.stderr).unwrap()
    };
    let checked = refused(&["check-config"]);
    assert!(checked.contains(": no weights here\n"), "{checked}");
    assert!(
        checked.contains(&format!("{ended} to standard error")),
        "{checked}"
    );
    let log = folder.path().join("a.log");
    let to_log = format!("log.file={log:?}");
    let served = refused(&[
        "serve",
        "--set",
        &to_log,
        "--set",
        "server.listen=127.0.0.1:0",
        "--config",
    ]);
    assert!(served.contains(&format!("{ended} in the log")), "{served}");
    assert!(!served.contains("no weights here"), "{served}");
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("no weights here"), "{log}");
}

#[test]
fn onnx_runtime_is_the_named_one_or_none() {
    let folder = r1_folder();
    let started = Millpond::try_start_in(folder.path(), &[], &[("ORT_DYLIB_PATH", Path::new("/nowhere"))]);
    let Err((status, stderr)) = started else {
        panic!("it started without a library")
    };
    assert_eq!(status.code(), Some(1), "{stderr}");
    let named = "ORT_DYLIB_PATH names /nowhere, which is not there; name ONNX Runtime's shared library";
    assert!(
        stderr.contains("models.mlp") && stderr.contains(named),
        "{stderr}"
    );
    check(
        folder.path(),
        &["onnxruntime.library=mlp.onnx"],
        &["models.mlp", "mlp.onnx is no shared library"],
    );
    check(
        folder.path(),
        &["onnxruntime.library=gone"],
        &["onnxruntime.library names ", "gone, which is not there"],
    );
    check(
        folder.path(),
        &["models.mlp.providers=[\"cuda\", \"cuda\"]"],
        &["models.mlp.providers names \"cuda\" twice"],
    );
}

/// A machine without ONNX Runtime, as far as the system's own folders are without it.
#[test]
fn without_onnx_runtime_the_package_to_install_is_named() {
    let folder = r1_folder();
    let mut command = crate::harness::millpond();
    let nowhere = folder.path().join("nowhere");
    command.env_clear().env("PATH", &nowhere).env("HOME", &nowhere);
    command
        .arg("check-config")
        .arg(folder.path().join("millpond.toml"));
    let found = command.output().unwrap();
    if found.status.success() {
        return eprintln!("the system has ONNX Runtime where every program looks");
    }
    let stderr = String::from_utf8_lossy(&found.stderr);
    let words = "models.mlp: model file";
    let install = "none was found; install it: pip install onnxruntime (onnxruntime-gpu for CUDA), or set onnxruntime.library; looked in: /";
    assert!(stderr.contains(words) && stderr.contains(install), "{stderr}");
    assert_eq!(found.status.code(), Some(1));
}

/// A start fetches the first version; what depends on its columns cannot be checked before.
#[test]
fn a_table_that_is_still_to_be_fetched_is_no_mistake() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("tables/items")).unwrap();
    let config = "[features.items]\npath = \"tables/items\"\nsource = \"file:///nowhere/items\"\n\
                  [features.absent]\npath = \"tables/absent\"\nsource = \"file:///nowhere/absent\"\n\
                  [pipelines.vectors]\nrequest = \"values\"\noutputs = [\"found\"]\n\
                  [[pipelines.vectors.stages]]\nname = \"found\"\nlookup = { table = \"items\", keys = \"inputs.keys\" }\n";
    let file = folder.path().join("millpond.toml");
    let checked = |config: &str| {
        std::fs::write(&file, config).unwrap();
        let mut command = crate::harness::millpond();
        let done = command.arg("check-config").arg(&file).output().unwrap();
        let said = [done.stdout, done.stderr].concat();
        (done.status.success(), String::from_utf8(said).unwrap())
    };
    let (is_good, said) = checked(config);
    assert!(is_good, "{said}");
    for words in [
        "but: features.absent has no version yet, so it was not opened; a start",
        "but: features.items has no version yet, so it was not opened, nor pipelines.vectors; a start",
    ] {
        assert!(said.contains(words), "{words:?} is not in:\n{said}");
    }
    // Without a source nothing will come.
    let (is_good, said) = checked(&config.replace("source = \"file:///nowhere/items\"\n", ""));
    assert!(!is_good && said.contains("millpond features build"), "{said}");
}

#[test]
fn a_store_has_one_server() {
    let folder = r1_folder();
    let _server = Millpond::start(folder.path(), &["log.file=a.log"]);
    check(folder.path(), &["log.file=b.log"], &["ordered.events"]);
}

#[test]
fn models_must_fit_their_pipelines() {
    let folder = r1_folder();
    let wider =
        crate::harness::R1.replace("columns = [\"av\", \"bv\"]", "columns = [\"av\", \"bv\", \"av\"]");
    std::fs::write(folder.path().join("millpond.toml"), wider).unwrap();
    check(folder.path(), &[], &["pipelines.r1", "mlp", "24"]);
}

/// The value of a unit's key.
fn of_unit<'u>(unit: &'u str, key: &str) -> &'u str {
    let mut lines = unit
        .lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    lines.next().unwrap_or_else(|| panic!("the unit lacks {key}"))
}

#[test]
fn the_unit_and_the_image_start_what_the_program_is() {
    let read = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config");
        std::fs::read_to_string(folder.join(name)).unwrap()
    };
    let (unit, image) = (read("millpond.service"), read("Containerfile"));
    let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
    let serve = words(of_unit(&unit, "ExecStart"));
    let config = "/etc/millpond/millpond.toml";
    assert_eq!(serve, ["/usr/local/bin/millpond", "serve", "--config", config]);
    let lines = |start: &str| {
        image
            .lines()
            .filter_map(|line| line.strip_prefix(start))
            .next_back()
    };
    let json = |line: Option<&str>| serde_json::from_str::<Vec<String>>(line.unwrap()).unwrap();
    assert_eq!(json(lines("CMD ")), serve[1..]);
    assert_eq!(json(lines("ENTRYPOINT ")), serve[..1]);
    // What goes before it takes its words as well.
    let folder = r1_folder();
    let before = words(of_unit(&unit, "ExecStartPre"));
    let arguments = before[1..].iter().map(|word| match word.as_str() {
        word if word == config => folder.path().join("millpond.toml").into_os_string(),
        word => word.into(),
    });
    let checked = crate::harness::millpond().args(arguments).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    // The defaults find room in its limits.
    let number = |key: &str| of_unit(&unit, key).parse::<usize>().unwrap();
    let server = millpond_server::config::Config::default().server;
    assert!(number("LimitNOFILE") >= server.connections_max + 64);
    assert!(number("TimeoutStopSec") as u64 * 1000 > server.drain_ms_max + 5000);
}
