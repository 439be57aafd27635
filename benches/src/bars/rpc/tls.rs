//! An echo of 32 bytes over TLS 1.3, beside the same in clear: one server, two ports, in turns.
//!
//! Handshakes come before the measurement. The press encrypts as well, on its own core; where that is what bounds the
//! figure, the point's verdict says so.

use crate::bar::{Bar, Group, Op};
use crate::report::Report;
use crate::rpc::{Load, PAYLOAD, call, call_tls, start_tls};
use crate::setup::Setup;
use millpond_press_report::Point;
use millpond_press_verdict::PAIRS_MIN;
use millpond_press_verdict::Series;

const DEPTH_16: Bar = Bar::new("rpc-tls-d16-over-plain", Op::AtLeast, 0.6);

pub(crate) const GROUP: Group = Group {
    name: "tls",
    title: "an echo of 32 bytes over TLS, over the same in clear",
    bars: &[DEPTH_16],
    measure,
};

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let load = Load {
        connections: 100,
        in_flight: 16,
        seconds: setup.pick(4, 1),
    };
    let (mut clear, mut tls) = (Series::default(), Series::default());
    report.say("| round | in clear, req/s | TLS, req/s | ratio | server CPU, us a request, in clear and TLS | TLS verdict |");
    report.say("|---:|---:|---:|---:|---:|---|");
    for round in 1..=setup.pick(PAIRS_MIN, 1) {
        setup.stop.check()?;
        let (server, port) = start_tls(setup)?;
        let first = call(
            setup,
            report,
            &format!("clear-{round}"),
            &server,
            ("echo", PAYLOAD),
            load,
        )?;
        let then = call_tls(
            setup,
            report,
            &format!("tls-{round}"),
            (&server, &port),
            ("echo", PAYLOAD),
            load,
        )?;
        let cpu = |point: &Point| {
            let seconds = point.server_cpu.as_ref().map_or(f64::NAN, |cpu| cpu.seconds);
            seconds * 1e6 / point.counters.answers() as f64
        };
        report.say(&format!(
            "| {round} | {:.0} | {:.0} | {:.2} | {:.2} {:.2} | {:?} |",
            first.qps,
            then.qps,
            then.qps / first.qps,
            cpu(&first),
            cpu(&then),
            then.verdict.judgement
        ));
        clear.measured(first.qps, &first);
        tls.measured(then.qps, &then);
        server.stop()?;
    }
    let ratio = tls.over(&clear);
    report.bar(&DEPTH_16, ratio.median(), ratio);
    Ok(())
}
