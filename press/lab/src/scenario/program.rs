//! What a scenario may ask of a target that is a program.
//!
//! The program makes its calls itself, one after the other in each of its callers. Its invariant: a key that it would not follow is
//! refused by its name.

use super::keys::{File, Target};
use super::steps::Rates;

/// Callers are threads or processes of one program.
const CALLERS_MAX: usize = 4_096;

/// Checks a target with `[targets.program]`.
pub(super) fn check(file: &File, target: &Target) -> Result<(), String> {
    let load = &file.load;
    let is_open = Rates::of(file) != Rates::None || load.arrivals.is_some() || target.load.is_open();
    let calls = |target: &Target| target.protocol.takes.program || target.protocol.takes.local;
    let is_alone = file.targets.iter().all(calls);
    let in_flight = target
        .load
        .in_flight
        // Beside targets with connections the key is theirs.
        .or(load.in_flight.filter(|_| is_alone));
    let callers = load
        .connections
        .iter()
        .copied()
        .chain(target.load.connections)
        .max();
    let refused = [
        (is_open, "load.rate, load.arrivals and [boost] make an open loop"),
        (
            load.requests_per_connection.is_some(),
            "load.requests_per_connection is a fixed number; use load.duration_s",
        ),
        (load.think_ms > 0.0, "load.think_ms is a pause between calls"),
        (in_flight.unwrap_or(1) > 1, "load.in_flight is above 1"),
        (load.processes > 1, "load.processes is above 1"),
        (
            !load.source_addresses.is_empty() && is_alone,
            "load.source_addresses is for connections of press",
        ),
        (
            callers.unwrap_or(0) > CALLERS_MAX,
            "load.connections is above 4096",
        ),
        (
            target.method.is_some() || !target.operations.is_empty() || target.fill.is_some(),
            "target.method, operations and fill are for requests that press makes",
        ),
    ];
    if let Some((_, why)) = refused.into_iter().find(|(is_refused, _)| *is_refused) {
        return Err(format!(
            "protocol \"program\" makes its calls itself, one after the other in each of its load.connections callers: {why}"
        ));
    }
    let has_server = target.server.is_some() || target.server_of.is_some() || target.server_pid.is_some();
    if has_server && target.address.is_empty() {
        return Err(
            "a program that calls a server needs target.address: without it the program's own work is taken for the server's"
                .into(),
        );
    }
    Ok(())
}
