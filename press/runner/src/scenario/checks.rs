//! What a scenario must not say: numbers that cannot be, keys that exclude each other, names that lead nowhere.
//!
//! Nothing is opened here. Its invariant: every message names the key, what was found and what is expected.

use super::keys::{File, Protocol};

/// Checks everything that can be judged from the keys alone.
pub(crate) fn check(file: &File) -> Result<(), String> {
    check_counts(file)?;
    check_fractions(file)?;
    check_choices(file)?;
    check_names(file)
}

/// The largest number that still makes sense, so that sums of them cannot overflow.
const SECONDS_MAX: f64 = 7.0 * 86_400.0;

fn check_counts(file: &File) -> Result<(), String> {
    let load = &file.load;
    let at_least_one: [(&str, u64); 6] = [
        (
            "load.connections",
            load.connections.iter().copied().min().unwrap_or(0) as u64,
        ),
        (
            "load.requests_per_connection",
            load.requests_per_connection.unwrap_or(1),
        ),
        ("load.in_flight", load.in_flight as u64),
        ("load.client_threads", load.client_threads as u64),
        ("load.connect_parallel", load.connect_parallel as u64),
        ("target.timeout_ms", file.target.timeout_ms),
    ];
    for (key, value) in at_least_one {
        if value == 0 {
            return Err(format!("{key} is 0 or empty, expected at least 1"));
        }
    }
    let at_most: [(&str, u64, u64); 7] = [
        (
            "load.connections",
            load.connections.iter().copied().max().unwrap_or(0) as u64,
            1_000_000,
        ),
        (
            "load.requests_per_connection",
            load.requests_per_connection.unwrap_or(0),
            1 << 40,
        ),
        ("load.in_flight", load.in_flight as u64, 65_536),
        ("load.client_threads", load.client_threads as u64, 1_024),
        ("load.warmup_requests", load.warmup_requests, 1 << 40),
        // Longer ones could not be told apart by the histogram.
        ("target.timeout_ms", file.target.timeout_ms, 60_000),
        (
            "target.answer_bytes_max",
            file.target.answer_bytes_max as u64,
            1 << 30,
        ),
    ];
    for (key, value, max) in at_most {
        if value > max {
            return Err(format!("{key} is {value}, expected at most {max}"));
        }
    }
    Ok(())
}

fn check_fractions(file: &File) -> Result<(), String> {
    let load = &file.load;
    let mut seconds: Vec<(&str, f64)> = load
        .duration_s
        .map(|s| ("load.duration_s", s))
        .into_iter()
        .collect();
    if let Some(server) = &file.server {
        seconds.push(("server.ready_timeout_s", server.ready_timeout_s));
        seconds.push(("server.stop_timeout_s", server.stop_timeout_s));
    }
    for (key, value) in seconds {
        if !(value > 0.0 && value <= SECONDS_MAX) {
            return Err(format!(
                "{key} is {value}, expected more than 0 and at most {SECONDS_MAX}"
            ));
        }
    }
    let check = &file.check;
    if !(check.share > 0.0 && check.share <= 1.0) {
        return Err(format!(
            "check.share is {}, expected more than 0 and at most 1 (all answers)",
            check.share
        ));
    }
    if !(check.min <= check.max && check.tolerance >= 0.0) {
        return Err("check.min must not be above check.max, and check.tolerance not negative".into());
    }
    Ok(())
}

fn check_choices(file: &File) -> Result<(), String> {
    let (load, target) = (&file.load, &file.target);
    if load.requests_per_connection.is_some() == load.duration_s.is_some() {
        return Err("[load] needs one of `requests_per_connection` and `duration_s`, and not both".into());
    }
    if target.server_pid.is_some() && target.server_pid_from.is_some() {
        return Err("[target] takes one of `server_pid` and `server_pid_from`, and not both".into());
    }
    match target.protocol {
        Protocol::Http if load.in_flight > 1 => {
            return Err(format!(
                "load.in_flight is {}, but HTTP/1.1 answers one request after the other; \
                 use more connections or target.protocol = \"binary\"",
                load.in_flight
            ));
        }
        Protocol::Binary if target.path.is_some() => {
            return Err(
                "target.path is for protocol \"http\"; the binary protocol takes target.method".into(),
            );
        }
        _ => {}
    }
    if target.method.is_none() && target.path.is_none() {
        return Err("[target] needs `method`, such as \"infer\" (or, for HTTP, `path`)".into());
    }
    Ok(())
}

fn check_names(file: &File) -> Result<(), String> {
    let name = &file.scenario.name;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(format!(
            "scenario.name is {name:?}; it names a folder, so use letters, digits, `-`, `_` and `.`"
        ));
    }
    let target = &file.target;
    let bad = |c: char| c.is_whitespace() || c.is_control();
    for (key, value) in [("method", &target.method), ("path", &target.path)] {
        if value
            .as_ref()
            .is_some_and(|value| value.is_empty() || value.contains(bad))
        {
            return Err(format!("target.{key} is empty or holds a space"));
        }
    }
    if target.path.as_ref().is_some_and(|path| !path.starts_with('/')) {
        return Err("target.path must begin with `/`".into());
    }
    if file.check.field.is_empty() {
        return Err("check.field is empty; name the key of the answer that holds the numbers".into());
    }
    Ok(())
}
