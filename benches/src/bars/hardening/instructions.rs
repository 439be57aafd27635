//! Instructions that a request takes beside the kernel's, counted by callgrind: this build over the one before.
//!
//! Counting is off while the server starts. Then it is counted under a load, and again under three times as much; what lies between
//! the two is the requests' own, since connecting is the same. Its invariant: every request of both loads was answered, and
//! rightly; and a sum that does not grow with the requests is no figure.

use super::kinds::{self, Kind};
use crate::bar::{Bar, Group, Measure, Op};
use crate::practice;
use crate::report::Report;
use crate::server::Server;
use crate::setup::Setup;
use anyhow::{Context as _, ensure};
use millpond_press_verdict::Series;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const BARS: [Bar; 4] = [
    Bar::new("hardening-echo-d1-instructions-over-before", Op::AtMost, 1.03),
    Bar::new("hardening-echo-d16-instructions-over-before", Op::AtMost, 1.03),
    Bar::new("hardening-lookup-100-instructions-over-before", Op::AtMost, 1.03),
    Bar::new("hardening-r1-instructions-over-before", Op::AtMost, 1.03),
];

pub(crate) const GROUP: Group = Group {
    name: "instructions",
    title: "instructions a request by callgrind, over those of the build before (--beside FILE)",
    bars: &BARS,
    measure: Measure::Code(measure),
};

/// Connections of a counted load with several in flight: the tool makes the server so slow that all of them always wait for it.
/// Those with one in flight are one, so that each request is a turn of the net thread, and a run of the model, of its own.
const CONNECTIONS: usize = 20;

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let before = setup.before()?;
    let found = Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    ensure!(
        found.is_ok_and(|status| status.success()),
        "there is no valgrind; apt install valgrind"
    );
    let config = kinds::prepare(setup)?;
    report.say("| request | before, instructions | now | ratio |\n|---|---:|---:|---:|");
    for (kind, bar) in kinds::all().iter().zip(&BARS) {
        let of = |build: &Path, who: &str| a_request(setup, (build, &config), who, kind);
        let (old, new) = (of(before, "before")?, of(&setup.millpond, "now")?);
        report.say(&format!(
            "| {} | {old:.0} | {new:.0} | {:.4} |",
            kind.name,
            new / old
        ));
        report.bar(bar, new / old, Series::from_iter([new / old]));
    }
    Ok(())
}

/// Instructions a request of a build.
fn a_request(setup: &Setup, build: (&Path, &str), who: &str, kind: &Kind) -> anyhow::Result<f64> {
    let connections = if kind.in_flight > 1 { CONNECTIONS } else { 1 };
    // A request of R1 takes a thousand times an echo's instructions.
    let each = match kind.of_r1 {
        true => setup.pick(200, 20),
        false => setup.pick(8_000, 800) / connections,
    };
    let name = format!("callgrind-{}-{who}", kind.name);
    let out = setup.out.join(format!("{name}.out"));
    let words = ["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no"];
    let mut before: Vec<String> = words.map(str::to_owned).to_vec();
    before.push(format!("--callgrind-out-file={}", out.display()));
    let server = kinds::start(setup, build, &name, kind.of_r1, &before)?;
    let target = Target {
        server: &server,
        kind,
        connections,
    };
    // What is done once, such as the first batch, is done before anything counts.
    target.load(setup, &format!("{name}-warm-up"), each / 4)?;
    for times in [1, 3] {
        setup.stop.check()?;
        control(&server, &["-i", "on"])?;
        target.load(setup, &format!("{name}-{times}"), times * each)?;
        control(&server, &["-i", "off"])?;
        // The first part goes to a file of its own, the last one is written at the end.
        if times == 1 {
            control(&server, &["-d"])?;
        }
    }
    server.stop()?;
    let sum = |file: PathBuf| -> anyhow::Result<f64> {
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        total(&text).with_context(|| format!("{} has no sum of its instructions", file.display()))
    };
    let (few, many) = (sum(setup.out.join(format!("{name}.out.1")))?, sum(out)?);
    own_of_a_request(few, many, each * connections).with_context(|| format!("{name}: callgrind"))
}

/// Instructions a request, from the sums under `requests` and under three times as many.
fn own_of_a_request(few: f64, many: f64, requests: usize) -> anyhow::Result<f64> {
    // Connecting takes far fewer than the requests do, so that the second sum is nearly three times the first.
    ensure!(
        few > 0.0 && many > 2.0 * few,
        "{requests} requests took {few} instructions and three times as many took {many}: not all of them were counted"
    );
    Ok((many - few) / (2 * requests) as f64)
}

/// Tells callgrind what to do in a server.
fn control(server: &Server, words: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("callgrind_control")
        .args(words)
        .arg(server.pid().to_string())
        .output()
        .context("cannot run callgrind_control, of valgrind")?;
    ensure!(
        output.status.success(),
        "callgrind_control {}: {}{}",
        words.join(" "),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// A server that is counted, and how it is asked.
struct Target<'a> {
    server: &'a Server,
    kind: &'a Kind,
    connections: usize,
}

impl Target<'_> {
    /// So many requests on each connection, all of them answered.
    fn load(&self, setup: &Setup, name: &str, each: usize) -> anyhow::Result<()> {
        let connections = self.connections;
        let load =
            format!("connections = [{connections}]\nrequests_per_connection = {each}\nwarmup_s_max = 0\n");
        let text = self.kind.scenario(setup, self.server, name, &load)?;
        let point = practice::point(setup, name, &text)?;
        let counters = &point.counters;
        ensure!(
            counters.answers() == (self.connections * each) as u64
                && counters.offered() == counters.answers(),
            "{name}: {counters:?}"
        );
        Ok(())
    }
}

/// The sum in a file of callgrind, which stands in its `totals:`: `summary:` is zero where counting was off at times.
fn total(text: &str) -> Option<f64> {
    let mut sums = text.lines().filter_map(|line| line.strip_prefix("totals:"));
    sums.next()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_a_file_is_found() {
        let file = "version: 1\nevents: Ir\nsummary: 0\nfn=(1)\n7 9\n\ntotals: 1200\n";
        assert_eq!(total(file), Some(1200.0));
        assert_eq!(total("events: Ir\nsummary: 0\n"), None);
    }

    #[test]
    fn sums_that_did_not_count_the_requests_are_no_figure() {
        let check = |few, many, expected: Option<f64>| {
            let found = own_of_a_request(few, many, 100).ok();
            assert_eq!(found, expected, "{few} {many}");
        };
        check(1_200.0, 3_400.0, Some(11.0));
        check(0.0, 0.0, None);
        check(0.0, 3_000.0, None);
        check(1_000.0, 2_000.0, None);
        check(3_000.0, 1_000.0, None);
        check(f64::NAN, f64::NAN, None);
    }
}
