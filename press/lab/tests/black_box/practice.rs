//! Against the practice server: every protocol trouble it can make, open loops, searches and runs that are judged.

use millpond_press_lab::{draw, search_until};
use millpond_press_practice::{Arguments, Running, start};
use millpond_press_recorder::ErrorKind;
use millpond_press_report::{LoadKind, Point, read};
use tokio::sync::watch;

use crate::Case;

fn server(words: &[&str]) -> Running {
    let mut all = vec!["--listen", "127.0.0.1:0"];
    all.extend_from_slice(words);
    start(Arguments::from_words(all).unwrap()).unwrap()
}

fn text(address: std::net::SocketAddr, load: &str) -> String {
    format!(
        "[scenario]\nname = \"practice\"\n[target]\nprotocol = \"echo\"\naddress = \"{address}\"\ntimeout_ms = 400\n\
         [requests]\nbytes = 32\n[load]\n{load}\n"
    )
}

fn point(server: &Running, load: &str) -> Point {
    Case::of_text(&text(server.address(), load), &[]).point()
}

fn errors(fault: &str, load: &str) -> Vec<(ErrorKind, u64)> {
    let server = server(&["--fault", fault]);
    point(&server, load).counters.errors.into_iter().collect()
}

#[test]
fn an_echo_is_compared_byte_by_byte() {
    let server = server(&[]);
    let right = point(
        &server,
        "connections = [4]\nin_flight = 16\nrequests_per_connection = 200",
    );
    assert_eq!((right.counters.ok, right.counters.offered()), (800, 800));
    assert_eq!(
        (right.latency.count, right.service.count, right.lateness.count),
        (800, 800, 800)
    );
    let wrong = errors("garbage", "connections = [2]\nrequests_per_connection = 5");
    assert!(wrong.is_empty(), "{wrong:?}");
    let garbage = self::server(&["--fault", "garbage"]);
    let counters = point(&garbage, "connections = [2]\nrequests_per_connection = 5").counters;
    assert_eq!((counters.wrong, counters.ok), (10, 0));
    assert!(
        counters.first["wrong"].contains("of the echo"),
        "{:?}",
        counters.first
    );
}

#[test]
fn every_fault_of_a_server_is_told_from_the_others() {
    let load = "connections = [2]\nrequests_per_connection = 3";
    assert_eq!(errors("hang", load), [(ErrorKind::Timeout, 6)]);
    assert_eq!(errors("reset", load), [(ErrorKind::Reset, 6)]);
    assert_eq!(errors("short", load), [(ErrorKind::Closed, 6)]);
    let twice = errors("twice", load);
    assert!(
        twice.iter().all(|(kind, _)| *kind == ErrorKind::Unexpected) && !twice.is_empty(),
        "{twice:?}"
    );
    let reorder = server(&["--fault", "reorder"]);
    let counters = point(
        &reorder,
        "connections = [1]\nin_flight = 2\nrequests_per_connection = 20",
    )
    .counters;
    assert_eq!((counters.wrong, counters.ok), (20, 0));
    let closing = server(&["--fault", "close-after:2"]);
    let counters = point(&closing, "connections = [1]\nrequests_per_connection = 10").counters;
    assert!(
        counters.connections_opened >= 4 && counters.ok > 0,
        "{counters:?}"
    );
    assert_eq!(counters.offered(), 10);
}

#[test]
fn a_schedule_is_played_whole_whatever_the_answers_do() {
    let server = server(&["--stall", "every:300ms:100ms"]);
    let load =
        "connections = [8]\nrate = [400, 800]\narrivals = \"constant\"\nduration_s = 1.0\nwarmup_s_max = 0.2";
    // No answer is given up because this machine was slow.
    let patient = ["target.timeout_ms=20000"];
    let outcome = Case::of_text(&text(server.address(), load), &patient)
        .run()
        .unwrap();
    let points = &outcome.result.points;
    for (point, rate) in points.iter().zip([400, 800]) {
        assert_eq!(point.offered.kind, LoadKind::Open);
        // On a machine that is busy with other things the last may find no moment to be sent in; they are counted.
        let counters = &point.counters;
        let told = counters.ok + counters.not_sent;
        assert_eq!((told, counters.offered()), (rate, rate), "{counters:?}");
        assert_eq!(point.offered.rate, Some(rate as f64));
        // A stall of a hundred milliseconds meets requests at its beginning, whatever else happens.
        assert!(point.latency.us_max.unwrap() >= 50_000.0);
    }
    assert_eq!(points[0].counters.connections_opened, 8);
    assert_eq!(
        points[1].counters.connections_opened, 0,
        "a step opens no connection"
    );
}

#[test]
fn an_outage_shorter_than_a_second_is_told() {
    let server = server(&["--stall", "every:1500ms:900ms"]);
    let load = "connections = [4]\nrate = [500]\narrivals = \"constant\"\nduration_s = 2.6\nwarmup_s_max = 0";
    let patient = ["target.timeout_ms=20000"];
    let point = Case::of_text(&text(server.address(), load), &patient).point();
    // A ninth of it is enough to be told, whatever else this machine does.
    assert!(point.us_silent_max >= 100_000, "{}", point.us_silent_max);
    let verdict = &point.verdict;
    let told = [&verdict.sentence].into_iter().chain(&verdict.evidence);
    assert!(
        told.map(|line| line.matches("no answer came").count())
            .sum::<usize>()
            > 0,
        "{verdict:?}"
    );
}

#[test]
fn bursts_that_miss_their_rate_are_told() {
    let server = server(&[]);
    let load = "connections = [2]\nrate = [1000]\narrivals = { bursts = { size = 800 } }\nduration_s = 1.0\n\
                warmup_s_max = 0";
    let point = point(&server, load);
    assert_eq!(point.counters.offered(), 1_600, "{:?}", point.counters);
    let said = &point.verdict.sentence;
    assert!(
        said.contains("offered 1600/s, 60 % more than the 1000/s asked: with bursts of 800"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_sent_in_time_is_counted_and_never_silent() {
    let server = server(&["--rate", "50"]);
    let load = "connections = [1]\nin_flight = 4\nrate = [500]\nduration_s = 1.0\nwarmup_s_max = 0";
    let point = point(&server, load);
    let counters = &point.counters;
    assert!(counters.not_sent + counters.failed_total() > 200, "{counters:?}");
    assert!(!point.verdict.sentence.is_empty());
}

#[test]
fn a_server_that_restarts_in_the_middle_is_found_again() {
    let first = server(&[]);
    let address = first.address();
    let load = "connections = [4]\nrate = [200]\nduration_s = 2.0\nwarmup_s_max = 0";
    let case = Case::of_text(&text(address, load), &[]);
    let options = case.options.clone();
    let run = std::thread::spawn(move || {
        let (_stop, seen) = watch::channel(false);
        millpond_press_lab::run_until(options, seen).unwrap()
    });
    std::thread::sleep(std::time::Duration::from_millis(500));
    drop(first);
    std::thread::sleep(std::time::Duration::from_millis(200));
    let listen = address.to_string();
    let second = start(Arguments::from_words(["--listen", &listen]).unwrap()).unwrap();
    let outcome = run.join().unwrap();
    drop(second);
    let counters = &outcome.result.points[0].counters;
    assert!(counters.connections_opened > 4, "{counters:?}");
    let offered = counters.offered();
    assert!(counters.ok > offered / 2, "{counters:?}");
    assert_eq!(counters.ok + counters.failed_total() + counters.not_sent, offered);
}

#[test]
fn an_slo_decides_the_exit_code() {
    let server = server(&["--delay", "constant:20ms"]);
    let load = "connections = [4]\nrequests_per_connection = 30";
    let run = |slo: &str| {
        let text = format!("slo = \"{slo}\"\n{}", text(server.address(), load));
        Case::of_text(&text, &[]).run().unwrap()
    };
    let missed = run("p50 < 1ms");
    // A machine that is too busy with other tests is no reason to blame the server.
    assert!(matches!(missed.exit_code, 1 | 3), "{}", missed.exit_code);
    let outcome = missed.result.points[0].slo.clone().unwrap();
    assert!(
        !outcome.met && outcome.failures[0].contains("p50 < 1ms"),
        "{outcome:?}"
    );
    assert!(
        run("p50 >= 20ms, errors <= 0").result.points[0]
            .slo
            .clone()
            .unwrap()
            .met
    );
}

#[test]
fn a_search_ends_with_an_interval_around_what_the_server_can() {
    let server = server(&["--rate", "1000"]);
    let search = "rate_start = 300\npoint_s = 0.6\nresolution = 0.2\nrepeats = 1\nrate_max = 4000\n";
    let head = "slo = \"p50 < 60ms, errors < 1%\"\n";
    let load = "connections = [16]\nduration_s = 1";
    let text = format!("{head}{}[search]\n{search}", text(server.address(), load));
    let case = Case::of_text(&text, &[]);
    let (_stop, seen) = watch::channel(false);
    let outcome = search_until(case.options.clone(), seen).unwrap();
    let found = outcome.result.search.unwrap();
    assert!(
        found.rate_met.is_some() && found.rate_missed.is_some(),
        "{found:?}"
    );
    assert!(found.rate_met < found.rate_missed && found.rate_missed <= Some(4_000.0));
    assert_eq!(found.tried.len(), outcome.result.points.len());
    // 3: this machine was too busy to believe it.
    assert!(matches!(outcome.exit_code, 0 | 3), "{}", outcome.exit_code);
}

#[test]
fn reports_are_drawn_from_folders_alone() {
    let server = server(&[]);
    let case = Case::of_text(
        &text(
            server.address(),
            "connections = [1, 2]\nrequests_per_connection = 20",
        ),
        &[],
    );
    case.run().unwrap();
    let folder = case.out();
    for name in ["report.html", "report.md", "points.csv", "series.csv"] {
        std::fs::remove_file(folder.join(name)).unwrap();
    }
    let drawn = draw(
        &[folder.clone(), folder.clone()],
        Some(&case.dir.path().join("page.html")),
    )
    .unwrap();
    assert!(std::fs::read_to_string(&drawn.page).unwrap().contains("<svg"));
    assert!(folder.join("points.csv").exists() && drawn.markdown.contains("Verdicts"));
    assert_eq!(read(&folder).unwrap().points.len(), 2);
    let absent = draw(&[case.dir.path().join("absent")], None).unwrap_err();
    assert_eq!(absent.exit_code(), 2, "{absent}");
}

#[test]
fn a_store_is_filled_and_its_answers_are_known() {
    let scenario = "[scenario]\nname = \"ordered\"\n[keys]\ncount = 300\npopularity = { zipf = 0.99 }\n\
         [[targets]]\nname = \"in process\"\nprotocol = \"ordered\"\n\
         operations = [{ name = \"get\", weight = 9, command = \"get {key}\" }, \
                       { name = \"put\", weight = 1, writes = true, command = \"put {key} {value}\" }]\n\
         fill = { command = \"put {key} {value}\" }\n\
         [load]\nconnections = [1]\nrequests_per_connection = 500\n";
    let outcome = Case::of_text(scenario, &[]).run().unwrap();
    let point = &outcome.result.points[0];
    assert_eq!(
        (point.counters.ok, outcome.exit_code),
        (500, 0),
        "{:?}",
        point.counters
    );
    let answers: Vec<u64> = point
        .operations
        .iter()
        .map(|operation| operation.answers)
        .collect();
    assert!(
        answers[0] > answers[1] && answers[1] > 0 && answers[0] + answers[1] == 500,
        "{answers:?}"
    );
    let unfilled = Case::of_text(
        scenario,
        &["targets=[{ name = \"x\", protocol = \"ordered\", operations = [{ command = \"get {key}\" }] }]"],
    );
    assert_eq!(
        unfilled.run().unwrap().result.points[0].counters.failed_total(),
        500
    );
}

#[test]
fn a_run_that_cannot_be_made_says_why() {
    let server = server(&[]);
    let (_stop, seen) = watch::channel(false);
    let without = text(server.address(), "connections = [1]\nduration_s = 1");
    let case = Case::of_text(&without, &[]);
    let error = search_until(case.options.clone(), seen).unwrap_err();
    assert!(
        error.exit_code() == 2 && error.to_string().contains("needs an `slo`"),
        "{error}"
    );
}
