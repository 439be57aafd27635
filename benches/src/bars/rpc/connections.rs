//! What more connections cost: the echo at 600 and at 4,000 of them, over the same server's at 100.
//!
//! The machine's own speed drifts by more than the bars allow, so the three points are short, follow each other on one server,
//! and are compared within their turn; the bare tokio echo goes through the same turns beside them.

use crate::bar::{Bar, Group, Op};
use crate::report::Report;
use crate::rpc::{BareEcho, Load, PAYLOAD, bare, call, start};
use crate::setup::Setup;
use millpond_press_verdict::Series;

const AT_600: Bar = Bar::new("rpc-echo-600-over-100-connections", Op::AtLeast, 0.9);
const AT_4000: Bar = Bar::new("rpc-echo-4000-over-100-connections", Op::AtLeast, 0.8);

pub(crate) const GROUP: Group = Group {
    name: "connections",
    title: "an echo of 32 bytes at 600 and 4,000 connections, over 100",
    bars: &[AT_600, AT_4000],
    measure,
};

const CONNECTIONS: [usize; 3] = [100, 600, 4000];

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let (mut own, mut tokio): ([Series; 3], [Series; 3]) = Default::default();
    report.say(
        "| process | turn | connections | tokio, req/s | Millpond, req/s | Millpond's CPU, us a request |",
    );
    report.say("|---:|---:|---:|---:|---:|---:|");
    for process in 1..=setup.pick(3, 1) {
        let (server, echo) = (start(setup)?, BareEcho::start()?);
        for turn in 1..=setup.pick(4, 1) {
            for (at, connections) in CONNECTIONS.into_iter().enumerate() {
                setup.stop.check()?;
                let load = Load {
                    connections,
                    in_flight: 1,
                    seconds: setup.pick(2, 1),
                };
                let name = |who: &str| format!("{who}-{connections}-{process}-{turn}");
                let peer = bare(setup, report, &name("tokio"), &echo, load)?;
                let point = call(setup, report, &name("millpond"), &server, ("echo", PAYLOAD), load)?;
                let cpu = point.server_cpu.as_ref().map_or(f64::NAN, |cpu| cpu.seconds);
                report.say(&format!(
                    "| {process} | {turn} | {connections} | {:.0} | {:.0} | {:.2} |",
                    peer.qps,
                    point.qps,
                    cpu * 1e6 / point.counters.answers() as f64,
                ));
                own[at].measured(point.qps, &point);
                tokio[at].measured(peer.qps, &peer);
            }
        }
        server.stop()?;
    }
    for (bar, at) in [(&AT_600, 1), (&AT_4000, 2)] {
        let (ratio, tokio) = (own[at].over(&own[0]), tokio[at].over(&tokio[0]));
        report.say(&format!(
            "{} connections over 100: Millpond {ratio:.2}, tokio {tokio:.2}",
            CONNECTIONS[at]
        ));
        report.bar(bar, ratio.median(), ratio);
    }
    Ok(())
}
