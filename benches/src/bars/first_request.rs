//! The first request of a fresh process, against the median of the next thousand on the same connection.
//!
//! Before it the server sees a look at `/readyz` on the admin port, and a connection on which nothing is sent for a moment; not
//! one request. The moment is short, because on a machine whose cores sleep any request after a longer pause is slow, the
//! first or the thousandth: a column shows by how much. The client's own code runs against a stand-in first, so that its
//! first steps are not counted as the server's. Its invariant: the median of the restarts and the worst of them are both held against the limit.

use crate::bar::{Bar, Group, Measure, Op};
use crate::r1::{self, Scores};
use crate::report::Report;
use crate::server::{HTTP_LIMITS, Server};
use crate::setup::Setup;
use crate::{cores, idle};
use anyhow::{Context as _, ensure};
use millpond_press_load::{Connection, Request};
use millpond_press_verdict::{Conditions, Series};
use millpond_press_workload::RequestSet;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

const OVER_MEDIAN: Bar = Bar::new("first-request-over-median", Op::AtMost, 3.0);
const WORST: Bar = Bar::new("first-request-over-median-worst", Op::AtMost, 3.0);

pub(crate) const GROUP: Group = Group {
    name: "first-request",
    measure: Measure::Code {
        title: "the first request of a fresh process",
        bars: &[OVER_MEDIAN, WORST],
        run: measure,
    },
};

/// Requests after the first one.
const NEXT: usize = 1000;
/// From the connection to the first request: it is with its net thread by then.
const WAIT: Duration = Duration::from_millis(1);
/// A pause that lets the cores sleep, before each of the last requests.
const PAUSE: Duration = Duration::from_millis(200);
/// Requests after a pause.
const PAUSED: usize = 5;
/// Exchanges with the stand-in.
const REHEARSALS: usize = 200;

fn measure(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    r1::prepare(setup)?;
    let bodies = RequestSet::load(Path::new(r1::REQUESTS))?;
    let expected = r1::expected()?;
    let (verb, path) = ("POST", "/service/infer");
    let written = |body| Request { verb, path, body }.written("localhost");
    let requests: Vec<Vec<u8>> = bodies.iter().map(written).collect();
    rehearse(&requests)?;
    let mut ratios = Series::default();
    report.say("| restart | first, us | median of the next, us | p99 of the next, us | first over median | later ones after 200 ms of silence, us |");
    report.say("|---:|---:|---:|---:|---:|---:|");
    for restart in 0..setup.pick(10, 2) {
        setup.stop.check()?;
        // Other requests each time, so that no restart finds its rows in a cache of the last one's.
        let count = 1 + NEXT + PAUSED;
        let from = restart * count % (requests.len() - count);
        let chosen = &requests[from..from + count];
        let set = ["server.cpus=[0]", "server.threads=1", "log.level=3"];
        let server = Server::start(setup, &format!("first-{}", restart + 1), r1::CONFIG, &set)?;
        let address = server.address.clone();
        let exchange = || cores::on(cores::PRESS, || exchange(&address, chosen));
        let ((times, answers), stolen) = idle::watched(exchange)?;
        server.stop()?;
        check(&answers, &expected[from..])?;
        let us = |time: &Duration| time.as_secs_f64() * 1e6;
        let next: Series = times[1..=NEXT].iter().map(us).collect();
        let paused: Series = times[NEXT + 1..].iter().map(us).collect();
        let mut sorted: Vec<f64> = times[1..=NEXT].iter().map(us).collect();
        sorted.sort_by(f64::total_cmp);
        let ratio = us(&times[0]) / next.median();
        report.say(&format!(
            "| {} | {:.0} | {:.0} | {:.0} | {ratio:.2} | {paused:.0} |",
            restart + 1,
            us(&times[0]),
            next.median(),
            sorted[sorted.len() * 99 / 100]
        ));
        ratios.under(ratio, Conditions::without_load(stolen));
    }
    report.say(&format!("\nfirst over median: {ratios:.2}\n"));
    report.bar(&OVER_MEDIAN, ratios.median(), ratios.clone());
    report.bar(&WORST, ratios.max(), ratios);
    Ok(())
}

/// Connects, waits, and sends one request after the other: how long each took, and its answer.
fn exchange(address: &str, requests: &[Vec<u8>]) -> anyhow::Result<(Vec<Duration>, Vec<Vec<u8>>)> {
    let connection = Connection::open(address.parse()?, HTTP_LIMITS);
    let mut connection = connection.map_err(anyhow::Error::msg)?;
    let mut times = Vec::with_capacity(requests.len());
    let mut answers = Vec::with_capacity(requests.len());
    // The client's own core stays awake.
    let connected = Instant::now();
    while connected.elapsed() < WAIT {
        std::hint::spin_loop();
    }
    for (number, request) in requests.iter().enumerate() {
        if number > NEXT {
            std::thread::sleep(PAUSE);
        }
        let started = Instant::now();
        let answer = connection.exchange(request);
        times.push(started.elapsed());
        let (status, body) = answer.map_err(anyhow::Error::msg)?;
        ensure!(
            status == 200,
            "status {status}: {}",
            String::from_utf8_lossy(&body)
        );
        answers.push(body);
    }
    Ok((times, answers))
}

/// Compares the answers after the clock.
fn check(answers: &[Vec<u8>], expected: &[Scores]) -> anyhow::Result<()> {
    for (number, (answer, expected)) in answers.iter().zip(expected).enumerate() {
        let found: Scores = serde_json::from_slice(answer).context("an answer without scores")?;
        let distance = expected.distance(&found.scores);
        ensure!(
            distance <= r1::TOLERANCE,
            "answer {} is {distance} off",
            number + 1
        );
    }
    Ok(())
}

/// Exchanges the same bytes with a listener in this process that answers everything alike.
fn rehearse(requests: &[Vec<u8>]) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let requests = &requests[..REHEARSALS.min(requests.len())];
    std::thread::scope(|scope| {
        let stand_in = scope.spawn(|| -> anyhow::Result<()> {
            let (mut stream, _) = listener.accept()?;
            let body = "0".repeat(300);
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            let mut room = Vec::new();
            for request in requests {
                room.resize(request.len(), 0);
                stream.read_exact(&mut room)?;
                stream.write_all(answer.as_bytes())?;
            }
            Ok(())
        });
        cores::on(cores::PRESS, || exchange(&address, requests))?;
        stand_in
            .join()
            .map_err(|_| anyhow::anyhow!("the stand-in panicked"))?
    })
}
