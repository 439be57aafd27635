//! Plugins in worker processes: the same answers, and crashes and hangs that are the failure of one run. This program is its own worker.
#![allow(clippy::unwrap_used, missing_docs)]

mod built;

use built::{Built, faulty, inputs, outputs};
use millpond_backends_interface::{Backend as _, Error, Instance, Loss, Model};
use millpond_backends_plugin::{Plugin, serve_worker};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Set in worker processes.
const WORKER: &str = "MILLPOND_PLUGIN_TEST_WORKER";

/// Not a test: the worker. A test program has no main function of its own, so workers run it as the one test of their process.
#[test]
fn worker() {
    if std::env::var_os(WORKER).is_some() {
        serve_worker().unwrap();
    }
}

/// A section whose workers are this program.
fn isolated(built: &Built, keys: &str) -> Plugin {
    let this = std::env::current_exe().unwrap().into_os_string();
    let variable = OsString::from(format!("{WORKER}=1"));
    let arguments = ["worker", "--exact", "--nocapture"].map(OsString::from);
    let program = [OsString::from("env"), variable, this];
    Plugin {
        worker: program.into_iter().chain(arguments).collect(),
        ..built.section(&format!("isolate = true\n{keys}"))
    }
}

fn loaded(built: &Built, keys: &str) -> (Arc<dyn Model>, Box<dyn Instance>) {
    let model = isolated(built, keys).load().unwrap();
    let instance = model.instance().unwrap();
    (model, instance)
}

/// The children of this process that are workers; other tests' too, so tests that count them run in a process of their own.
fn children() -> Vec<String> {
    let mut found = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path().join("children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        found.extend(text.split_whitespace().map(str::to_owned));
    }
    found
}

#[test]
fn a_plugin_gives_the_same_in_another_process() {
    let built = faulty();
    let (model, mut instance) = loaded(&built, "");
    assert!(!model.runs_inline());
    assert_eq!(*model.signature(), *built.section("").load().unwrap().signature());
    for words in [&["a", "", "bcd"][..], &["x"], &[""]] {
        assert_eq!(instance.run(inputs(words)).unwrap(), outputs(words));
    }
    // More than the first memories hold, both ways, and little again.
    let long = "long".repeat(50_000);
    let words = vec![long.as_str(); 8];
    assert_eq!(instance.run(inputs(&words)).unwrap(), outputs(&words));
    assert_eq!(instance.run(inputs(&["x"])).unwrap(), outputs(&["x"]));
    let failed = instance.run(inputs(&["shape"])).unwrap_err().to_string();
    assert!(failed.contains("output `y` has shape [2, 1]"), "{failed}");
    let failed = instance.run(inputs(&["fail"])).unwrap_err().to_string();
    assert_eq!(failed, "the model failed: it was told to");
    assert_eq!(instance.run(inputs(&["x"])).unwrap(), outputs(&["x"]));
}

#[test]
fn a_crash_fails_its_run_and_the_next_one_has_another_worker() {
    let built = faulty();
    let (_model, mut instance) = loaded(&built, "");
    let (_other, mut beside) = loaded(&built, "");
    for (word, words) in [
        ("crash", "its worker process ended (signal: 11 (SIGSEGV)"),
        ("exit", "its worker process ended (exit status: 3)"),
        ("crash", "its worker process ended (signal: 11"),
    ] {
        let failed = instance.run(inputs(&[word])).unwrap_err().to_string();
        assert!(
            failed.contains(words) && failed.contains("it is started again"),
            "{failed}"
        );
        assert_eq!(beside.run(inputs(&["b"])).unwrap(), outputs(&["b"]));
        assert_eq!(instance.run(inputs(&["x"])).unwrap(), outputs(&["x"]));
    }
}

#[test]
fn a_worker_that_crashes_each_time_is_started_ever_more_slowly() {
    let built = faulty();
    let (_model, mut instance) = loaded(&built, "");
    let now = |ms| Some(Instant::now() + Duration::from_millis(ms));
    let mut crashes = 0;
    let refused = loop {
        // A minute is longer than the first waits, so the run waits for the worker.
        let failed = instance.run_by(inputs(&["crash"]), now(60_000));
        assert!(failed.unwrap_err().to_string().contains("SIGSEGV"));
        crashes += 1;
        if crashes == 4 {
            break instance.run_by(inputs(&["x"]), now(0)).unwrap_err();
        }
    };
    let Error::Lost { loss, problem } = refused else {
        panic!("{refused}");
    };
    assert!(
        problem.contains("its worker process has failed 4 times in a row and is started again in"),
        "{problem}"
    );
    assert_eq!(loss, Loss::Absent);
    assert_eq!(instance.run(inputs(&["x"])).unwrap(), outputs(&["x"]));
}

#[test]
fn a_hang_is_ended_at_its_bound_or_its_deadline() {
    let built = faulty();
    let (_model, mut instance) = loaded(&built, "run_ms_max = 300");
    let failed = instance.run(inputs(&["hang"])).unwrap_err().to_string();
    assert!(
        failed.contains("its worker process hung: it was ended after"),
        "{failed}"
    );
    assert_eq!(instance.run(inputs(&["x"])).unwrap(), outputs(&["x"]));

    // Without the deadline this one would take an hour.
    let (_model, mut instance) = loaded(&built, "run_ms_max = 3600000");
    let deadline = Some(Instant::now() + Duration::from_millis(20));
    let failed = instance
        .run_by(inputs(&["hang"]), deadline)
        .unwrap_err()
        .to_string();
    assert!(
        failed.contains("its worker process hung: it was ended after"),
        "{failed}"
    );
    assert_eq!(instance.run(inputs(&["x"])).unwrap(), outputs(&["x"]));
}

#[test]
fn a_plugin_that_does_not_load_says_why() {
    let built = faulty();
    let check = |keys: &str, words: &str| {
        let refused = isolated(&built, keys).load().err().unwrap().to_string();
        assert!(
            refused.contains(words) && refused.contains("plugin.so"),
            "{refused}"
        );
    };
    check("options.fault = \"init\"", "it was told to fail in /");
    check("options.fault = \"type\"", "output 0 `y` has the unknown type 77");
    check("options.fault = \"create\"", "create returned 4");
    check(
        "options.fault = \"init-crash\"",
        "its worker process ended (signal: 11 (SIGSEGV)",
    );
    check(
        "options.fault = \"init-hang\"\nstart_ms_max = 300",
        "it had not loaded after 300 ms; see what it wrote to standard error, or raise start_ms_max",
    );
    let nowhere = Plugin {
        worker: vec!["/nowhere/worker".into()],
        ..isolated(&built, "")
    };
    let refused = nowhere.load().err().unwrap().to_string();
    assert!(
        refused.contains("its worker process cannot be started: No such file"),
        "{refused}"
    );
    let silent = Plugin {
        worker: vec!["true".into()],
        ..isolated(&built, "")
    };
    let refused = silent.load().err().unwrap().to_string();
    assert!(
        refused.contains("its worker process ended (exit status: 0)"),
        "{refused}"
    );
}

/// Set in the process of [`alone`].
const ALONE: &str = "MILLPOND_PLUGIN_TEST_ALONE";

/// What the test below runs as a process of its own, because it counts what a process has.
#[test]
fn alone() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let built = faulty();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let (model, mut instance) = loaded(&built, "");
    assert_eq!(instance.run(inputs(&["x"])).unwrap(), outputs(&["x"]));
    let before = descriptors();
    assert_eq!(children().len(), 1);
    for _ in 0..20 {
        assert!(instance.run(inputs(&["crash"])).is_err());
        assert!(instance.run(inputs(&["x"])).is_ok());
        assert_eq!(children().len(), 1);
    }
    let no_more_than_before = |allowed: usize| {
        // The thread that reads a worker's log lets go of its pipe a moment later.
        let until = Instant::now() + Duration::from_secs(60);
        while descriptors() > allowed {
            assert!(
                Instant::now() < until,
                "{} descriptors, before {allowed}",
                descriptors()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    no_more_than_before(before);
    drop((model, instance));
    assert_eq!(children().len(), 0);
    assert!(isolated(&built, "options.fault = \"init-crash\"").load().is_err());
    assert_eq!(children().len(), 0);
}

#[test]
fn neither_descriptors_nor_processes_are_left_behind() {
    let mut test = std::process::Command::new(std::env::current_exe().unwrap());
    test.args(["alone", "--exact", "--nocapture", "--test-threads=1"]);
    let done = test.env(ALONE, "1").output().unwrap();
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_bound_on_memory_is_the_processs_own() {
    let built = faulty();
    let (_model, mut instance) = loaded(&built, "memory_bytes_max = 268435456");
    assert_eq!(instance.run(inputs(&["x"])).unwrap(), outputs(&["x"]));
    let limits = children().into_iter().filter_map(|pid| {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        let line = limits.lines().find(|line| line.starts_with("Max data size"))?;
        line.split_whitespace().nth(3).map(str::to_owned)
    });
    let limits: Vec<String> = limits.collect();
    assert!(limits.contains(&"268435456".to_owned()), "{limits:?}");
    for _ in 0..2 {
        let failed = instance.run(inputs(&["leak"])).unwrap_err().to_string();
        assert!(
            failed.contains("its worker process ended (signal: 6 (SIGABRT)"),
            "{failed}"
        );
        assert_eq!(instance.run(inputs(&["x"])).unwrap(), outputs(&["x"]));
    }
}
