//! An echo of 32 bytes through framing, router, admission and statistics, beside a bare tokio echo.
//!
//! Both on core 0, the press on core 1, in turns. The bare echo gets the payload's bytes alone; the server frames of 52.

use crate::bar::{Bar, Group, Op};
use crate::report::Report;
use crate::rpc::{BareEcho, Load, PAYLOAD, bare, call, start};
use crate::setup::Setup;
use millpond_press_verdict::PAIRS_MIN;
use millpond_press_verdict::Series;

const DEPTH_1: Bar = Bar::new("rpc-echo-d1-over-tokio", Op::AtLeast, 0.85);
const DEPTH_16: Bar = Bar::new("rpc-echo-d16-over-tokio", Op::AtLeast, 0.5);

pub(crate) const GROUP: Group = Group {
    name: "echo",
    title: "an echo of 32 bytes, over a bare tokio echo",
    bars: &[DEPTH_1, DEPTH_16],
    measure,
};

/// Connections, and requests in flight on each.
const LOADS: [(usize, usize); 2] = [(100, 1), (100, 16)];

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let (mut own, mut tokio): ([Series; 2], [Series; 2]) = Default::default();
    report.say("| round | connections | in flight | tokio, req/s | Millpond, req/s | ratio | server CPU, us a request | p99, us |");
    report.say("|---:|---:|---:|---:|---:|---:|---:|---:|");
    for round in 1..=setup.pick(PAIRS_MIN, 1) {
        // Fresh processes each round: where memory lies is a part of the spread.
        let (server, echo) = (start(setup)?, BareEcho::start()?);
        for (at, (connections, in_flight)) in LOADS.into_iter().enumerate() {
            setup.stop.check()?;
            let load = Load {
                connections,
                in_flight,
                seconds: setup.pick(4, 1),
            };
            let name = |who: &str| format!("{who}-{connections}-{in_flight}-{round}");
            let peer = bare(setup, report, &name("tokio"), &echo, load)?;
            let point = call(setup, report, &name("millpond"), &server, ("echo", PAYLOAD), load)?;
            let cpu = point.server_cpu.as_ref().map_or(f64::NAN, |cpu| cpu.seconds);
            report.say(&format!(
                "| {round} | {connections} | {in_flight} | {:.0} | {:.0} | {:.2} | {:.2} | {:.0} |",
                peer.qps,
                point.qps,
                point.qps / peer.qps,
                cpu * 1e6 / point.counters.answers() as f64,
                point.latency.us_p99.unwrap_or(f64::NAN)
            ));
            own[at].measured(point.qps, &point);
            tokio[at].measured(peer.qps, &peer);
        }
        server.stop()?;
    }
    for (bar, at) in [(&DEPTH_1, 0), (&DEPTH_16, 1)] {
        let ratio = own[at].over(&tokio[at]);
        report.bar(bar, ratio.median(), ratio);
    }
    Ok(())
}
