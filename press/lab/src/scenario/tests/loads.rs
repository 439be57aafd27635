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

#[test]
fn antagonists_that_cannot_be_meant_are_refused() {
    let bar = "bar=[{ name = \"b\", value = \"one.qps\", op = \">=\", limit = 1.0 }]";
    let some = "targets.0.antagonists={ command = [\"sleep\", \"1\"], cpus = [0] }";
    load_text(STORES, &[some]).unwrap();
    for (set, expected) in [
        (
            &["targets.0.antagonists={ command = [], cpus = [0] }"][..],
            "target.antagonists needs `command`",
        ),
        (
            &["targets.0.antagonists={ command = [\"sleep\"], cpus = [] }"],
            "and `cpus`, a core for each",
        ),
        (
            &["targets.0.antagonists={ command = [\"sleep\"] }"],
            "missing field `cpus`",
        ),
        (&[some, bar], "a bar would mix loads"),
    ] {
        let said = refusal(STORES, set);
        assert!(said.contains(expected), "{set:?}: {said}");
    }
    let closed = STORES
        .replace(
            "rate = [100, 200]\nrequests_times_rate = 3",
            "requests_per_connection = 3",
        )
        .replace("load = { rates = [7] }\n", "");
    let bounded = "targets.0.antagonists={ command = [\"sleep\", \"{seconds}\"], cpus = [0] }";
    load_text(STORES, &[bounded]).unwrap();
    load_text(&closed, &[some]).unwrap();
    assert!(refusal(&closed, &[bounded]).contains("has `{seconds}`, which follows from"));
}

#[test]
fn the_scenarios_of_report_r5_can_be_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    for (name, of_network) in [("r5-masstree", 8), ("r5-quick", 2)] {
        let set = ["requests.count=3".to_owned()];
        let scenario = load(&folder.join(format!("{name}.toml")), &set).unwrap();
        assert_eq!(
            (scenario.about.layout, scenario.about.repeats),
            (Layout::R5, 2),
            "{name}"
        );
        let [loopback, integrated, network] = &scenario.targets[..] else {
            unreachable!("it has three targets")
        };
        assert!(loopback.antagonists.is_some() && integrated.antagonists.is_some());
        assert!(network.antagonists.is_none() && network.optional);
        assert_eq!(network.own.rates.len(), of_network);
        assert_eq!(scenario.load.client_cpus(&integrated.own), [0]);
        assert_eq!(scenario.load.client_cpus(&loopback.own), [1]);
        for target in &scenario.targets {
            assert_eq!(target.requests.keys, Some(256.0), "{name}");
            assert!(
                target
                    .requests
                    .check
                    .contains("every value is the one that was written")
            );
        }
    }
}

#[test]
fn a_network_namespace_is_reached_by_its_own_address() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let refused = |set: &str| {
        let set = ["requests.count=3".to_owned(), format!("targets.2.{set}")];
        load(&folder.join("r5-quick.toml"), &set)
            .err()
            .unwrap()
            .to_string()
    };
    assert!(refused("address=127.0.0.1:13530").contains("runs in a network namespace at 10.203.5.2"));
    assert!(
        refused("server.namespace.client=10.203.5.9").contains("not the two addresses of a network of four")
    );
    assert!(
        refused("server.namespace.client=10.203.5.3").contains("not the two addresses of a network of four")
    );
    assert!(refused("server.namespace.name=much-too-long-a-name").contains("use 1 to 13 letters"));
    assert!(refused("server.namespace.client=here").contains("IPv4"));
    for name in ["-all", "5th"] {
        assert!(
            refused(&format!("server.namespace.name={name:?}")).contains("a letter first"),
            "{name}"
        );
    }
    let elsewhere = "server.namespace={ name = \"n\", server = \"8.8.8.10\", client = \"8.8.8.9\" }";
    assert!(refused(elsewhere).contains("8.8.8.10 is an address of somebody else's"));
}
