//! Batches of an ordered store in this process, as report R5's, with antagonists and without.

use millpond_press_recorder::Interference;

use crate::Case;

const STORE: &str = r#"
[scenario]
name = "store"
layout = "r5"
repeats = 2

[keys]
count = 300
value_bytes = 24

[requests]
count = 40

[load]
connections = [1]
rate = [300]
arrivals = "poisson"
requests_times_rate = 0.1
warmup_s_max = 0

[[targets]]
name = "store"
protocol = "ordered"
operations = [{ name = "batch", command = "batch {repeat 16}get {key:022}{or}put {key:022} {value}{end}" }]
fill = { command = "batch {repeat 250}put {key:022} {value}{end}" }

[targets.antagonists]
command = ["sleep", "1000"]
cpus = [0]
install = "apt install no-such-package"
"#;

#[test]
fn a_number_of_batches_is_offered_beside_antagonists_and_without() {
    let outcome = Case::of_text(STORE, &[]).run().unwrap();
    let points = &outcome.result.points;
    let disturbed: Vec<bool> = points
        .iter()
        .map(|point| point.offered.antagonists.is_some())
        .collect();
    assert_eq!(disturbed, [false, true, true, false], "they take turns");
    for point in points {
        let counters = &point.counters;
        assert_eq!((point.offered.requests, counters.offered()), (Some(30), 30));
        assert_eq!(counters.not_sent, 0, "a number of requests is sent whole");
        assert!(
            counters.answers() > 0 && counters.failed_total() == 0,
            "{:?}",
            counters.first
        );
        let Some(antagonists) = &point.offered.antagonists else {
            assert_eq!(point.antagonists_cpu, None);
            continue;
        };
        assert!(point.antagonists_cpu.is_some());
        assert_eq!(
            (antagonists.command.as_str(), &antagonists.cores[..]),
            ("sleep 1000", &[0][..])
        );
        assert_eq!(
            antagonists.interference,
            Interference::CpuContention,
            "the calls may run on any core"
        );
        assert!(
            point
                .verdict
                .sentence
                .contains("ran on core 0, and it on any core: CPU contention")
        );
    }
    let checked = &outcome.result.requests[0].check;
    assert!(
        checked.contains("every value is the one that was written"),
        "{checked}"
    );
    assert!(
        outcome.markdown.contains("1 antagonist: CPU contention"),
        "{}",
        outcome.markdown
    );
    assert!(outcome.markdown.contains("What the report could not explain"));
}

/// A rate that no core answers: what waits at the end of the schedule is sent all the same, and its wait is in the figures.
#[test]
fn an_overload_is_sent_whole_with_its_backlog() {
    let set = [
        "scenario.repeats=1",
        "targets.0.antagonists.command=[\"no-such-program-here\"]",
        "load.rate=[5000000]",
        "load.requests_times_rate=0.002",
    ];
    let outcome = Case::of_text(STORE, &set).run().unwrap();
    let point = &outcome.result.points[0];
    let counters = &point.counters;
    assert_eq!(
        (counters.not_sent, counters.answers()),
        (0, 10_000),
        "{counters:?}"
    );
    let (longest, whole) = (point.latency.us_max.unwrap(), point.us_total as f64);
    assert!(
        longest > 0.5 * whole,
        "the last one waited for all before it: {longest} of {whole} us"
    );
}

#[test]
fn antagonists_that_are_not_here_are_left_out_by_name() {
    let set = "targets.0.antagonists.command=[\"no-such-program-here\"]";
    let outcome = Case::of_text(STORE, &[set]).run().unwrap();
    assert!(
        outcome
            .result
            .points
            .iter()
            .all(|point| point.offered.antagonists.is_none())
    );
    let left = &outcome.result.left_out[0];
    assert_eq!(left.target, "store beside antagonists");
    assert!(
        left.reason
            .contains("install it by `apt install no-such-package`"),
        "{}",
        left.reason
    );
}

#[test]
fn a_value_that_was_not_written_is_a_wrong_answer() {
    // Every second key is put with the value of none.
    let set = r#"targets.0.operations=[{ name = "batch", command = "batch {repeat 16}put {key:022} wrong{or}get {key:022}{end}" }]"#;
    let outcome = Case::of_text(
        STORE,
        &["keys.count=2", "targets.0.antagonists.command=[\"no\"]", set],
    )
    .run()
    .unwrap();
    let point = &outcome.result.points[0];
    assert!(point.counters.wrong > 0, "{:?}", point.counters);
    assert_eq!(outcome.exit_code, 1);
}
