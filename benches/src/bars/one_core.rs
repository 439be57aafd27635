//! R1 on one core over HTTP/JSON: against the report's 910 qps, and against the bare loop on the same core.
//!
//! Server on core 0 with all its threads, press on core 1, every answer compared; bare loop and server take turns, and each
//! round's server is compared with the round's loop. What the server does beside the loop's work is printed in three
//! tables. Its invariant: both do the same requests, in the same run, on the same core.

use crate::bar::{Bar, Group, Op};
use crate::bare_loop::{BareLoop, PARTS, Round};
use crate::press::{self, Amount, Load};
use crate::report::Report;
use crate::server::Server;
use crate::setup::Setup;
use crate::threads::{self, Threads};
use crate::{cores, model_rows, r1, ticks};
use millpond_press_report::Point;
use millpond_press_verdict::Conditions;
use millpond_press_verdict::PAIRS_MIN;
use millpond_press_verdict::Series;
use std::time::Duration;

const OVER_REPORT: Bar = Bar::new("r1-qps-over-report", Op::AtLeast, 8.0);
const OVER_LOOP: Bar = Bar::new("r1-qps-over-bare-loop", Op::AtLeast, 0.5);

pub(crate) const GROUP: Group = Group {
    name: "one-core",
    title: "R1 on one core, 256 -> 512 -> 256 -> 1, batch 15, HTTP/JSON",
    bars: &[OVER_REPORT, OVER_LOOP],
    measure,
};

/// What the original's service did a core, in requests a second.
const REPORT_QPS: f64 = 910.0;
const CONNECTIONS: usize = 32;
const WARM_UP: f64 = 0.5;

/// Sums of `/metrics` that grow with every request.
const SUMS: [&str; 5] = [
    "millpond_calls_total{method=\"infer\"}",
    "millpond_call_seconds_sum{method=\"infer\"}",
    "millpond_model_queue_seconds_total{model=\"r1\"}",
    "millpond_model_compute_seconds_total{model=\"r1\"}",
    "millpond_model_batches_total{model=\"r1\"}",
];

/// One round of the server, and what it used.
struct Served {
    point: Point,
    /// What [`SUMS`] grew by, the few warm-up requests included.
    sums: [f64; SUMS.len()],
    threads: Threads,
}

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    r1::prepare(setup)?;
    let span = Duration::from_secs_f64(setup.pick(5.0, 1.0));
    let mut bare = cores::on(cores::SERVER, BareLoop::open)?;
    let server = Server::start_r1(setup, "one-core", &["log.level=5"])?;
    let (mut bare_qps, mut served_qps) = (Series::default(), Series::default());
    let mut last = None;
    report.say(
        "| round | bare loop, qps | server, qps | server over loop | p50 us | p99 us | requests a run |",
    );
    report.say("|---:|---:|---:|---:|---:|---:|---:|");
    for round in 1..=setup.pick(PAIRS_MIN, 1) {
        setup.stop.check()?;
        let (alone, stolen) = ticks::watched(|| cores::on(cores::SERVER, || bare.run(span)))?;
        let served = serve(setup, &server, round, span)?;
        let (qps, latency) = (served.point.qps, &served.point.latency);
        let us = |us: Option<f64>| us.map_or("-".into(), |us| format!("{us:.0}"));
        report.say(&format!(
            "| {round} | {:.0} | {qps:.0} | {:.3} | {} | {} | {:.2} |",
            alone.qps(),
            qps / alone.qps(),
            us(latency.us_p50),
            us(latency.us_p99),
            served.sums[0] / served.sums[4]
        ));
        bare_qps.under(alone.qps(), Conditions::without_load(stolen));
        served_qps.measured(qps, &served.point);
        last = Some(served);
    }
    server.stop()?;
    let by_rows = cores::on(cores::SERVER, || model_rows::measure(setup.pick(15, 3)))?;
    let parts = cores::on(cores::SERVER, || bare.run_in_parts(span))?;
    if let Some(served) = &last {
        explain(report, served, &parts);
    }
    explain_model(report, &by_rows);
    let over_loop = served_qps.over(&bare_qps);
    let over_report = served_qps.over(&(0..PAIRS_MIN).map(|_| REPORT_QPS).collect());
    report.say(&format!(
        "\nserver {served_qps:.0} qps, bare loop {bare_qps:.0} qps, round by round {over_loop:.3}\n"
    ));
    report.bar(&OVER_REPORT, over_report.median(), over_report);
    report.bar(&OVER_LOOP, over_loop.median(), over_loop);
    Ok(())
}

/// The model alone: what a batch costs.
fn explain_model(report: &mut Report, table: &[model_rows::Row]) {
    report.say(
        "\nThe model alone, by the rows of a run: us a run, median (min..max), and the median for a row:\n",
    );
    report.say("| rows | prepared for | a row | not prepared for | a row |");
    report.say("|---:|---:|---:|---:|---:|");
    for row in table {
        let each = |series: &Series| series.median() / row.rows as f64;
        report.say(&format!(
            "| {} | {:.0} | {:.1} | {:.0} | {:.1} |",
            row.rows,
            row.prepared,
            each(&row.prepared),
            row.unprepared,
            each(&row.unprepared)
        ));
    }
}

fn serve(setup: &Setup, server: &Server, round: usize, span: Duration) -> anyhow::Result<Served> {
    let load = Load {
        connections: CONNECTIONS,
        amount: Amount::Seconds(span.as_secs_f64()),
        warm_up: WARM_UP,
    };
    let (sums, threads) = (sums(server)?, threads::read(server.pid())?);
    let point = press::point(setup, &format!("one-core-{round}"), server, &load)?;
    let after = self::sums(server)?;
    let mut grown = [0.0; SUMS.len()];
    for (at, grown) in grown.iter_mut().enumerate() {
        *grown = after[at] - sums[at];
    }
    let threads = threads::between(&threads, &threads::read(server.pid())?);
    Ok(Served {
        point,
        sums: grown,
        threads,
    })
}

fn sums(server: &Server) -> anyhow::Result<[f64; SUMS.len()]> {
    let page = server.metrics()?;
    let mut values = [0.0; SUMS.len()];
    for (value, sum) in values.iter_mut().zip(SUMS) {
        *value = page.value(sum)?;
    }
    Ok(values)
}

/// Where a request's time goes in the server's last round.
fn explain(report: &mut Report, served: &Served, parts: &Round) {
    let [calls, total, queue, compute, runs] = served.sums;
    let us = |seconds: f64| seconds * 1e6 / calls;
    let run_us = compute * 1e6 / runs;
    report.say(
        "\nA request's stay in the server, from the read to the answer, us (from /metrics, last round):\n",
    );
    report.say("| whole | waiting for a run | its run | the rest |\n|---:|---:|---:|---:|");
    report.say(&format!(
        "| {:.1} | {:.1} | {run_us:.1} | {:.1} |",
        us(total),
        us(queue),
        us(total) - us(queue) - run_us
    ));
    report.say(&format!(
        "\n(a run takes {:.2} requests, so the model takes {:.1} us of each; its clock goes on while the net thread has the core)",
        calls / runs,
        us(compute)
    ));

    report.say("\nThe core's time for each request, us:\n");
    report.say("| thread | on the core | of it in the kernel | ready, but waiting for the core |\n|---|---:|---:|---:|");
    let of = |time: Duration| us(time.as_secs_f64());
    let mut on_core = 0.0;
    for (name, used) in &served.threads {
        on_core += of(used.ran);
        if of(used.ran) >= 0.05 {
            let (ran, kernel, waited) = (of(used.ran), of(used.kernel), of(used.waited));
            report.say(&format!("| {name} | {ran:.1} | {kernel:.1} | {waited:.1} |"));
        }
    }
    let point = &served.point;
    let answers = point.counters.answers() as f64;
    let wall = point.us_total as f64 / answers;
    let cpu =
        |cpu: Option<millpond_press_report::Cpu>| cpu.map_or(f64::NAN, |cpu| cpu.seconds * 1e6 / answers);
    report.say(&format!(
        "| all threads | {on_core:.1} | | |\n\nserver CPU {:.1}, press CPU {:.1}, wall {wall:.1} us a request; the server's core was {:.0} % busy, the press's {:.0} %",
        cpu(point.server_cpu),
        cpu(point.client_cpu),
        100.0 * cpu(point.server_cpu) / wall,
        100.0 * cpu(point.client_cpu) / wall,
    ));

    report.say("\nThe bare loop's time for each request, us (with the clock read between the parts):\n");
    report.say(&format!(
        "| {} | whole |\n|---:|---:|---:|---:|---:|",
        PARTS.join(" | ")
    ));
    let each = |time: Duration| time.as_secs_f64() * 1e6 / parts.requests as f64;
    let columns: Vec<String> = parts
        .parts
        .iter()
        .map(|part| format!("{:.1}", each(*part)))
        .collect();
    report.say(&format!("| {} | {:.1} |", columns.join(" | "), each(parts.took)));
}
