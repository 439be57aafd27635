//! Ten thousand connections that read nothing or never finish a request: what the server keeps for them, and what a well-behaved
//! caller's call takes beside them.
//!
//! Server on core 0, crowd and press on core 1, both kept awake, in processes of their own, since a process here may open 20,000 files. The crowd
//! sends what it has first, then the well-behaved caller is measured beside it; before it came, the same caller was measured on the
//! same server. Its invariants: the limit of memory is what `doctor` computes from the very configuration that is served; and a
//! figure beside the crowd counts only where the server closed none of it for its timeouts, and all that its bounds of
//! bytes do not close, a quarter at least, is still there at the end.

use super::hostile::{BIG, BIG_BYTES, Crowd};
use crate::awake::Awake;
use crate::bar::{Bar, Group, Measure, Op};
use crate::cores;
use crate::report::Report;
use crate::rpc;
use crate::server::Server;
use crate::setup::Setup;
use anyhow::{Context as _, ensure};
use millpond_press_recorder::{CpuSample, process_tree};
use millpond_press_report::Point;
use millpond_press_verdict::{PAIRS_MIN, Series};
use std::process::Command;
use std::time::{Duration, Instant};

const MEMORY: Bar = Bar::new("hardening-crowd-memory-over-doctors-total", Op::AtMost, 1.0);
const P99: Bar = Bar::new("hardening-crowd-p99-over-without", Op::AtMost, 2.0);

pub(crate) const GROUP: Group = Group {
    name: "crowd",
    measure: Measure::Code {
        title: "10,000 connections that read nothing or never finish a request: memory, and a well-behaved caller's p99 beside those that the bounds leave",
        bars: &[MEMORY, P99],
        run: measure,
    },
};

/// Connections of the well-behaved caller, and the press' own beside them.
const OTHERS: usize = 100;
/// How long the server may work on what they send, and how long it must do next to nothing to be done.
const SETTLE_MAX: Duration = Duration::from_secs(120);
const SETTLE_WINDOW: Duration = Duration::from_millis(500);
/// The server's timeouts: longer than the crowd takes to settle, and than the caller beside it is measured at most, eight times over.
const TIMEOUT_S: u32 = 900;

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let count = setup.pick(10_000, 1_000);
    let config = config(setup)?;
    // A virtual core that sleeps comes back a millisecond late, ten times what a call takes here: both sides would measure that.
    let _awake = (!setup.keep_awake).then(Awake::keep).transpose()?;
    report.say("both cores are kept awake by loops of idle priority");
    let set = [format!("server.connections_max={}", count + OTHERS)];
    let total = total(setup, &config, &set[0]);
    match &total {
        Ok(total) => report.say(&format!(
            "doctor's total for this configuration: {:.0} MB",
            total / 1e6
        )),
        Err(error) => report.say(&format!("no bar of memory: {error:#}")),
    }
    let (mut alone, mut beside, mut memory) = (Series::default(), Series::default(), Series::default());
    report.say("| round | callers, closed while they sent | they sent, MB | server before, MB | at most | p99 alone, us | beside them | ratio | closed by its bounds | there before the point | and after it |");
    report.say("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for round in 1..=setup.pick(PAIRS_MIN, 1) {
        setup.stop.check()?;
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let server = Server::start(setup, &format!("crowd-{round}"), &config, &set)?;
        let quiet = call(setup, report, &server, &format!("crowd-alone-{round}"))?;
        let before = memory_bytes(server.pid(), "VmRSS:")?;
        let crowd = cores::on(cores::PRESS, || Crowd::gather(&server.address, count))?;
        settle(setup, server.pid())?;
        let (there, _) = still_there(&server, count)?;
        let crowded = call(setup, report, &server, &format!("crowd-beside-{round}"))?;
        let most = memory_bytes(server.pid(), "VmHWM:")?;
        // The crowd does not come back, so that it was there in every try of the point.
        let (left, bounded) = still_there(&server, count)?;
        let us = |point: &Point| point.latency.us_p99.context("too few samples for a p99");
        let (quiet_us, crowded_us) = (us(&quiet)?, us(&crowded)?);
        report.say(&format!(
            "| {round} | {}, {} | {:.0} | {:.1} | {:.1} | {quiet_us:.0} | {crowded_us:.0} | {:.2} | {bounded} | {there} | {left} |",
            crowd.len(),
            crowd.closed,
            crowd.sent_bytes as f64 / 1e6,
            before / 1e6,
            most / 1e6,
            crowded_us / quiet_us,
        ));
        drop(crowd);
        // Not how well it stops: that is another bar, of a drain that no caller prolongs.
        server.end()?;
        alone.measured(quiet_us, &quiet);
        beside.measured(crowded_us, &crowded);
        if let Ok(total) = &total {
            memory.push(most / total);
        }
    }
    if total.is_ok() {
        report.bar(&MEMORY, memory.max(), memory);
    }
    let ratio = beside.over(&alone);
    report.bar(&P99, ratio.median(), ratio);
    Ok(())
}

/// How many of a crowd of `count` the server has, and how many it closed by its bounds of bytes: together all of them.
pub(super) fn still_there(server: &Server, count: usize) -> anyhow::Result<(f64, f64)> {
    let page = server.metrics()?;
    let sum = |name: &str, label: &str, values: &[&str]| -> anyhow::Result<f64> {
        let each = values
            .iter()
            .map(|value| page.value(&format!("{name}{{{label}=\"{value}\"}}")));
        each.sum()
    };
    let reasons = ["request", "rest_of_request", "reader"];
    let overdue = sum("millpond_connections_overdue_total", "for", &reasons)?;
    let kinds = ["slow_reader", "write_buffers"];
    let bounded = sum("millpond_connections_cut_total", "kind", &kinds)?
        + page.value("millpond_refused_total{reason=\"unfinished\"}")?;
    let there = page.value("millpond_connections")?;
    is_crowd(there, bounded, overdue, count)?;
    Ok((there, bounded))
}

/// Whether a crowd of `count` is one still. Of 10,000 the bounds of 256 MiB leave about 3,200.
fn is_crowd(there: f64, bounded: f64, overdue: f64, count: usize) -> anyhow::Result<()> {
    ensure!(
        overdue == 0.0,
        "the server closed {overdue} connections for its timeouts: the crowd left while it was measured"
    );
    ensure!(
        there + bounded >= count as f64,
        "of a crowd of {count}, {there} connections are there and {bounded} were closed by the server's bounds: where are the others?"
    );
    let least = (count / 4) as f64;
    ensure!(
        there >= least,
        "{there} connections are left of a crowd of {count}, {bounded} were closed by the server's bounds; at least {least} make one"
    );
    Ok(())
}

/// Waits until the server has taken what the crowd sent: from then on it has nothing to do.
fn settle(setup: &Setup, pid: u32) -> anyhow::Result<()> {
    let used = || CpuSample::of_all(&process_tree(pid)).context("the server's process is not there");
    let until = Instant::now() + SETTLE_MAX;
    let mut before = used()?;
    loop {
        setup.pause(SETTLE_WINDOW)?;
        let now = used()?;
        if before.seconds_until(&now) < SETTLE_WINDOW.as_secs_f64() / 20.0 {
            return Ok(());
        }
        ensure!(
            Instant::now() < until,
            "the server still works on what the crowd sent after {} s",
            SETTLE_MAX.as_secs()
        );
        before = now;
    }
}

/// The server: an echo, and a method whose answer is large.
pub(super) fn config(setup: &Setup) -> anyhow::Result<String> {
    let config = setup.out.join("crowd.toml");
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nthreads = 1\ncpus = [{}]\ndrain_ms_max = 2000\n\
         idle_timeout_s = {TIMEOUT_S}\nrequest_timeout_s = {TIMEOUT_S}\nwrite_timeout_s = {TIMEOUT_S}\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nlevel = 5\n\
         [methods.echo]\nkind = \"echo\"\n[methods.{BIG}]\nanswer = {{ text = \"{}\" }}\n",
        cores::SERVER,
        "x".repeat(BIG_BYTES)
    );
    std::fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
    Ok(config.display().to_string())
}

/// The well-behaved caller: an open loop far below what the server can.
fn call(setup: &Setup, report: &mut Report, server: &Server, name: &str) -> anyhow::Result<Point> {
    let load = format!(
        "[load]\nconnections = [8]\nrate = [2000]\narrivals = \"poisson\"\nin_flight = 16\nduration_s = {}\nwarmup_s_max = 1\n\
         client_cpus = [{}]\n",
        setup.pick(6, 2),
        cores::PRESS
    );
    rpc::echo(setup, report, name, server, &load)
}

/// A figure of /proc/PID/status in bytes, such as `VmRSS:`.
fn memory_bytes(pid: u32, name: &str) -> anyhow::Result<f64> {
    let file = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    let kib = status.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?.trim();
        rest.strip_suffix("kB")?.trim().parse::<f64>().ok()
    });
    Ok(kib.with_context(|| format!("{file} has no {name}"))? * 1024.0)
}

/// What callers can hold in all, as `doctor` computes it, in bytes.
fn total(setup: &Setup, config: &str, set: &str) -> anyhow::Result<f64> {
    let mut doctor = Command::new(&setup.millpond);
    doctor.args(["doctor", "--json", "--config", config, "--set", set]);
    let output = doctor.output().context("cannot run `millpond doctor`")?;
    let found: Vec<serde_json::Value> =
        serde_json::from_slice(&output.stdout).context("`millpond doctor --json` says no JSON")?;
    let bytes_max = found.iter().find_map(|finding| finding["bytes_max"].as_f64());
    bytes_max.context("`millpond doctor --json` says no `bytes_max`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_that_left_is_none() {
        let check = |there, bounded, overdue, expected| {
            assert_eq!(
                is_crowd(there, bounded, overdue, 10_000).is_ok(),
                expected,
                "{there} {bounded} {overdue}"
            );
        };
        check(10_000.0, 0.0, 0.0, true);
        check(2_500.0, 7_500.0, 0.0, true);
        check(2_499.0, 7_501.0, 0.0, false);
        // Some are gone for a reason that nobody counts.
        check(9_999.0, 0.0, 0.0, false);
        check(8.0, 0.0, 0.0, false);
        check(9_999.0, 1.0, 1.0, false);
    }
}
