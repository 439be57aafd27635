//! FPNN's own demo request, beside the figures of FPNN's server.
//!
//! Those are reference figures, measured once on a machine of this kind (FPNN 1.3.1, one core, an epoll client of its own)
//! and not in the same run: the registries do not have it.

use crate::bar::{Bar, Group, Op};
use crate::cores;
use crate::report::Report;
use crate::rpc::{DEMO, Load, call, point, start};
use crate::setup::Setup;
use anyhow::Context as _;
use millpond_press_verdict::Series;

/// Requests a second of FPNN's server at 100 connections, with 1 and with 16 in flight.
const FPNN_QPS: [f64; 2] = [90_000.0, 155_000.0];
const METHOD: &str = "two way demo";

const DEPTH_1: Bar = Bar::new("rpc-fpnn-demo-d1-over-reference", Op::AtLeast, 1.4);
const DEPTH_16: Bar = Bar::new("rpc-fpnn-demo-d16-over-reference", Op::AtLeast, 7.0);
const P99: Bar = Bar::new("rpc-fpnn-demo-us-p99-at-50k", Op::AtMost, 1000.0);

pub(crate) const GROUP: Group = Group {
    name: "fpnn",
    title: "FPNN's demo request of 145 bytes, over FPNN's reference figures, and in an open loop",
    bars: &[DEPTH_1, DEPTH_16, P99],
    measure,
};

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let mut qps: [Series; 2] = Default::default();
    let mut p99 = Series::default();
    let seconds = setup.pick(5, 1);
    report.say("| round | in flight 1, req/s | in flight 16, req/s | open loop at 50,000/s: p99, us |");
    report.say("|---:|---:|---:|---:|");
    for round in 1..=setup.pick(5, 1) {
        setup.stop.check()?;
        let server = start(setup)?;
        let mut found = [0.0; 2];
        for (at, in_flight) in [1, 16].into_iter().enumerate() {
            let load = Load {
                connections: 100,
                in_flight,
                seconds,
            };
            let name = format!("demo-{in_flight}-{round}");
            let point = call(setup, report, &name, &server, (METHOD, DEMO), load)?;
            found[at] = point.qps;
            qps[at].measured(point.qps / FPNN_QPS[at], &point);
        }
        let open = format!(
            "[load]\nconnections = [100]\nrate = [50000]\narrivals = \"poisson\"\nduration_s = {seconds}\nwarmup_s_max = 2\n\
             client_cpus = [{}]\n",
            cores::PRESS
        );
        let open = point(
            setup,
            report,
            &format!("demo-open-{round}"),
            &server,
            (METHOD, DEMO),
            &open,
        )?;
        let us = open.latency.us_p99.context("too few samples for a p99")?;
        p99.measured(us, &open);
        report.say(&format!(
            "| {round} | {:.0} | {:.0} | {us:.0} |",
            found[0], found[1]
        ));
        server.stop()?;
    }
    for (bar, at) in [(&DEPTH_1, 0), (&DEPTH_16, 1)] {
        report.bar(bar, qps[at].median(), qps[at].clone());
    }
    report.bar(&P99, p99.median(), p99);
    Ok(())
}
