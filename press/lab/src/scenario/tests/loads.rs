//! Loads of a number of requests, and rates of one target alone.

use super::*;

const STORES: &str = r#"
[scenario]
name = "t"

[keys]
count = 100

[requests]
count = 10

[load]
connections = [1]
rate = [100, 200]
requests_times_rate = 3

[[targets]]
name = "one"
protocol = "ordered"
operations = [{ name = "batch", command = "batch {repeat 4}get {key:022}{or}put {key:022} {value}{end}" }]

[[targets]]
name = "other"
protocol = "ordered"
load = { rates = [7] }
operations = [{ name = "read", command = "get {key}" }]
"#;

#[test]
fn a_number_of_requests_follows_from_each_rate() {
    let scenario = load_text(STORES, &[]).unwrap();
    let load = &scenario.load;
    assert_eq!(load.keys.requests(Some(100.0)), Some(300));
    assert_eq!(load.keys.requests(Some(0.1)), Some(1), "one at least");
    assert_eq!(load.keys.requests(None), None);
    assert!(matches!(load.amount, Amount::For(span) if span == Duration::from_secs(3)));
    assert_eq!(
        load.warmup_max,
        Duration::from_secs(3),
        "no longer than the load itself"
    );
    let rates: Vec<usize> = scenario
        .targets
        .iter()
        .map(|target| target.own.rates.len())
        .collect();
    assert_eq!(rates, [0, 1]);
    assert_eq!(scenario.targets[0].requests.keys, Some(4.0), "keys of a request");
}

#[test]
fn numbers_of_requests_that_cannot_be_meant_are_refused() {
    for (set, expected) in [
        (
            &["load.duration_s=1"][..],
            "and `requests_times_rate`, and only one",
        ),
        (&["load.requests_times_rate=0"], "load.requests_times_rate is 0"),
        (
            &["load.arrivals={ bursts = { size = 2 } }"],
            "takes load.arrivals \"poisson\" or \"constant\"",
        ),
        (&["load.rate=[]"], "needs load.rate: it is multiplied"),
        (&["targets.1.load.rate=5"], "takes a `rate`, `rates`, or `times`"),
        (&["targets.1.load.rates=[0]"], "target.load.rates is 0"),
        (&["targets.1.load.rates=[1e9]"], "target.load.rates is 1000000000"),
    ] {
        let said = refusal(STORES, set);
        assert!(said.contains(expected), "{set:?}: {said}");
    }
    load_text(STORES, &["load.rate=[]", "targets.0.load.rates=[1, 2]"]).unwrap();
}
