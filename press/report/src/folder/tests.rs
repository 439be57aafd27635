//! What is written is read back; what is damaged is refused in words; what is not ours stays.

#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use crate::{Point, Second, Server, State, sample};

fn run() -> RunResult {
    let mut point = Point {
        number: 1,
        qps: 12.25,
        ..Point::default()
    };
    point.grid.insert("log_level".into(), "2".into());
    point.counters.ok = 7;
    point.counters.refused.insert(30_101, 3);
    point
        .counters
        .errors
        .insert(millpond_press_recorder::ErrorKind::Unexpected, 2);
    point.latency.us_p50 = Some(81.5);
    point.server = Some(Server {
        pid: Some(9),
        version: None,
        build: Some("dev".into()),
        providers: Vec::new(),
    });
    point.series.push(Second {
        s: 1.0,
        answers: 7,
        ..Second::default()
    });
    RunResult {
        schema: SCHEMA,
        state: State::Complete,
        points: vec![point],
        ..RunResult::default()
    }
}

#[test]
fn what_is_saved_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("a/b");
    let folder = Folder::create(&out, false).unwrap();
    for run in [run(), sample::run()] {
        folder.save(&run).unwrap();
        folder.draw(&run).unwrap();
        assert_eq!(read(&out).unwrap(), run);
        let text = |name: &str| fs::read_to_string(out.join(name)).unwrap();
        assert_eq!(text("report.md"), report(&run));
        assert_eq!(text("points.csv"), points_csv(&run));
        assert_eq!(text("series.csv"), series_csv(&run));
        assert_eq!(text("report.html"), html(&[run]));
    }
    let r3 = RunResult {
        layout: Layout::R3,
        ..sample::run()
    };
    folder.draw(&r3).unwrap();
    let drawn = fs::read_to_string(out.join("controller.csv")).unwrap();
    assert_eq!(drawn, controller_csv(&r3));
    let mut names = entries(&out).unwrap();
    names.sort();
    assert_eq!(
        names,
        [
            "controller.csv",
            "points.csv",
            "report.html",
            "report.md",
            "result.json",
            "series.csv"
        ]
    );
}

#[test]
fn a_folder_in_use_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("mine.txt"), "precious").unwrap();
    let said = Folder::create(dir.path(), false)
        .expect_err("refused")
        .to_string();
    assert!(said.contains("is not empty"), "{said}");
    let said = Folder::create(dir.path(), true).expect_err("refused").to_string();
    assert!(said.contains("holds no result.json"), "{said}");
    assert!(dir.path().join("mine.txt").exists());
    let file = dir.path().join("mine.txt");
    let said = Folder::create(&file, true).expect_err("refused").to_string();
    assert!(said.contains("in the way"), "{said}");
}

#[test]
fn force_replaces_an_earlier_result_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::create(dir.path(), false).unwrap();
    folder.save(&run()).unwrap();
    for ours in [
        "latency-0001.csv",
        "latency-0001.hlog",
        "refused-12345.csv",
        "server-2.log",
        "scenario.toml",
    ] {
        folder.write(ours, b"x\n").unwrap();
    }
    fs::write(dir.path().join(".report.html.partial"), "half").unwrap();
    let theirs = [".notes.partial", "latency-mine.csv", "notes.txt"];
    for name in theirs {
        fs::write(dir.path().join(name), "precious").unwrap();
    }
    assert!(Folder::create(dir.path(), false).is_err());
    Folder::create(dir.path(), true).unwrap();
    let mut left = entries(dir.path()).unwrap();
    left.sort();
    assert_eq!(left, theirs);
}

#[test]
fn a_strange_result_is_refused_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let said = |text: &str| {
        fs::write(dir.path().join("result.json"), text).unwrap();
        read(dir.path()).expect_err("refused").to_string()
    };
    assert!(said("{").contains("cut off after 1 bytes"));
    assert!(said("").contains("cut off after 0 bytes"));
    assert!(said("{}").contains("names no schema"));
    assert!(said("[2]").contains("names no schema"));
    assert!(said(r#"{"schema":9}"#).contains("schema 9, made by a newer version; update millpond"));
    assert!(said(r#"{"schema":1,"points":[]}"#).contains("schema 1, made by an older version"));
    assert!(
        said(r#"{"schema":2}"#).contains("schema 2, made by an older version; this one reads schemas 3 to 4")
    );
    assert!(said(r#"{"schema":3}"#).contains("missing field"));

    assert!(said(&"[".repeat(100_000)).contains("recursion limit"));
    let absent = read(&dir.path().join("absent")).expect_err("refused").to_string();
    assert!(
        absent.contains("cannot read") && absent.contains("no such file"),
        "{absent}"
    );
    let file = read(&dir.path().join("result.json"))
        .expect_err("refused")
        .to_string();
    assert!(file.contains("give the folder of a press run"), "{file}");
}

#[test]
fn a_result_cut_anywhere_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut small = sample::run();
    small.points.truncate(2);
    let mut json = serde_json::to_vec_pretty(&small).unwrap();
    let path = dir.path().join("result.json");
    fs::write(&path, &json).unwrap();
    assert!(read(dir.path()).is_ok());
    while json.len() > 50 {
        json.truncate((json.len() - 1) / 50 * 50);
        fs::write(&path, &json).unwrap();
        let said = read(dir.path()).expect_err("refused").to_string();
        assert!(said.contains("cut off after"), "{} bytes: {said}", json.len());
    }
}

#[test]
fn a_run_that_has_not_ended_is_read_and_its_report_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::create(dir.path(), false).unwrap();
    for (state, words) in [
        (State::Running, "has not ended"),
        (State::Interrupted, "was interrupted"),
        (State::Failed, "failed"),
    ] {
        let run = RunResult { state, ..run() };
        folder.save(&run).unwrap();
        let read = read(dir.path()).unwrap();
        assert!(report(&read).contains(words) && html(&[read]).contains(words));
    }
}

#[test]
fn a_result_of_the_schema_before_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut value = serde_json::to_value(sample::run()).unwrap();
    value["schema"] = 3.into();
    let without = |value: &mut serde_json::Value, key: &str| {
        assert!(value.as_object_mut().unwrap().remove(key).is_some(), "{key}");
    };
    for point in value["points"].as_array_mut().unwrap() {
        without(&mut point["counters"], "connections_down");
        without(&mut point["counters"], "not_sent_lost");
        without(&mut point["warm_up"], "failed");
    }
    for comparison in value["comparisons"].as_array_mut().unwrap() {
        without(comparison, "left_out");
    }
    fs::write(dir.path().join("result.json"), value.to_string()).unwrap();
    let read = read(dir.path()).unwrap();
    assert_eq!(read.points.len(), sample::run().points.len());
    assert!(report(&read).contains("Verdicts") && html(&[read]).contains("<svg"));
}
