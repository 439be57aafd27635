//! Very many connections, each with a request now and then: what one costs, whether all of them last, and what a call takes
//! beside them.
//!
//! 200,000 connections are held for five minutes while 10,000 requests a second flow. A process may hold only so many files
//! and nothing here raises that limit, so both sides are as many processes as it takes: `serve --processes`, and
//! `load.processes`. What it hides: both ends share one machine, whose kernel keeps both sockets of each connection.

use crate::ahead::Ahead;
use crate::bar::{Bar, Group, Measure, Op};
use crate::cores;
use crate::practice::point;
use crate::report::Report;
use crate::rpc::CONFIG;
use crate::server::Server;
use crate::setup::Setup;
use anyhow::{Context as _, ensure};
use millpond_press_report::{Held, Point};
use millpond_press_verdict::Series;
use rustix::process::{Resource, getrlimit};
use std::net::TcpListener;

const BYTES: Bar = Bar::new("rpc-idle-bytes-per-connection", Op::AtMost, 1_200.0);
const CONNECTIONS: Bar = Bar::new("rpc-massive-connections", Op::AtLeast, 200_000.0);
const ERRORS: Bar = Bar::new("rpc-massive-errors", Op::Equal, 0.0);
const P99: Bar = Bar::new("rpc-massive-us-p99", Op::AtMost, 5_000.0);

pub(crate) const GROUP: Group = Group {
    name: "massive",
    title: "200,000 connections held for five minutes while 10,000 requests a second flow",
    bars: &[BYTES, CONNECTIONS, ERRORS, P99],
    measure: Measure::Code(measure),
};

/// Files of a process that are no connections.
const FILES_BESIDE: u64 = 100;
/// How full a process is at most on average: the kernel spreads connections by a hash, so some get more.
const FILL: f64 = 0.9;
/// Connections of one source address. It has 28,000 ports on a kernel as it comes, but that looks at half of them first, and
/// for each connection at all of that half again once they are taken.
const PORTS: usize = 13_000;
const METHOD: &str = "two way demo";

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let connections = setup.pick(200_000, 2_000);
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(1 << 20);
    ensure!(
        files > 2 * FILES_BESIDE,
        "a process may open {files} files, which is too few for any number of connections"
    );
    let processes = processes(connections, files - FILES_BESIDE).max(setup.pick(1, 2));
    report.say(&format!(
        "{connections} connections, {files} files a process: {processes} processes on each side"
    ));
    let ahead = Ahead::of_others();
    report.say(ahead.describe());
    let server = start(setup, processes, files - FILES_BESIDE)?;
    let text = scenario(setup, &server, connections, processes)?;
    let point = point(setup, "massive", &text)?;
    server.stop()?;
    tell(setup, report, &point)
}

/// Processes that this many connections take.
fn processes(connections: usize, files: u64) -> usize {
    (connections as f64 / (files as f64 * FILL)).ceil() as usize
}

fn start(setup: &Setup, processes: usize, connections_max: u64) -> anyhow::Result<Server> {
    // Several processes share a port, so the system cannot choose one for each.
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|free| free.local_addr())?;
    let set = [
        format!("server.listen=\"{free}\""),
        format!("server.processes={processes}"),
        format!("server.connections_max={connections_max}"),
        "server.idle_timeout_s=150".to_owned(),
        "log.level=5".to_owned(),
    ];
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    Server::start(setup, "massive", CONFIG, &set)
}

fn scenario(setup: &Setup, server: &Server, connections: usize, processes: usize) -> anyhow::Result<String> {
    let requests = "benches/scenarios/fpnn-demo.jsonl";
    // Two more than it takes: a port that was just closed is not free at once.
    let addresses: Vec<String> = (2..connections.div_ceil(PORTS) + 4)
        .map(|last| format!("\"127.0.0.{last}\""))
        .collect();
    Ok(format!(
        "[scenario]\nname = \"massive\"\nlayout = \"r3\"\n[target]\nname = \"millpond\"\nprotocol = \"native\"\naddress = \"{}\"\n\
         server_pid = {}\nmetrics = \"http://{}/metrics\"\ntimeout_ms = 30000\nmethod = \"{METHOD}\"\n\
         [requests]\nfile = \"{}\"\n[check]\nsame = true\n\
         [load]\nconnections = [{connections}]\nrate = [{}]\narrivals = \"constant\"\nin_flight = 1\nduration_s = {}\n\
         warmup_s_max = {}\nprocesses = {processes}\nclient_cpus = [{}]\nconnect_parallel = {}\nsource_addresses = [{}]\n",
        server.address,
        server.pid(),
        server.admin,
        requests,
        setup.pick(10_000, 500),
        setup.pick(300, 4),
        setup.pick(10, 1),
        cores::PRESS,
        64 * processes,
        addresses.join(", "),
    ))
}

fn tell(setup: &Setup, report: &mut Report, point: &Point) -> anyhow::Result<()> {
    let held: Held = point.held.context("the press says nothing of its connections")?;
    let opened = held.opened as f64;
    let each = |bytes: Option<u64>| bytes.map_or(f64::NAN, |bytes| bytes as f64 / opened);
    let counters = &point.counters;
    // A connection that was made again had been lost.
    let made_again = counters.connections_opened.saturating_sub(held.opened);
    let errors = counters.failed_total()
        + counters.refused_total()
        + counters.not_sent
        + counters.cut
        + made_again
        + counters.connections_refused
        + counters.connections_failed;
    let figure = |figure: Option<f64>| figure.unwrap_or(f64::NAN);
    let cpu = |cpu: Option<millpond_press_report::Cpu>| cpu.map_or(f64::NAN, |cpu| cpu.percent);
    report.say(&format!(
        "opened {opened:.0} in {:.1} s, {:.0} a second; server {:.0} bytes a connection, kernel {:.0} (both ends)",
        held.opening_s,
        opened / held.opening_s,
        each(held.server_bytes),
        each(held.kernel_bytes),
    ));
    report.say(&format!(
        "{:.0} answers a second: mean {:.0} us, p50 {:.0}, p99 {:.0}, p99.9 {:.0}, max {:.0}; server {:.0} % of a core, press {:.0} %; {}",
        point.qps,
        figure(point.latency.us_mean),
        figure(point.latency.us_p50),
        figure(point.latency.us_p99),
        figure(point.latency.us_p99_9),
        figure(point.latency.us_max),
        cpu(point.server_cpu),
        cpu(point.client_cpu),
        point.verdict.sentence,
    ));
    if errors > 0 {
        report.say(&format!("note: {counters:?}"));
    }
    ensure!(
        !point.interrupted && (setup.quick || point.us_total >= 299_000_000),
        "the load ended before its time"
    );
    let mut bar = |bar: &Bar, value: f64| {
        let mut series = Series::default();
        series.measured(value, point);
        report.bar(bar, value, series);
    };
    bar(&BYTES, each(held.server_bytes));
    // At the end of the five minutes, by the server's own count.
    let lasting = held.server_connections.map_or(f64::NAN, |count| count as f64);
    bar(&CONNECTIONS, lasting);
    bar(&ERRORS, errors as f64);
    bar(&P99, figure(point.latency.us_p99));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_process_is_filled_to_its_limit() {
        assert_eq!(processes(200_000, 19_900), 12);
        assert_eq!(processes(200_000, 1_000_000), 1);
        assert_eq!(processes(1, 200), 1);
    }
}
