//! R1 with the connection limit at 1,000 and 3,000 connections offered: the others are told, and the first keep their rate.
//!
//! As in R1, each connection sends a fixed number of requests and a refused one is not tried again. What happens when the
//! refused come back again and again is printed beside it, and is no bar. Its invariant: the server's own count of refused
//! connections is what "every" means.

use crate::bar::{Bar, Group, Op};
use crate::press::{self, Amount, Load};
use crate::r1;
use crate::report::Report;
use crate::server::Server;
use crate::setup::Setup;
use anyhow::ensure;
use millpond_press_report::Point;
use millpond_press_verdict::Conditions;
use millpond_press_verdict::PAIRS_MIN;
use millpond_press_verdict::Series;

const TOLD: Bar = Bar::new("r1-refused-told-share", Op::Equal, 1.0);
const KEPT: Bar = Bar::new("r1-admitted-rate-kept", Op::AtLeast, 0.90);

pub(crate) const GROUP: Group = Group {
    name: "refusal",
    title: "connection limit 1,000, 3,000 offered",
    bars: &[TOLD, KEPT],
    measure,
};

const LIMIT: usize = 1000;
const OFFERED: usize = 3000;
const OVERLOADED: u32 = 30_101;

/// A point, and how many connections the server counts as refused in it.
struct Refusing {
    point: Point,
    refused: f64,
}

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    r1::prepare(setup)?;
    let limit = format!("server.connections_max={LIMIT}");
    let server = Server::start_r1(setup, "refusal", &[&limit, "log.level=5"])?;
    let counted = Amount::Requests(setup.pick(100, 10));
    let (mut alone, mut beside, mut told) = (Series::default(), Series::default(), Series::default());
    report.say("| round | 1,000 alone, qps | with 2,000 refused, qps | refused | told | refusal p50 ms | refusal max ms |");
    report.say("|---:|---:|---:|---:|---:|---:|---:|");
    for round in 1..=setup.pick(PAIRS_MIN, 1) {
        let name = |what: &str| format!("refusal-{what}-{round}");
        let quiet = offer(setup, &server, &name("alone"), LIMIT, counted)?;
        ensure!(
            quiet.refused == 0.0,
            "{} of {LIMIT} connections were refused",
            quiet.refused
        );
        let crowd = offer(setup, &server, &name("crowd"), OFFERED, counted)?;
        ensure!(
            crowd.refused >= (OFFERED - LIMIT) as f64,
            "the server refused {} of {OFFERED} connections with a limit of {LIMIT}",
            crowd.refused
        );
        let told_count = crowd
            .point
            .counters
            .refused
            .get(&OVERLOADED)
            .copied()
            .unwrap_or(0);
        alone.measured(quiet.point.qps, &quiet.point);
        beside.under(
            crowd.point.qps,
            Conditions::with_refused_connections(&crowd.point),
        );
        // A count, which no noise changes.
        told.push(told_count as f64 / crowd.refused);
        let ms = |us: Option<f64>| us.map_or("-".into(), |us| format!("{:.1}", us / 1e3));
        let latency = &crowd.point.latency_refused;
        report.say(&format!(
            "| {round} | {:.0} | {:.0} | {} | {told_count} | {} | {} |",
            quiet.point.qps,
            crowd.point.qps,
            crowd.refused,
            ms(latency.us_p50),
            ms(latency.us_max)
        ));
    }
    let kept = beside.over(&alone);
    report.say(&format!("\nrate kept, median of the rounds: {kept:.3}\n"));
    report.bar(&TOLD, told.farthest_from(1.0), told);
    report.bar(&KEPT, kept.median(), kept);
    if let Err(error) = insistent(setup, report, &server) {
        report.say(&format!("no bar, and not measured: {error:#}"));
    }
    server.stop()
}

fn offer(
    setup: &Setup,
    server: &Server,
    name: &str,
    connections: usize,
    amount: Amount,
) -> anyhow::Result<Refusing> {
    server.wait_quiet()?;
    let refused = || server.metrics()?.value("millpond_connections_refused_total");
    let before = refused()?;
    let load = Load {
        connections,
        amount,
        warm_up: 0.0,
    };
    let point = press::point(setup, name, server, &load)?;
    Ok(Refusing {
        point,
        refused: refused()? - before,
    })
}

/// Refused connections that are tried again, each up to once a second: not R1's load, but what retries would do.
fn insistent(setup: &Setup, report: &mut Report, server: &Server) -> anyhow::Result<()> {
    let seconds = Amount::Seconds(setup.pick(5.0, 1.0));
    let quiet = offer(setup, server, "refusal-insist-alone", LIMIT, seconds)?;
    let crowd = offer(setup, server, "refusal-insist-crowd", OFFERED, seconds)?;
    report.say(&format!(
        "no bar: with the refused trying again all the time, {:.0} refusals a second, {:.0} qps of {:.0} alone are left ({:.3})",
        crowd.point.counters.refused_total() as f64 / (crowd.point.us_total as f64 / 1e6),
        crowd.point.qps,
        quiet.point.qps,
        crowd.point.qps / quiet.point.qps
    ));
    Ok(())
}
