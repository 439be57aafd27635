//! Bars of a scenario, over targets that take turns, and figures that commands give.

use std::path::Path;

use millpond_press_practice::{Arguments, Running, start};

use crate::Case;

/// Two loads on one server, each on connections of its own, in two rounds.
fn case(server: &Running, bars: &str) -> Case {
    let address = server.address();
    Case::of_text(
        &format!(
            "[scenario]\nname = \"bars\"\nrounds = 2\n[requests]\nbytes = 8\n\
             [load]\nconnections = [4]\nduration_s = 0.2\nwarmup_s_max = 0\nreconnect = true\n\
             [[targets]]\nname = \"four\"\nprotocol = \"echo\"\naddress = \"{address}\"\n\
             [[targets]]\nname = \"one\"\nprotocol = \"echo\"\naddress = \"{address}\"\nserver_of = \"four\"\n\
             load = {{ connections = 1, rate = 100 }}\n\
             [[figure]]\nname = \"round\"\ncommand = [\"sh\", \"-c\", \"echo x >> {{out}}/server-x.log; wc -l < {{out}}/server-x.log\"]\n{bars}"
        ),
        &[],
    )
}

fn bar(name: &str, value: &str, op: &str, limit: f64) -> String {
    format!(
        "[[bar]]\nname = \"{name}\"\nvalue = '{value}'\nop = \"{op}\"\nlimit = {limit}\nof = \"counts\"\n"
    )
}

#[test]
fn bars_are_held_against_the_points() {
    let server = start(Arguments::from_words(["--listen", "127.0.0.1:0"]).unwrap()).unwrap();
    let bars = [
        bar("more-over-fewer", "ratio(four.qps, one.qps)", ">=", 1.5),
        bar("second-round", "max(round)", "==", 2.0),
        bar("scheduled", "sum(one.answers)", ">=", 5.0),
    ];
    let case = case(&server, &bars.concat());
    let outcome = case.run().unwrap();
    assert_eq!(outcome.bars.len(), 3);
    for bar in &outcome.bars {
        assert!(bar.line.ends_with(" pass"), "{}", outcome.output);
        assert!(outcome.output.contains(&bar.line), "{}", outcome.output);
    }
    let points = &outcome.result.points;
    let loads: Vec<(&str, usize, usize)> = points
        .iter()
        .map(|point| {
            (
                point.target.name.as_str(),
                point.repeat,
                point.offered.connections,
            )
        })
        .collect();
    assert_eq!(
        loads,
        [("four", 1, 4), ("one", 1, 1), ("one", 2, 1), ("four", 2, 4)]
    );
    let kept = std::fs::read_to_string(case.out().join("bars.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept[0]["name"], "more-over-fewer");
    assert_eq!(kept[0]["verdict"], "pass");
}

#[test]
fn a_bar_that_is_missed_is_told_and_fails_the_run() {
    let server = start(Arguments::from_words(["--listen", "127.0.0.1:0"]).unwrap()).unwrap();
    let case = case(&server, &bar("too-much", "four.qps", ">=", 1e12));
    let outcome = case.run().unwrap();
    assert_eq!(outcome.exit_code, 1, "{}", outcome.output);
    assert!(outcome.output.contains("bar too-much "), "{}", outcome.output);
    assert!(outcome.output.trim_end().ends_with(" fail"), "{}", outcome.output);
}

#[test]
fn a_run_may_be_of_commands_alone() {
    let text = format!(
        "[scenario]\nname = \"commands\"\nrounds = 3\n[[figure]]\nname = \"seven\"\ncommand = [\"echo\", \"7\"]\n{}",
        bar("seven-times-two", "seven * 2", "==", 14.0)
    );
    let outcome = Case::of_text(&text, &[]).run().unwrap();
    assert_eq!(outcome.exit_code, 0, "{}", outcome.output);
    assert_eq!(outcome.bars[0].line, "bar seven-times-two 14 == 14 pass");
    assert_eq!(outcome.bars[0].runs.figures().len(), 3);
    let line = "figure seven 7.0000 (7.0000 to 7.0000, rounds: 3)\nbar seven-times-two ";
    assert!(outcome.output.contains(line), "{}", outcome.output);
}

#[test]
fn the_scenarios_of_the_bench_can_be_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;
    for entry in std::fs::read_dir(root.join("benches/scenarios")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".toml") || name.ends_with(".config.toml") {
            continue;
        }
        count += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let read: toml::Table = toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(
            read["scenario"]["name"]
                .as_str()
                .map(|of| of.to_owned() + ".toml"),
            Some(name)
        );
    }
    assert!(count >= 15, "{count}");
}
