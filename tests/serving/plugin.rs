//! Plugins behind the real server: the example's answers in this process and in another one, crashes and hangs as callers see them, and
//! the ends of workers.

use crate::harness::{Http, Millpond};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A folder with a configuration of these models, and the plugins that they name: `dnn.so`, the example, and `faulty.so`, that of the
/// backend's tests.
fn folder(models: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nfile = \"millpond.log\"\n{models}"
    );
    std::fs::write(folder.path().join("millpond.toml"), text).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (name, source) in [
        ("dnn.so", "examples/plugin/dnn.c"),
        ("faulty.so", "backends/plugin/tests/faulty.c"),
    ] {
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-shared", "-fPIC", "-I"]);
        compiler.arg(root.join("backends/plugin/include"));
        compiler.arg("-o").arg(folder.path().join(name));
        compiler.arg(root.join(source)).arg("-lm");
        assert!(compiler.status().unwrap().success(), "{compiler:?}");
    }
    folder
}

/// A call of the faulty plugin with that word.
fn call(http: &mut Http, word: &str, deadline_ms: u64) -> (u16, Value) {
    let text = json!({"shape": [1], "type": "bytes", "data": [word]});
    let x = json!({"shape": [1, 2], "type": "f32", "data": [1, 2]});
    http.call(
        "infer",
        &json!({"inputs": {"text": text, "x": x}, "_deadline_ms": deadline_ms}),
    )
}

fn assert_good(answer: &(u16, Value)) {
    let (status, answer) = answer;
    let outputs = &answer["outputs"];
    let found = (*status, &outputs["y"]["data"], &outputs["echo"]["data"]);
    assert_eq!(found, (200, &json!([3.0]), &json!(["x"])), "{answer}");
}

/// The problem of a call whose model failed.
fn problem((status, answer): (u16, Value)) -> String {
    assert_eq!((status, answer["code"].as_u64()), (500, Some(30108)), "{answer}");
    answer["ex"].as_str().unwrap().to_owned()
}

fn log(folder: &tempfile::TempDir) -> String {
    std::fs::read_to_string(folder.path().join("millpond.log")).unwrap()
}

/// Waits until the log has it.
pub(super) fn wait_for_log(folder: &tempfile::TempDir, words: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    while !log(folder).contains(words) {
        assert!(Instant::now() < until, "{words} is not in\n{}", log(folder));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_example_answers_the_same_in_either_process() {
    let folder = folder(
        "[models.here]\nbackend = \"plugin\"\npath = \"dnn.so\"\noptions = { buckets = 100, dim = 4 }\n\
         [models.apart]\nbackend = \"plugin\"\npath = \"dnn.so\"\noptions = { buckets = 100, dim = 4 }\nisolate = true\ninstances = 2\n",
    );
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    let mut scores = |model: &str, users: &[&str], items: &[&str]| {
        let column = |data: &[&str]| json!({"shape": [data.len()], "type": "bytes", "data": data});
        let inputs = json!({"user": column(users), "item": column(items)});
        let (status, answer) = http.call("infer", &json!({"model": model, "inputs": inputs}));
        assert_eq!(status, 200, "{answer}");
        answer["outputs"]["score"].clone()
    };
    let (users, items) = (["u1", "", "ü", "u1"], ["i1", "i2", "", "i1"]);
    let here = scores("here", &users, &items);
    assert_eq!(here["shape"], json!([4, 1]));
    assert_eq!(here["data"][0], here["data"][3]);
    assert_ne!(here["data"][0], here["data"][1]);
    assert_eq!(here, scores("apart", &users, &items));
}

#[test]
fn a_crash_in_a_worker_is_one_failed_call() {
    let folder = folder("[models.m]\nbackend = \"plugin\"\npath = \"faulty.so\"\nisolate = true\n");
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    assert_good(&call(&mut http, "x", 60_000));
    let crashed = problem(call(&mut http, "crash", 60_000));
    assert!(
        crashed.contains("its worker process ended (signal: 11 (SIGSEGV)"),
        "{crashed}"
    );
    assert_good(&call(&mut http, "x", 60_000));
    let lied = problem(call(&mut http, "shape", 60_000));
    assert!(lied.contains("output `y` has shape [2, 1]"), "{lied}");
    let hung = problem(call(&mut http, "hang", 200));
    assert!(
        hung.contains("its worker process hung: it was ended after"),
        "{hung}"
    );
    assert_good(&call(&mut http, "x", 60_000));
    assert_good(&{
        let (status, mut answer) = call(&mut http, "print", 60_000);
        answer["outputs"]["echo"]["data"] = json!(["x"]);
        (status, answer)
    });
    for (cause, count) in [
        ("crash", 1),
        ("hang", 1),
        ("output", 0),
        ("backend", 1),
        ("panic", 0),
    ] {
        let failed = format!("failed_total{{model=\"m\",version=\"1\",cause=\"{cause}\"}} {count}");
        server.wait_for_metric(&format!("millpond_model_{failed}"));
    }
    server.wait_for_metric("millpond_model_worker_restarts_total{model=\"m\",version=\"1\"} 2");
    wait_for_log(&folder, "line 7 of a chatty plugin");
    wait_for_log(&folder, "SIGSEGV");
    // 300 lines at once are too many for the log.
    assert!(!log(&folder).contains("line 290 of a chatty plugin"));
    assert!(server.terminate().success());
}

#[test]
fn a_plugin_that_lies_in_this_process_fails_its_call() {
    let folder = folder("[models.m]\nbackend = \"plugin\"\npath = \"faulty.so\"\n");
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    for (word, words) in [
        ("shape", "model `m` failed: output `y` has shape [2, 1]"),
        ("null", "model `m` failed: output `y` has a null pointer"),
        ("fail", "model `m` failed: it was told to"),
        ("nan", "output `y` is NaN at element 0"),
    ] {
        let failed = problem(call(&mut http, word, 60_000));
        assert!(failed.contains(words), "{failed}");
        assert_good(&call(&mut http, "x", 60_000));
    }
}

#[test]
fn a_plugin_that_does_not_load_is_named_by_file_and_reason() {
    let folder = folder("[models.m]\nbackend = \"plugin\"\npath = \"faulty.so\"\noptions.fault = \"type\"\n");
    for set in [&[][..], &["models.m.isolate=true"]] {
        let (status, said) = Millpond::try_start(folder.path(), set).err().unwrap();
        assert_eq!(status.code(), Some(1));
        let expected = "faulty.so: output 0 `y` has the unknown type 77; ";
        assert!(said.contains("models.m") && said.contains(expected), "{said}");
    }
    let (_, said) = Millpond::try_start(
        folder.path(),
        &["models.m.isolate=true", "models.m.options.fault=\"init-crash\""],
    )
    .err()
    .unwrap();
    assert!(said.contains("signal: 11 (SIGSEGV)"), "{said}");
}

/// The workers that this server has.
fn workers_of(server: &Millpond) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap();
    let children =
        tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).ok());
    let children: Vec<String> = children
        .flat_map(|pids| pids.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let is_worker = |pid: &String| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
        line.is_ok_and(|line| line.contains("plugin-worker"))
    };
    children.into_iter().filter(is_worker).collect()
}

#[test]
fn workers_end_with_their_server_even_in_a_run_that_hangs() {
    let folder = folder(
        "[models.m]\nbackend = \"plugin\"\npath = \"faulty.so\"\nisolate = true\ninstances = 2\nrun_ms_max = 3600000\n",
    );
    let mut server = Millpond::start(folder.path(), &[]);
    let workers = workers_of(&server);
    assert_eq!(workers.len(), 2, "{workers:?}");
    let addr = server.addr.clone();
    let hangs = std::thread::spawn(move || {
        let mut http = Http::connect(&addr);
        let text = json!({"shape": [1], "type": "bytes", "data": ["hang"]});
        let x = json!({"shape": [1, 2], "type": "f32", "data": [1, 2]});
        let payload = json!({"inputs": {"text": text, "x": x}, "_deadline_ms": 3_600_000}).to_string();
        use std::io::Write as _;
        let request = format!(
            "POST /service/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{payload}",
            payload.len()
        );
        http.stream.write_all(request.as_bytes()).unwrap();
        assert_eq!(http.answer(), None);
    });
    // A worker that is in the run says so by what it does: the other one answers meanwhile.
    server.wait_for("millpond_in_flight", |calls| calls == 1);
    let mut http = Http::connect(&server.addr);
    assert_good(&call(&mut http, "x", 60_000));
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    hangs.join().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let is_there = |pid: &&String| {
        // One that waits for its parent to read its end has no command line any more.
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
    };
    while workers.iter().any(|pid| is_there(&pid)) {
        assert!(Instant::now() < until, "{workers:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_signal_for_the_whole_group_of_a_service_does_not_end_workers_first() {
    let folder = folder("[models.m]\nbackend = \"plugin\"\npath = \"faulty.so\"\nisolate = true\n");
    let server = Millpond::start(folder.path(), &[]);
    let mut http = Http::connect(&server.addr);
    let workers = workers_of(&server);
    for pid in &workers {
        let status = Command::new("kill").args(["-TERM", pid]).status().unwrap();
        assert!(status.success());
    }
    assert_good(&call(&mut http, "x", 60_000));
    assert_eq!(workers_of(&server), workers);
    // A worker that the system ends between two calls costs none of them.
    for pid in &workers {
        let status = Command::new("kill").args(["-KILL", pid]).status().unwrap();
        assert!(status.success());
    }
    let until = Instant::now() + Duration::from_secs(60);
    let has_ended = |pid: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.map_or(true, |stat| stat.contains(") Z "))
    };
    while !workers.iter().all(has_ended) {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_good(&call(&mut http, "x", 60_000));
    assert_ne!(workers_of(&server), workers);
}
