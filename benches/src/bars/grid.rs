//! R1's grid at level 5: what is left of the best point's rate at three thousand connections.
//!
//! The scenario is press/scenarios/r1-recommand.toml, server on core 0, press on core 1, connection limit 4,000; a new server
//! each repeat. Small points last a fraction of a second, so each point's figure is the median of the repeats. The grid takes
//! minutes, in which a shared machine drifts by more than the bar allows: so the best point and the largest are then run
//! against each other on one server, in turns, and the bar is their ratio. Its invariant: an answer that was refused, wrong or
//! late leaves no figure.

use crate::bar::{Bar, Group, Op};
use crate::press::{Amount, Load};
use crate::report::Report;
use crate::server::Server;
use crate::setup::Setup;
use crate::{press, r1};
use anyhow::{Context as _, ensure};
use millpond_press_report::Point;
use millpond_press_verdict::PAIRS_MIN;
use millpond_press_verdict::Series;

const OVER_BEST: Bar = Bar::new("r1-qps-3000-over-best", Op::AtLeast, 0.90);

pub(crate) const GROUP: Group = Group {
    name: "grid",
    title: "R1's grid, level 5, connection limit 4,000",
    bars: &[OVER_BEST],
    measure,
};

const SCENARIO: &str = "press/scenarios/r1-recommand.toml";
const LIMIT: usize = 4000;
const MANY: usize = 3000;

/// One number of connections, over the repeats.
#[derive(Default)]
struct Row {
    connections: usize,
    qps: Series,
    ms_mean: Series,
    ms_p50: Series,
    ms_p99: Series,
    server_cores: Series,
    client_cores: Series,
}

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    r1::prepare(setup)?;
    let each = setup.pick(100, 10);
    let mut rows: Vec<Row> = Vec::new();
    for repeat in 1..=setup.pick(3, 1) {
        let set = vec![
            format!("server.command={}", server_command()?),
            "grid.log_level=[5]".into(),
            format!("load.requests_per_connection={each}"),
        ];
        let outcome = press::scenario(setup, SCENARIO, &format!("grid-{repeat}"), set)?;
        report.say(&outcome.markdown);
        for (at, point) in outcome.result.points.iter().enumerate() {
            if rows.len() <= at {
                rows.push(Row::default());
            }
            rows[at].add(point, each)?;
        }
    }
    print(report, &rows);
    let best = rows
        .iter()
        .max_by(|a, b| a.qps.median().total_cmp(&b.qps.median()));
    let many = rows.iter().find(|row| row.connections == MANY);
    let (best, many) = best
        .zip(many)
        .context("the scenario has no point of 3,000 connections")?;
    report.say(&format!(
        "\nin the grid: {:.0} qps at {MANY} connections, best {:.0} qps at {}; run by run {:.3}\n",
        many.qps.median(),
        best.qps.median(),
        best.connections,
        many.qps.over(&best.qps)
    ));
    let ratios = take_turns(setup, report, best.connections)?;
    report.bar(&OVER_BEST, ratios.median(), ratios);
    Ok(())
}

/// The largest point's rate over the best one's, a value a round.
fn take_turns(setup: &Setup, report: &mut Report, best: usize) -> anyhow::Result<Series> {
    let limit = format!("server.connections_max={LIMIT}");
    let server = Server::start_r1(setup, "grid-turns", &[&limit, "log.level=5"])?;
    let run = |connections: usize, round: usize| -> anyhow::Result<Point> {
        setup.stop.check()?;
        let load = Load {
            connections,
            amount: Amount::Seconds(setup.pick(10.0, 2.0)),
            warm_up: 0.5,
        };
        let point = press::point(setup, &format!("turn-{round}-{connections}"), &server, &load)?;
        server.wait_quiet()?;
        let refused = point.counters.refused_total();
        ensure!(refused == 0, "{connections} connections: {refused} refused");
        Ok(point)
    };
    let (mut fewer, mut more) = (Series::default(), Series::default());
    report.say(&format!(
        "| round | {best} connections, qps | {MANY} connections, qps | ratio |"
    ));
    report.say("|---:|---:|---:|---:|");
    for round in 1..=setup.pick(PAIRS_MIN, 1) {
        // Each is first in turn.
        let (few, many) = if round % 2 == 1 {
            let few = run(best, round)?;
            (few, run(MANY, round)?)
        } else {
            let many = run(MANY, round)?;
            (run(best, round)?, many)
        };
        let ratio = many.qps / few.qps;
        report.say(&format!(
            "| {round} | {:.0} | {:.0} | {ratio:.3} |",
            few.qps, many.qps
        ));
        fewer.measured(few.qps, &few);
        more.measured(many.qps, &many);
    }
    server.stop()?;
    let ratios = more.over(&fewer);
    report.say(&format!("\nratio, median of the rounds: {ratios:.3}\n"));
    Ok(ratios)
}

/// The scenario's command with the limit and the knobs of one core.
fn server_command() -> anyhow::Result<String> {
    let limit = format!("server.connections_max={LIMIT}");
    let mut words = vec!["{millpond}", "serve", "--config", "{config}"];
    for pair in ["log.level={log_level}", &limit].iter().chain(r1::ONE_CORE) {
        words.extend(["--set", pair]);
    }
    // An array of strings is the same in JSON and in TOML.
    Ok(serde_json::to_string(&words)?)
}

impl Row {
    fn add(&mut self, point: &Point, each: u64) -> anyhow::Result<()> {
        let (answers, offered) = (point.counters.answers(), point.offered.connections as u64 * each);
        ensure!(
            answers == offered,
            "{} connections: {answers} answers to {offered} requests, {} refused",
            point.offered.connections,
            point.counters.refused_total()
        );
        let ms = |us: Option<f64>| us.map_or(f64::NAN, |us| us / 1e3);
        self.connections = point.offered.connections;
        self.qps.measured(point.qps, point);
        self.ms_mean
            .push(point.latency.us_mean.map_or(f64::NAN, |us| us / 1e3));
        self.ms_p50.push(ms(point.latency.us_p50));
        self.ms_p99.push(ms(point.latency.us_p99));
        self.server_cores
            .push(point.server_cpu.map_or(f64::NAN, |cpu| cpu.percent / 1e2));
        self.client_cores
            .push(point.client_cpu.map_or(f64::NAN, |cpu| cpu.percent / 1e2));
        Ok(())
    }
}

fn print(report: &mut Report, rows: &[Row]) {
    report.say(
        "| connections | qps, median (min..max) | mean ms | p50 ms | p99 ms | cores, server | cores, press |",
    );
    report.say("|---:|---:|---:|---:|---:|---:|---:|");
    for row in rows {
        report.say(&format!(
            "| {} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
            row.connections,
            row.qps,
            row.ms_mean.median(),
            row.ms_p50.median(),
            row.ms_p99.median(),
            row.server_cores.median(),
            row.client_cores.median(),
        ));
    }
}
