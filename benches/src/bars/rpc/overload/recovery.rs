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
/// Sockets by which a load is known: it has eight connections, each with two ends; before it, the press tries how long a few take.
const SOCKETS_OF_LOAD: usize = 12;
/// A good probe takes at most this share of the calls' deadline.
const GOOD_SHARE: f64 = 0.1;

/// Runs `load`; returns what it returned, and seconds from the end of its connections to the end of the last bad probe.
pub(super) fn after<T>(
    case: &Case,
    server: &Server,
    load: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(T, f64)> {
    let is_over = AtomicBool::new(false);
    let before = sockets()?;
    std::thread::scope(|scope| {
        let probing = scope.spawn(|| {
            cores::bind(cores::PRESS)?;
            let Some(end) = end_of_load(before, &is_over)? else {
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

/// Sockets of this machine that are open, both ends of its own connections. The kernel counts them as they come and go; the table of
/// them would take a processor long to read, and that is the press's.
fn sockets() -> anyhow::Result<usize> {
    let file = "/proc/net/sockstat";
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let count = text.lines().find_map(|line| line.strip_prefix("TCP: inuse "));
    let count = count.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
    count.with_context(|| format!("{file} has no count of TCP"))
}

/// When the load's connections were closed; `None` where none were seen.
fn end_of_load(before: usize, is_over: &AtomicBool) -> anyhow::Result<Option<Instant>> {
    let mut was_loaded = false;
    loop {
        let over = is_over.load(Ordering::Relaxed);
        let is_loaded = sockets()? >= before + SOCKETS_OF_LOAD;
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
