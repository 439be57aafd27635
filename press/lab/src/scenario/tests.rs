//! What a scenario says and what it must not say.

#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use std::io::Write;

use millpond_press_report::Layout;

mod loads;

const GOOD: &str = r#"
[scenario]
name = "t"

[target]
address = "127.0.0.1:13500"
method = "infer"

[requests.generate]
requests = 20
samples = 3
features = [{ prefix = "u", ids = 100 }, { prefix = "i", ids = 100 }]

[check]
length_of = "samples"

[load]
connections = [1, 10]
requests_per_connection = 100
"#;

fn load_text(text: &str, set: &[&str]) -> Result<Scenario, Error> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let set: Vec<String> = set.iter().map(|&set| set.to_owned()).collect();
    load(file.path(), &set)
}

fn refusal(text: &str, set: &[&str]) -> String {
    let error = load_text(text, set).err().expect("refused");
    assert_eq!(error.exit_code(), 2, "{error}");
    error.to_string()
}

#[test]
fn a_small_scenario_has_sensible_defaults() {
    let scenario = load_text(GOOD, &[]).unwrap();
    let (target, load) = (&scenario.targets[0], &scenario.load);
    assert_eq!(
        (target.words.as_str(), target.name.as_str()),
        ("/service/infer", "http")
    );
    assert_eq!(
        (
            load.in_flight(target.kind.takes, &target.own),
            load.keys.client_threads,
            scenario.about.repeats
        ),
        (1, 1, 1)
    );
    assert_eq!(target.timeout, Duration::from_secs(10));
    assert_eq!((target.requests.count, target.requests.distinct), (20, 20));
    assert_eq!(
        (load.keys.connections.as_slice(), load.steps(1).len()),
        ([1, 10].as_slice(), 1)
    );
    assert_eq!(scenario.grid.len(), 1);
    assert!(matches!(load.amount, Amount::Requests(100)));
    assert!(load.warmup_max.is_zero() && load.arrivals.is_none());
    assert!(matches!(target.server_pid, ServerPid::Unknown));
}

#[test]
fn overrides_are_laid_over() {
    let scenario = load_text(
        GOOD,
        &[
            "load.connections=[7]",
            "target.path = /v2/x",
            "scenario.seed=9",
            "target.server_pid_from=infos",
        ],
    )
    .unwrap();
    let target = &scenario.targets[0];
    assert_eq!(scenario.load.keys.connections, [7]);
    assert_eq!((target.words.as_str(), scenario.about.seed), ("/v2/x", 9));
    assert!(matches!(target.server_pid, ServerPid::Infos));
}

#[test]
fn unknown_keys_are_named_with_line_and_suggestion() {
    let said = refusal(&GOOD.replace("connections = [1", "conections = [1"), &[]);
    assert!(said.contains(", line 18: unknown field `conections`"), "{said}");
    assert!(said.ends_with("did you mean `connections`?"), "{said}");
    let said = refusal(&GOOD.replace("[check]", "[chek]"), &[]);
    assert!(said.contains("did you mean `check`?"), "{said}");
    let said = refusal(GOOD, &["load.in_fligth=2"]);
    assert!(said.starts_with("--set load.in_fligth=2: "), "{said}");
    assert!(said.ends_with("did you mean `in_flight`?"), "{said}");
    let said = refusal(GOOD, &["target.protocol=htp"]);
    assert!(said.ends_with("did you mean `http`?"), "{said}");
}

#[test]
fn wrong_overrides_are_refused() {
    for (set, expected) in [
        ("load.connections", "there is no `=`"),
        ("load.=1", "empty part"),
        ("=1", "empty part"),
        ("load.in_flight.x=1", "invalid type: map"),
        ("scenario.name.x=1", "`name` is a string, not a section"),
        ("load.connections=many", "invalid type"),
        ("load.connections.5=1", "`connections` has no element 5"),
    ] {
        let said = refusal(GOOD, &[set]);
        assert!(said.contains(expected), "{set}: {said}");
    }
}

#[test]
fn impossible_values_are_refused() {
    for (set, expected) in [
        ("load.connections=[]", "load.connections is 0 or empty"),
        ("load.connections=[5, 0]", "load.connections is 0 or empty"),
        (
            "load.requests_per_connection=0",
            "load.requests_per_connection is 0",
        ),
        (
            "load.duration_s=3",
            "one of `requests_per_connection`, `duration_s`",
        ),
        ("load.in_flight=4", "HTTP/1.1 answers one request after the other"),
        ("load.client_threads=0", "load.client_threads is 0"),
        ("load.processes=0", "load.processes is 0"),
        (
            "load.processes=1000",
            "load.processes is 1000, expected at most 256",
        ),
        (
            "target.timeout_ms=99999",
            "target.timeout_ms is 99999, expected 1 to 60000",
        ),
        ("target.address=nowhere", "no host and port"),
        ("target.path=x", "must begin with `/`"),
        ("target.method=\"a b\"", "holds a space"),
        ("check.share=0.0", "check.share is 0"),
        ("check.min=2.0", "check.min must not be above"),
        ("scenario.name=a/b", "names a folder"),
        ("requests.file=x.jsonl", "one of `file` and `generate`"),
        ("requests.distinct_min=21", "holds 20 distinct requests"),
        (
            "requests.expected=no.jsonl",
            "cannot read the request file no.jsonl",
        ),
        ("grid.level=[1]", "grid.level needs a [server] section"),
        ("requests.generate.requests=0", "requests is 0"),
        ("load.rate=[0]", "load.rate is 0"),
        ("load.rate=[1000]", "load.rate needs load.duration_s"),
        ("load.arrivals=poisson", "load.rate needs load.duration_s"),
        ("load.think_ms=-1", "load.think_ms is -1"),
        ("slo=p99 < 5", "slo, character 1"),
        ("target.files=x", "target.files is for the protocols"),
        ("target.protocol=ordered", "takes no address"),
        ("target.headers.x=\"a\\nb\"", "holds a line end"),
        ("scenario.repeats=0", "scenario.repeats is 0"),
        (
            "requests.count=5",
            "requests.count is for requests that are drawn",
        ),
        ("requests.bytes=5", "requests.bytes is the size of drawn requests"),
        ("check.values=true", "check.values is for the protocols"),
    ] {
        let said = refusal(GOOD, &[set]);
        assert!(said.contains(expected), "{set}: {said}");
    }
    let apart = refusal(GOOD, &["target.protocol=ordered", "load.processes=2"]);
    assert!(
        apart.contains("load.processes is 2, but protocol \"ordered\" runs in this process"),
        "{apart}"
    );
    assert!(refusal("x", &[]).contains("line 1"));
    assert!(
        load(Path::new("no.toml"), &[])
            .err()
            .expect("refused")
            .to_string()
            .contains("no.toml")
    );
}

#[test]
fn a_grid_and_its_server_belong_together() {
    let with_server = |command: &str, more: &str| {
        format!("{GOOD}\n[server]\ncommand = {command}\nready = \"http://127.0.0.1:1/readyz\"\n{more}")
    };
    let good = with_server(
        r#"["{millpond}", "--set", "log.level={level}"]"#,
        "[grid]\nlevel = [2, 5]",
    );
    let scenario = load_text(&good, &[]).unwrap();
    let levels: Vec<&str> = scenario
        .grid
        .iter()
        .map(|values| values["level"].as_str())
        .collect();
    assert_eq!(levels, ["2", "5"]);
    for (command, more, expected) in [
        (
            r#"["{millpond}"]"#,
            "[grid]\nlevel = [2]",
            "grid.level changes nothing",
        ),
        (r#"["{level}"]"#, "", "holds {level}, which is neither"),
        (r#"["{level}"]"#, "[grid]\nlevel = []", "grid.level is empty"),
        (r#"["{level}"]"#, "[grid]\nlevel = [[1]]", "holds a array"),
        (r#"["{config}"]"#, "", "server.config is not set"),
        (r#"["x"]"#, "config = \"c\"", "no {config} stands"),
        ("[]", "", "server.command is empty"),
        (r#"["x"]"#, "ready_timeout_s = 0", "server.ready_timeout_s is 0"),
    ] {
        let said = refusal(&with_server(command, more), &[]);
        assert!(said.contains(expected), "{command} {more}: {said}");
    }
    assert!(
        refusal(&with_server(r#"["x"]"#, ""), &["server.ready=readyz"]).contains("http://HOST:PORT/PATH")
    );
}

/// The shipped scenarios are parsed as they are, but for the files, which only the demo and the benchmark make.
#[test]
fn the_shipped_scenarios_load() {
    let dir = tempfile::tempdir().unwrap();
    let lines = |name: &str, lines: Vec<String>| {
        let path = dir.path().join(name);
        std::fs::write(&path, lines.join("\n")).unwrap();
        path.display().to_string()
    };
    let numbers = || 0..10_000;
    let r1 = lines(
        "r1.jsonl",
        numbers()
            .map(|n| format!("{{\"samples\":[[\"{n}\",\"1\"]]}}"))
            .collect(),
    );
    let rank = lines(
        "rank.jsonl",
        numbers().map(|n| format!("{{\"items\":[\"{n}\"]}}")).collect(),
    );
    let expected = lines(
        "expected.jsonl",
        numbers().map(|_| "{\"scores\":[0.5]}".into()).collect(),
    );
    let shipped = |name: &str| {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../scenarios")
            .join(name)
    };
    let load = |name: &str, file: &str| {
        let path = shipped(name);
        load(
            &path,
            &[
                format!("requests.file={file}"),
                format!("requests.expected={expected}"),
            ],
        )
        .unwrap()
    };
    let grid = load("r1-recommand.toml", &r1);
    assert_eq!(
        grid.load.keys.connections,
        [1, 10, 20, 50, 100, 200, 500, 1000, 1500, 2000, 3000]
    );
    assert!(matches!(grid.load.amount, Amount::Requests(100)));
    let levels: Vec<&str> = grid
        .grid
        .iter()
        .map(|values| values["log_level"].as_str())
        .collect();
    assert_eq!(levels, ["2", "3", "5"]);
    let demo = load("../../examples/movielens/press.toml", &rank);
    assert_eq!(demo.load.keys.connections, [8]);
    let floor = super::load(&shipped("echo-floor.toml"), &[]).unwrap();
    assert_eq!(floor.targets[0].kind.name(), "echo");
    for name in ["peer-redis.toml", "peer-memcached.toml"] {
        let peers = super::load(&shipped(name), &["requests.count=50".into()]).unwrap();
        assert_eq!((peers.targets.len(), peers.about.repeats), (3, 3), "{name}");
    }
    let quick = load("r1-quick.toml", &r1);
    assert!(quick.targets[0].server.is_none() && quick.load.keys.connections == [32]);
    assert_eq!(
        load("movielens-rank.toml", &rank).targets[0].words,
        "/service/rank"
    );
}

#[test]
fn a_file_that_is_missing_is_said_with_the_command_that_makes_it() {
    let r4 = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/r4-decode.toml");
    let refused = |overrides: &[String]| load(&r4, overrides).err().unwrap().to_string();
    let missing = refused(&[]);
    let expected = "; .demo/r4/r4.toml is missing: make it by `python3.11 examples/r4/make_r4.py`";
    assert!(
        missing.contains("cannot read the request file .demo/r4/decode.jsonl") && missing.ends_with(expected),
        "{missing}"
    );
    let there = refused(&[format!("scenario.needs={{ {r4:?} = \"make it\" }}")]);
    assert!(!there.contains("make it"), "{there}");
}

/// Targets that are sent different things in one scenario, and checked by what each is expected to answer.
#[test]
fn a_target_may_have_requests_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let two = write("two.jsonl", "{\"a\":1}\n{\"a\":2}\n");
    let answers = write("answers.jsonl", "{\"scores\":[1]}\n{\"scores\":[1]}\n");
    let text = format!(
        "[scenario]\nname = \"own\"\n[load]\nconnections = [1]\nduration_s = 1\n\
         [requests]\nfile = {two:?}\nexpected = {answers:?}\n\
         [[targets]]\nname = \"all\"\naddress = \"127.0.0.1:1\"\nmethod = \"infer\"\n\
         [[targets]]\nname = \"own\"\naddress = \"127.0.0.1:1\"\nmethod = \"infer\"\n"
    );
    let one = write("one.jsonl", "{\"a\":3}\n");
    let scenario = load_text(&text, &[&format!("targets.1.requests.file={one}")]).unwrap();
    let counts: Vec<usize> = scenario
        .targets
        .iter()
        .map(|target| target.requests.count)
        .collect();
    assert_eq!(counts, [2, 1]);
    let is_compared = |at: usize| scenario.targets[at].requests.check.contains("expected");
    assert!(is_compared(0) && !is_compared(1));
    let said = refusal(&text, &[&format!("targets.1.requests.expected={answers}")]);
    assert!(said.contains("needs target.requests.file"), "{said}");
    let mixed = [
        "targets.1.operations=[{ body = \"{}\" }]".to_owned(),
        format!("targets.1.requests.file={one}"),
    ];
    let said = refusal(&text, &[&mixed[0], &mixed[1]]);
    assert!(said.contains("targets without `operations`"), "{said}");
}

/// Keys that stand in comments are keys all the same: with every one of them in place, the file still parses.
#[test]
fn every_key_of_the_commented_scenario_exists() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/r1-recommand.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let mut uncommented = String::new();
    let mut count = 0;
    for line in text.lines() {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        let is_key = bare
            .split_once(" = ")
            .is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
        let is_code = is_key || bare.starts_with('[') || bare.starts_with("    {") || bare.starts_with(']');
        count += usize::from(is_code && bare != line);
        uncommented += if is_code { bare } else { "" };
        uncommented.push('\n');
    }
    assert!(count > 15, "{uncommented}");
    // `pid` and `from`, `file` and `generate` exclude each other by value, not by name.
    text::parse("uncommented", &uncommented, &[]).unwrap();
}

#[test]
fn methods_of_frames_may_hold_spaces() {
    let set = ["target.protocol=native", "target.method=\"two way demo\""];
    assert!(load_text(GOOD, &set).is_ok());
}

#[test]
fn operations_of_one_name_are_refused() {
    let text = "[scenario]\nname = \"twice\"\n[target]\naddress = \"127.0.0.1:1\"\nprotocol = \"resp\"\n\
                operations = [{ command = \"get {key}\" }, { command = \"get {key}\", weight = 2 }]\n\
                [keys]\ncount = 10\n[load]\nconnections = [1]\nduration_s = 1\n";
    let said = refusal(text, &[]);
    assert!(said.contains("two operations are called \"get {key}\""), "{said}");
}

#[test]
fn no_process_is_without_a_connection() {
    let check = |connections, expected| {
        let scenario = load_text(GOOD, &["load.processes=4", "load.client_threads=2"]).unwrap();
        let load = &scenario.load;
        assert_eq!((load.processes(connections), load.threads(connections)), expected);
    };
    check(1, (1, 1));
    check(3, (3, 3));
    check(4, (4, 4));
    check(7, (4, 7));
    check(100, (4, 8));
}

#[test]
fn an_excerpt_is_what_the_whole_scenario_holds() {
    let whole = load_text(GOOD, &["load.in_flight=1", "scenario.seed=9"]).unwrap();
    let set = ["load.in_flight=1".to_owned(), "scenario.seed=9".to_owned()];
    let Ok(part) = excerpt(Path::new("s.toml"), GOOD, &set, 0) else {
        panic!("the scenario is good");
    };
    assert_eq!(
        (part.seed, &part.load.keys.connections),
        (9, &whole.load.keys.connections)
    );
    assert_eq!(part.target.requests, whole.targets[0].requests);
    assert!(excerpt(Path::new("s.toml"), GOOD, &set, 1).is_err());
}

#[test]
fn rates_may_be_of_each_connection_and_rise_by_themselves() {
    let fixed = ["load.requests_per_connection=1", "load.rate_per_connection=[0.5]"];
    let said = refusal(GOOD, &fixed);
    assert!(said.contains("load.duration_s"), "{said}");
    let text = GOOD.replace("requests_per_connection = 100", "duration_s = 2");
    let rates = |scenario: &Scenario| -> Vec<f64> {
        let steps = scenario.load.steps(10);
        steps.iter().filter_map(|step| step.rate).collect()
    };
    let scenario = load_text(&text, &["load.rate_per_connection=[0.5, 2]"]).unwrap();
    assert_eq!(rates(&scenario), [5.0, 20.0]);
    assert!(scenario.load.arrivals.is_some() && !scenario.load.until_missed);
    let boost = [
        "slo=p99 < 1ms",
        "load.rate_per_connection=[0.25]",
        "boost.auto=true",
        "boost.pause_ms_min=1990",
    ];
    let scenario = load_text(&text, &boost).unwrap();
    let pauses: Vec<f64> = rates(&scenario).iter().map(|rate| 10.0 / rate).collect();
    let expected = [4.0, 3.0, 2.0, 1.995, 1.99];
    assert_eq!(pauses.len(), expected.len());
    for (pause, expected) in pauses.iter().zip(expected) {
        assert!((pause - expected).abs() < 1e-9, "{pauses:?}");
    }
    assert!(scenario.load.until_missed);
}

#[test]
fn boosts_that_cannot_be_meant_are_refused() {
    let text = GOOD.replace("requests_per_connection = 100", "duration_s = 2");
    let check = |set: &[&str], expected: &str| {
        let said = refusal(&text, set);
        assert!(said.contains(expected), "{said}");
    };
    let (slo, each) = ("slo=p99 < 1ms", "load.rate_per_connection=[1]");
    check(
        &["load.rate=[1]", each],
        "one of `rate` and `rate_per_connection`",
    );
    check(
        &[each, "boost.auto=true"],
        "until the slo is missed, and there is none",
    );
    check(
        &[slo, "boost.auto=true"],
        "begins at one load.rate_per_connection",
    );
    check(&[slo, "load.rate=[1]", "boost.auto=true"], "begins at one");
    check(
        &[slo, "load.rate_per_connection=[1, 2]", "boost.auto=true"],
        "found 2",
    );
    check(&[each, "boost.first_s=3"], "boost.first_s is for boost.auto");
    check(
        &[slo, each, "boost.auto=true", "boost.first_s=0"],
        "boost.first_s is 0",
    );
    check(&[each, "boost.step_s=0"], "boost.step_s is 0");
    check(&[each, "boost.fine_step_ms=-1"], "boost.fine_step_ms is -1");
    check(&["load.rate_per_connection=[0]"], "load.rate_per_connection is 0");
    check(
        &["load.rate_per_connection=[1e8]"],
        "load.rate_per_connection comes to",
    );
    check(&[each, "boost.until_missd=true"], "did you mean `until_missed`?");
}

#[test]
fn the_scenarios_of_report_r3_can_be_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let requests = format!(
        "requests.file={}",
        folder.join("press/scenarios/r3-request.jsonl").display()
    );
    for (name, points) in [("r3-massive", 1), ("r3-stress", 5 * 8)] {
        let file = folder.join(format!("press/scenarios/{name}.toml"));
        let set = [requests.clone()];
        let scenario = load(&file, &set).unwrap();
        let count: usize = scenario
            .load
            .keys
            .connections
            .iter()
            .map(|&connections| scenario.load.steps(connections).len())
            .sum();
        assert_eq!(count, points, "{name}");
        assert_eq!(scenario.about.layout, Layout::R3);
    }
    let file = folder.join("press/scenarios/r3-massive.toml");
    let set = [
        requests,
        "boost.auto=true".to_owned(),
        "load.duration_s=60".to_owned(),
    ];
    let boosted = load(&file, &set).unwrap().load.steps(200_000);
    assert_eq!((boosted[0].rate, boosted.len() > 48), (Some(4_000.0), true));
}

#[test]
fn a_value_of_no_bytes_is_no_word_of_a_command() {
    let words = |protocol: &str, command: &str, body: &str| {
        format!(
            "[scenario]\nname = \"empty\"\n[target]\nprotocol = \"{protocol}\"\naddress = \"127.0.0.1:1\"\n\
             [[target.operations]]\n{command} = \"{body}\"\n[keys]\ncount = 10\n\
             [load]\nconnections = [1]\nrequests_per_connection = 1\n"
        )
    };
    for protocol in ["memcached", "resp"] {
        let set = words(protocol, "command", "set {key} {value}");
        for sizes in ["0", "{ uniform = [0, 9] }", "{ choice = [[0, 0.1], [5, 0.9]] }"] {
            let said = refusal(&set, &[&format!("keys.value_bytes={sizes}")]);
            assert!(
                said.contains("keys.value_bytes gives values of 0 bytes") && said.contains(protocol),
                "{said}"
            );
        }
        assert!(load_text(&set, &["keys.value_bytes={ uniform = [1, 9] }"]).is_ok());
        // Nothing of it is sent here.
        let get = words(protocol, "command", "get {key}");
        assert!(load_text(&get, &["keys.value_bytes=0"]).is_ok());
    }
    // Rows of numbers hold any bytes: commands escape them, texts cannot.
    let rows = "keys.value_bytes={ rows = { seed = 7, dim = 10 } }";
    assert!(load_text(&words("resp", "command", "SET {key} {value}"), &[rows]).is_ok());
    let said = refusal(&words("echo", "body", "a{value}"), &[rows]);
    assert!(said.contains("keys.value_bytes gives rows"), "{said}");
    // A message may be empty where something stands around it.
    let echo = words("echo", "body", "a{value}");
    assert!(load_text(&echo, &["keys.value_bytes=0"]).is_ok());
}
