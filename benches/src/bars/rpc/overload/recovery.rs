//! How soon after a load's end a call is served as if there had been none.
//!
//! The load comes from this process, so its end is when its sockets are closed. From then on one call follows the other on a
//! connection of their own. Its invariant: a probe that fails, is refused or takes long counts until it is over.

use super::case::Case;
use crate::cores;
use crate::http::{Connection, request};
use crate::server::Server;
use anyhow::{Context as _, anyhow};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two looks, and between two probes.
const PAUSE: Duration = Duration::from_millis(5);
/// How long is probed after the end.
const PROBED: Duration = Duration::from_millis(2500);
/// Connections by which a load is known: before it, the press tries how long a few take.
const CONNECTIONS_OF_LOAD: usize = 6;
/// A good probe takes at most this share of the calls' deadline.
const GOOD_SHARE: f64 = 0.1;

/// Runs `load`; returns what it returned, and seconds from the end of its connections to the end of the last bad probe.
pub(super) fn after<T>(
    case: &Case,
    server: &Server,
    load: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(T, f64)> {
    let is_over = AtomicBool::new(false);
    let port = server
        .address
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse().ok());
    let port = port.with_context(|| format!("{} has no port", server.address))?;
    std::thread::scope(|scope| {
        let probing = scope.spawn(|| {
            cores::bind(cores::PRESS)?;
            let Some(end) = end_of_load(port, &is_over)? else {
                return Err(anyhow!("the load's connections were not seen"));
            };
            probe(case, server, end)
        });
        let loaded = load();
        is_over.store(true, Ordering::Relaxed);
        let recovered = probing
            .join()
            .unwrap_or_else(|_| Err(anyhow!("the probe panicked")));
        Ok((loaded?, recovered?))
    })
}

/// Connections to a port of this machine, from the table of its sockets.
fn connections(port: u16) -> anyhow::Result<usize> {
    let table = std::fs::read_to_string("/proc/net/tcp").context("cannot read the table of sockets")?;
    let remote = format!(":{port:04X}");
    let is_one = |line: &&str| {
        let mut fields = line.split_ascii_whitespace().skip(2);
        // 01 is an open connection.
        fields.next().is_some_and(|address| address.ends_with(&remote)) && fields.next() == Some("01")
    };
    Ok(table.lines().filter(is_one).count())
}

/// When the load's connections were closed; `None` where none were seen.
fn end_of_load(port: u16, is_over: &AtomicBool) -> anyhow::Result<Option<Instant>> {
    let mut was_loaded = false;
    loop {
        let over = is_over.load(Ordering::Relaxed);
        let is_loaded = connections(port)? >= CONNECTIONS_OF_LOAD;
        if was_loaded && (over || !is_loaded) {
            return Ok(Some(Instant::now()));
        }
        if over && !is_loaded {
            return Ok(None);
        }
        was_loaded |= is_loaded;
        std::thread::sleep(PAUSE);
    }
}

fn probe(case: &Case, server: &Server, end: Instant) -> anyhow::Result<f64> {
    let call = request("POST", "/service/infer", case.probe.as_bytes());
    let good = Duration::from_secs_f64(GOOD_SHARE * case.deadline_us() / 1e6);
    let mut connection = Connection::open(&server.address)?;
    let mut bad_until = end;
    while end.elapsed() < PROBED {
        let started = Instant::now();
        let (status, _) = connection.exchange(&call)?;
        if status != 200 || started.elapsed() > good {
            bad_until = Instant::now();
        }
        std::thread::sleep(PAUSE);
    }
    Ok(bad_until.saturating_duration_since(end).as_secs_f64())
}
