//! Constructed cases whose verdict and bound are known, each with its own seed.
//!
//! Its invariant: a case that could not be set up counts as wrong, and says why.

use crate::bar::{Bar, Group, Measure, Op};
use crate::cores;
use crate::practice::{On, Practice, point};
use crate::report::Report;
use crate::setup::Setup;
use crate::steal::undisturbed;
use anyhow::{Context as _, ensure};
use millpond_press_report::{Bound, Judgement, Point};
use millpond_press_verdict::Series;
use std::process::{Child, Command, Stdio};

const RIGHT: Bar = Bar::new("press-verdicts-right-of-21", Op::AtLeast, 21.0);

pub(crate) const GROUP: Group = Group {
    name: "verdicts",
    title: "seven constructed cases, three seeds each: verdict and bound both right",
    bars: &[RIGHT],
    measure: Measure::Code(measure),
};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Case {
    StarvedClient,
    FullServer,
    SleepingServer,
    Lock,
    Disk,
    AcceptQueue,
    Wire,
}

const CASES: [Case; 7] = [
    Case::StarvedClient,
    Case::FullServer,
    Case::SleepingServer,
    Case::Lock,
    Case::Disk,
    Case::AcceptQueue,
    Case::Wire,
];

impl Case {
    fn expected(self) -> (Judgement, Bound) {
        match self {
            Case::StarvedClient => (Judgement::GeneratorBound, Bound::ClientCpu),
            Case::FullServer => (Judgement::Valid, Bound::ServerCpu),
            Case::SleepingServer => (Judgement::Valid, Bound::Timer),
            Case::Lock => (Judgement::Valid, Bound::Lock),
            Case::Disk => (Judgement::Valid, Bound::Disk),
            Case::AcceptQueue => (Judgement::Valid, Bound::Queueing),
            Case::Wire => (Judgement::Valid, Bound::Wire),
        }
    }
}

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let mut right = Series::default();
    report.say("| case | seed | verdict | bound | right | sentence |");
    report.say("|---|---:|---|---|---|---|");
    for seed in 1..=setup.pick(3, 1) {
        for case in CASES {
            setup.stop.check()?;
            let name = format!("case-{case:?}-{seed}").to_lowercase();
            let measured = undisturbed(setup, report, &name, |name| run(setup, case, seed, name));
            let (said, is_right) = match measured {
                Ok(point) => {
                    let verdict = &point.verdict;
                    let is_right = (verdict.judgement, verdict.bound) == case.expected();
                    let said = format!("{:?} | {:?}", verdict.judgement, verdict.bound);
                    (format!("{said} | {is_right} | {}", verdict.sentence), is_right)
                }
                Err(error) => (format!("- | - | false | not run: {error:#}"), false),
            };
            report.say(&format!("| {case:?} | {seed} | {said} |"));
            right.push(f64::from(u8::from(is_right)));
        }
    }
    let count = right.mean() * (CASES.len() * setup.pick(3, 1)) as f64;
    report.bar(&RIGHT, count.round(), right);
    Ok(())
}

fn run(setup: &Setup, case: Case, seed: u64, name: &str) -> anyhow::Result<Point> {
    let connections = 6 + 2 * seed;
    let load = format!(
        "[load]\nconnections = [{connections}]\nduration_s = {}\nwarmup_s_max = 1\nclient_cpus = [1]\n",
        setup.pick(6.0, 3.0)
    );
    let against = |on, words: &[&str], load: &str| {
        let server = Practice::start(setup, on, &[], words)?;
        let text = server.scenario(name) + load;
        let point = point(setup, name, &text)?;
        server.stop()?;
        Ok(point)
    };
    let (work, sleep) = (format!("{}us", 100 * seed), format!("{}ms", 5 + 5 * seed));
    match case {
        Case::StarvedClient => {
            let _busy = Busy::start(cores::PRESS)?;
            against(On::ServerCore, &[], &load)
        }
        Case::FullServer => against(On::ServerCore, &["--work", &work], &load),
        Case::SleepingServer => against(On::ServerCore, &["--sleep", &sleep], &load),
        Case::Lock if seed.is_multiple_of(2) => against(
            On::AnyCore,
            &["--lock", "2ms", "--lock-sleep", "--workers", "4"],
            &load,
        ),
        Case::Lock => against(On::AnyCore, &["--lock", &work, "--workers", "4"], &load),
        Case::Disk => {
            let file = setup.out.join("appended");
            let words = ["--disk", file.to_str().context("a path that is no text")?];
            let point = against(On::ServerCore, &words, &load);
            let _ = std::fs::remove_file(file);
            point
        }
        Case::AcceptQueue => {
            // At a rate that those who got in can keep: that more get in meanwhile must not change it.
            let load =
                load.replace(&format!("[{connections}]"), "[40]") + "connect_parallel = 40\nrate = [2000]\n";
            let words = ["--accept-pause", "--accept-every", "200ms"];
            let server = Practice::start(setup, On::ServerCore, &[], &words)?;
            let text = server
                .scenario(name)
                .replace("[requests]", "timeout_ms = 500\n[requests]")
                + &load;
            let point = point(setup, name, &text)?;
            server.stop()?;
            Ok(point)
        }
        Case::Wire => wire(setup, name, seed, &load),
    }
}

/// A process that takes half of a core from whoever shares it.
struct Busy(Child);

impl Busy {
    fn start(core: usize) -> anyhow::Result<Busy> {
        let spawn = || {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            command.spawn().context("cannot start a busy loop")
        };
        Ok(Busy(cores::on(core, spawn)?))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A network namespace with a throttled link to it; removed with all that is in it when it is dropped.
struct Link {
    name: String,
}

impl Link {
    fn make(seed: u64) -> anyhow::Result<Link> {
        let name = format!("mp{}-{seed}", std::process::id() % 10_000);
        let link = Link { name: name.clone() };
        let (outer, inner) = (format!("{name}o"), format!("{name}i"));
        let rate = format!("{}mbit", 2 * seed);
        ip(&["netns", "add", &name])?;
        ip(&[
            "link", "add", &outer, "type", "veth", "peer", "name", &inner, "netns", &name,
        ])?;
        ip(&["addr", "add", "10.123.0.1/24", "dev", &outer])?;
        ip(&["link", "set", &outer, "up"])?;
        ip(&["-n", &name, "addr", "add", "10.123.0.2/24", "dev", &inner])?;
        ip(&["-n", &name, "link", "set", &inner, "up"])?;
        let tbf = ["tbf", "rate", &rate, "burst", "4kb", "latency", "400ms"];
        program(
            "tc",
            &[&["qdisc", "add", "dev", outer.as_str(), "root"][..], &tbf].concat(),
        )?;
        Ok(link)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.name]);
        let _ = ip(&["link", "del", &format!("{}o", self.name)]);
    }
}

fn ip(words: &[&str]) -> anyhow::Result<()> {
    program("ip", words)
}

fn program(name: &str, words: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(name)
        .args(words)
        .output()
        .with_context(|| format!("cannot run {name}; apt install iproute2"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.success(),
        "{name} {}: {}",
        words.join(" "),
        said.trim()
    );
    Ok(())
}

fn wire(setup: &Setup, name: &str, seed: u64, load: &str) -> anyhow::Result<Point> {
    let link = Link::make(seed)?;
    let before = ["ip", "netns", "exec", link.name.as_str()];
    let words = ["--listen", "10.123.0.2:7070"];
    let server = Practice::start(setup, On::ServerCore, &before, &words)?;
    let text = server.scenario(name).replace("bytes = 32", "bytes = 4000") + load;
    let point = point(setup, name, &text)?;
    server.stop()?;
    drop(link);
    Ok(point)
}
