//! Lookups over ten nodes with two replicas each, twenty processes: how much later the last of ten answers is than with a bare
//! fan-out of the same bytes, and what a node that stops or is killed costs.
//!
//! All servers run on core 0, the client on core 1, so that twenty processes share what each would have alone: the figures say
//! what the fan-out costs beside a bare one, not how many requests ten machines answer. Its invariants: latencies count from when
//! a request was to be sent, and an answer with a key missing or not found is a failure.

mod bare;
mod load;
mod servers;

use crate::awake::Awake;
use crate::bar::{Bar, Group, Measure, Op};
use crate::report::Report;
use crate::setup::Setup;
use crate::{cores, idle};
use load::{Load, Sample};
use millpond_client_rust::{NodesClient, NodesCounts, NodesOptions};
use millpond_press_verdict::{BarOutcome, Conditions, PAIRS_MIN, Series};
use rustix::process::Signal;
use servers::Servers;
use std::future::ready;
use std::time::Duration;

const OF_100: Bar = Bar::new("features-nodes-100-p99-over-bare", Op::AtMost, 1.5);
const OF_500: Bar = Bar::new("features-nodes-500-p99-over-bare", Op::AtMost, 1.5);
const OF_1000: Bar = Bar::new("features-nodes-1000-p99-over-bare", Op::AtMost, 1.5);
const STOP_FAILED: Bar = Bar::new("features-nodes-stop-failed", Op::Equal, 0.0);
const STOP_SLOW: Bar = Bar::new("features-nodes-stop-slow-percent", Op::AtMost, 2.0);
const KILL_FAILED: Bar = Bar::new("features-nodes-kill-failed", Op::Equal, 0.0);

pub(crate) const GROUP: Group = Group {
    name: "features-nodes",
    measure: Measure::Code {
        title: "ten nodes with two replicas, twenty processes: p99 beside a bare ten-way fan-out, a node that stops, one that is killed",
        bars: &[OF_100, OF_500, OF_1000, STOP_FAILED, STOP_SLOW, KILL_FAILED],
        run: measure,
    },
};

/// Requests a second beside the bare fan-out.
const QPS: u32 = 100;
/// Requests a second while a node stops or is killed.
const QPS_OF_FAULTS: u32 = 1_000;
/// Keys of a request while a node stops or is killed.
const KEYS_OF_FAULTS: usize = 100;

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    // A virtual core that sleeps comes back a millisecond late, longer than a call takes: both sides would measure that.
    let _awake = (!setup.keep_awake).then(Awake::keep).transpose()?;
    report.say("both cores are kept awake by loops of idle priority");
    let mut servers = Servers::start(setup)?;
    for (bar, keys) in [(OF_100, 100), (OF_500, 500), (OF_1000, 1_000)] {
        beside_bare(setup, report, &servers, &bar, keys)?;
    }
    stopped(setup, report, &servers)?;
    killed(setup, report, &mut servers)?;
    Ok(())
}

/// Pairs of loads in turns: Millpond's nodes, and the bare ones.
fn beside_bare(
    setup: &Setup,
    report: &mut Report,
    servers: &Servers,
    bar: &Bar<'_>,
    keys: usize,
) -> anyhow::Result<()> {
    let bare = bare::Bare::start(setup, keys, servers)?;
    let load = Load {
        qps: QPS,
        count: setup.pick(1_000, 60),
        keys,
        rows: servers.rows,
    };
    report.say(&format!(
        "\n| pair | {keys} keys: p50, us | p99, us | p99.9, us | hedges of copies | bare p50, us | bare p99, us | p99 over bare |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|"
    ));
    let (mut own, mut beside) = (Series::default(), Series::default());
    let (mut all, mut all_bare) = (Vec::new(), Vec::new());
    for pair in 1..=setup.pick(PAIRS_MIN, 1) {
        setup.stop.check()?;
        let ((samples, counts), stolen) = idle::watched(|| nodes(servers, load, |_| ()))?;
        anyhow::ensure!(
            samples.iter().all(|sample| sample.ok),
            "a lookup failed on an idle machine"
        );
        let (of_bare, stolen_of_bare) =
            idle::watched(|| cores::on(cores::PRESS, || load::run(load, bare.caller(), |_| ())))?;
        anyhow::ensure!(
            of_bare.iter().all(|sample| sample.ok),
            "a bare node did not answer"
        );
        let (us, bare_us) = (load::us(&samples), load::us(&of_bare));
        let p99 = load::percentile(&us, 99.0);
        let bare_p99 = load::percentile(&bare_us, 99.0);
        report.say(&format!(
            "| {pair} | {:.0} | {p99:.0} | {:.0} | {} of {} | {:.0} | {bare_p99:.0} | {:.2} |",
            load::percentile(&us, 50.0),
            load::percentile(&us, 99.9),
            counts.hedged,
            counts.sent,
            load::percentile(&bare_us, 50.0),
            p99 / bare_p99,
        ));
        own.under(p99, Conditions::without_load(stolen));
        beside.under(bare_p99, Conditions::without_load(stolen_of_bare));
        all.extend(us);
        all_bare.extend(bare_us);
    }
    for us in [&mut all, &mut all_bare] {
        us.sort_by(f64::total_cmp);
    }
    report.say(&format!(
        "\n{keys} keys, all pairs: p99.9 {:.0} us, of the bare fan-out {:.0} us ({} requests each)",
        load::percentile(&all, 99.9),
        load::percentile(&all_bare, 99.9),
        all.len()
    ));
    report.outcome(BarOutcome::of_upper_end(bar, own.over(&beside)));
    Ok(())
}

/// One process stops for a second, in the middle of three.
fn stopped(setup: &Setup, report: &mut Report, servers: &Servers) -> anyhow::Result<()> {
    let (mut failed, mut slow) = (Series::default(), Series::default());
    let qps = setup.pick(QPS_OF_FAULTS, 50);
    report.say("\n| node stopped | p99 before, us | failed | slower than 3 x that in its second, % | hedges of copies |\n|---|---:|---:|---:|---:|");
    for round in 0..setup.pick(3, 1) {
        setup.stop.check()?;
        let load = load_of_faults(servers, qps);
        let node = round * 7 % servers.len();
        let (samples, counts) = nodes(servers, load, |at| match at {
            _ if at == qps as usize => servers.signal(node, Signal::STOP),
            _ if at == 2 * qps as usize => servers.signal(node, Signal::CONT),
            _ => {}
        })?;
        let second = |number: usize| {
            samples
                .iter()
                .skip(number * qps as usize)
                .take(qps as usize)
                .copied()
                .collect::<Vec<Sample>>()
        };
        let usual = load::percentile(&load::us(&second(0)), 99.0);
        let of_second = load::us(&second(1));
        let slower = of_second.iter().filter(|us| **us > 3.0 * usual).count();
        let slower = 100.0 * slower as f64 / of_second.len() as f64;
        let lost = samples.iter().filter(|sample| !sample.ok).count();
        report.say(&format!(
            "| {} | {usual:.0} | {lost} | {slower:.2} | {} of {} |",
            servers.name(node),
            counts.hedged,
            counts.sent
        ));
        failed.push(lost as f64);
        slow.push(slower);
    }
    report.bar(&STOP_FAILED, failed.max(), failed);
    report.bar(&STOP_SLOW, slow.max(), slow);
    Ok(())
}

/// One process is killed after a second, and stays away.
fn killed(setup: &Setup, report: &mut Report, servers: &mut Servers) -> anyhow::Result<()> {
    let mut failed = Series::default();
    let qps = setup.pick(QPS_OF_FAULTS, 50);
    report.say("\n| node killed | failed | copies that failed | of copies |\n|---|---:|---:|---:|");
    for round in 0..setup.pick(3, 1) {
        setup.stop.check()?;
        let load = load_of_faults(servers, qps);
        let node = (1 + round * 7) % servers.len();
        let (samples, counts) = nodes(servers, load, |at| {
            if at == qps as usize {
                servers.signal(node, Signal::KILL);
            }
        })?;
        let lost = samples.iter().filter(|sample| !sample.ok).count();
        report.say(&format!(
            "| {} | {lost} | {} | {} |",
            servers.name(node),
            counts.failed,
            counts.sent
        ));
        failed.push(lost as f64);
        servers.start_again(setup, node)?;
    }
    report.bar(&KILL_FAILED, failed.max(), failed);
    Ok(())
}

fn load_of_faults(servers: &Servers, qps: u32) -> Load {
    Load {
        qps,
        count: 3 * qps as usize,
        keys: KEYS_OF_FAULTS,
        rows: servers.rows,
    }
}

/// Offers a load to a new client of all nodes. `event` is called before each request with its number.
fn nodes(
    servers: &Servers,
    load: Load,
    event: impl Fn(usize) + Send,
) -> anyhow::Result<(Vec<Sample>, NodesCounts)> {
    let client = NodesClient::new(servers.map()?, NodesOptions::default())?;
    let caller = {
        let client = client.clone();
        move || {
            let client = client.clone();
            ready(Ok(move |keys: Vec<u64>| {
                let client = client.clone();
                async move {
                    let asked = keys.len();
                    let rows = client
                        .lookup(&servers::lookup(keys, None, None), Some(Duration::from_secs(10)))
                        .await;
                    rows.is_ok_and(|rows| {
                        let found: u32 = rows.found.iter().map(|byte| byte.count_ones()).sum();
                        rows.missing.is_empty() && found as usize == asked
                    })
                }
            }))
        }
    };
    let samples = cores::on(cores::PRESS, || load::run(load, caller, event))?;
    Ok((samples, client.counts()))
}
