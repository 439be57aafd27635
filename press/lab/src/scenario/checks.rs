//! What a scenario must not say: numbers that cannot be, keys that exclude each other, names that lead nowhere.
//!
//! Nothing is opened here. Its invariant: every message names the key, what was found and what is expected.

mod loads;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;

use millpond_press_load::{KINDS, Takes};

use super::keys::{File, Server, Target};
use super::program;
use super::requests::operation_names;
use super::steps;
use loads::{check_amount, check_antagonists, check_arrivals, check_number, check_own_loads};

/// Checks everything that can be judged from the keys alone.
pub(crate) fn check(file: &File) -> Result<(), String> {
    check_own_loads(file)?;
    check_antagonists(file)?;
    if targets(file).next().is_none() && !file.figure.is_empty() {
        // All its figures come from commands.
        return check_names(file);
    }
    check_counts(file)?;
    check_fractions(file)?;
    steps::check(file)?;
    check_choices(file)?;
    check_names(file)
}

/// The largest number that still makes sense, so that sums of them cannot overflow.
const SECONDS_MAX: f64 = 7.0 * 86_400.0;
/// The largest rate a schedule can be made for.
const RATE_MAX: f64 = 1e8;

/// The longest name of a network namespace: those of its interfaces have two letters more, of the kernel's fifteen.
const NAMESPACE_MAX: usize = 13;
/// More processes than any machine has cores for them to be of use.
const PROCESSES_MAX: u64 = 256;

fn check_counts(file: &File) -> Result<(), String> {
    let load = &file.load;
    let connections = match load.connections.contains(&0) {
        true => None,
        false => load.connections.iter().max(),
    };
    let count = |key: &str, value: u64, max: u64| match value {
        0 => Err(format!("{key} is 0 or empty, expected at least 1")),
        value if value > max => Err(format!("{key} is {value}, expected at most {max}")),
        _ => Ok(()),
    };
    let per_connection = load.requests_per_connection.unwrap_or(1);
    let requests = file.requests.count.unwrap_or(1) as u64;
    count(
        "load.connections",
        connections.copied().unwrap_or(0) as u64,
        1_000_000,
    )?;
    count("load.requests_per_connection", per_connection, 1 << 40)?;
    count("load.in_flight", load.in_flight.unwrap_or(1) as u64, 65_536)?;
    count("load.processes", load.processes as u64, PROCESSES_MAX)?;
    count("load.client_threads", load.client_threads as u64, 1_024)?;
    count("load.connect_parallel", load.connect_parallel as u64, u64::MAX)?;
    count("scenario.repeats", file.scenario.repeats as u64, 1_000)?;
    count("search.repeats", file.search.repeats as u64, 100)?;
    count("requests.count", requests, 10_000_000)?;
    for target in targets(file) {
        // Longer ones could not be told apart by the histogram.
        between("target.timeout_ms", Some(target.timeout_ms), 1..=60_000)?;
        between(
            "target.answer_bytes_max",
            Some(target.answer_bytes_max),
            1..=1 << 30,
        )?;
    }
    Ok(())
}

/// Whether a key that is given lies within a range.
fn between<T: PartialOrd + Display>(
    key: &str,
    value: Option<T>,
    range: RangeInclusive<T>,
) -> Result<(), String> {
    match value {
        Some(value) if !range.contains(&value) => {
            let (low, high) = (range.start(), range.end());
            Err(format!("{key} is {value}, expected {low} to {high}"))
        }
        _ => Ok(()),
    }
}

/// Whether a key that is given lies above 0 and not above a limit.
pub(super) fn positive(key: &str, value: impl Into<Option<f64>>, max: f64) -> Result<(), String> {
    match value.into() {
        Some(value) if !(value > 0.0 && value <= max) => Err(format!(
            "{key} is {value}, expected more than 0 and at most {max}"
        )),
        _ => Ok(()),
    }
}

fn targets(file: &File) -> impl Iterator<Item = &Target> {
    file.target.iter().chain(&file.targets)
}

fn servers(file: &File) -> impl Iterator<Item = &Server> {
    let own = targets(file).filter_map(|target| target.server.as_ref());
    file.server.iter().chain(own)
}

fn check_fractions(file: &File) -> Result<(), String> {
    let (load, search) = (&file.load, &file.search);
    positive("search.point_s", search.point_s, SECONDS_MAX)?;
    positive("load.duration_s", load.duration_s, SECONDS_MAX)?;
    positive("load.requests_times_rate", load.requests_times_rate, SECONDS_MAX)?;
    positive("boost.first_s", file.boost.first_s, SECONDS_MAX)?;
    for server in servers(file) {
        positive("server.ready_timeout_s", server.ready_timeout_s, SECONDS_MAX)?;
        positive("server.stop_timeout_s", server.stop_timeout_s, SECONDS_MAX)?;
    }
    for program in targets(file).filter_map(|target| target.program.as_ref()) {
        positive("program.ready_timeout_s", program.ready_timeout_s, SECONDS_MAX)?;
    }
    between("load.warmup_s_max", load.warmup_s_max, 0.0..=SECONDS_MAX)?;
    between("load.think_ms", Some(load.think_ms), 0.0..=60_000.0)?;
    for &rate in &load.rate {
        positive("load.rate", rate, RATE_MAX)?;
    }
    for &rate in &load.rate_per_connection {
        positive("load.rate_per_connection", rate, RATE_MAX)?;
    }
    positive("search.rate_start", search.rate_start, RATE_MAX)?;
    positive("search.rate_max", search.rate_max, RATE_MAX)?;
    between("search.resolution", Some(search.resolution), 0.001..=0.5)?;
    positive("check.share", file.check.share, 1.0)?;
    let check = &file.check;
    if !(check.min <= check.max && check.tolerance >= 0.0) {
        return Err("check.min must not be above check.max, and check.tolerance not negative".into());
    }
    Ok(())
}

fn check_choices(file: &File) -> Result<(), String> {
    let load = &file.load;
    match (file.target.is_some(), file.targets.is_empty()) {
        (false, true) => return Err("there is no [target]; say where to send to".into()),
        (true, false) => return Err("give either [target] or several [[targets]], not both".into()),
        (false, false) if file.server.is_some() => {
            return Err(
                "with [[targets]] each one has its own [targets.server], not a [server] for all".into(),
            );
        }
        _ => {}
    }
    check_amount(load)?;
    if file.requests.file.is_some() && file.requests.generate.is_some() {
        return Err("[requests] needs one of `file` and `generate`, and not both".into());
    }
    let has_rates = !load.rate.is_empty() || !load.rate_per_connection.is_empty();
    let is_open = has_rates || load.arrivals.is_some();
    if is_open && load.requests_per_connection.is_some() {
        return Err("load.rate needs load.duration_s or load.requests_times_rate: a schedule has a length, connections have no number of requests".into());
    }
    if is_open && load.think_ms > 0.0 {
        return Err("load.think_ms is for closed loops; with load.rate the schedule decides".into());
    }
    let recorded = matches!(
        load.arrivals,
        Some(millpond_press_workload::Arrivals::Recorded { .. })
    );
    if load.arrivals.is_some() && !has_rates && !recorded {
        return Err(
            "load.arrivals needs load.rate, the requests a second; see press/scenarios/echo-floor.toml"
                .into(),
        );
    }
    check_number(file, is_open)?;
    check_arrivals(file, recorded)?;
    check_requests(file)?;
    check_operation_names(file)?;
    targets(file).try_for_each(|target| check_target(file, target))
}

/// Keys of [requests] that no target would look at.
fn check_requests(file: &File) -> Result<(), String> {
    let requests = &file.requests;
    let is_mix = |target: &Target| !target.operations.is_empty();
    for target in targets(file) {
        let own = &target.requests;
        if own.file.is_some() && is_mix(target) {
            return Err(
                "target.requests.file is for targets without `operations`, which draw their own".into(),
            );
        }
        if own.expected.is_some() && own.file.is_none() {
            return Err("target.requests.expected needs target.requests.file, whose answers it holds".into());
        }
    }
    let is_given = requests.file.is_some() || requests.generate.is_some();
    let is_echo = |target: &Target| !is_mix(target) && !is_given && target.protocol.takes.any_bytes;
    if (is_given || requests.expected.is_some()) && targets(file).all(is_mix) {
        return Err(
            "requests.file, generate and expected are for targets without `operations`, which draw their own"
                .into(),
        );
    }
    if requests.count.is_some() && !targets(file).any(|target| is_mix(target) || is_echo(target)) {
        return Err(
            "requests.count is for requests that are drawn: those of `operations`, and of protocol \"echo\""
                .into(),
        );
    }
    if requests.bytes.is_some() && !targets(file).any(is_echo) {
        return Err("requests.bytes is the size of drawn requests of protocol \"echo\"; see keys.value_bytes for {value}".into());
    }
    Ok(())
}

/// Operations are told apart by their names.
fn check_operation_names(file: &File) -> Result<(), String> {
    for target in targets(file) {
        let mut seen = BTreeSet::new();
        if let Some(twice) = operation_names(target)
            .into_iter()
            .find(|name| !seen.insert(name.clone()))
        {
            return Err(format!(
                "two operations are called {twice:?}; give each a `name` of its own"
            ));
        }
    }
    Ok(())
}

/// The protocols that take something, as words: `"http" and "native"`.
fn names(takes: fn(&Takes) -> bool) -> String {
    let names = KINDS.iter().filter(|kind| takes(&kind.takes));
    let names: Vec<String> = names.map(|kind| format!("{:?}", kind.name())).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

fn check_target(file: &File, target: &Target) -> Result<(), String> {
    let told = [
        target.server_pid.is_some(),
        target.server_pid_from.is_some(),
        target.server_of.is_some(),
    ];
    if told.into_iter().filter(|told| *told).count() > 1 {
        return Err("[target] takes one of `server_pid`, `server_pid_from` and `server_of`".into());
    }
    let (protocol, takes) = (target.protocol.name(), target.protocol.takes);
    if target.optional && file.targets.len() < 2 {
        return Err(
            "target.optional is for one of several [[targets]]: without it nothing would be left".into(),
        );
    }
    check_where(file, target)?;
    if target.files.is_some() && !target.protocol.takes.local {
        return Err(format!(
            "target.files is for the protocols {}, which run in this process",
            names(|takes| takes.local)
        ));
    }
    if file.check.values == Some(true) && !takes.values {
        return Err(format!(
            "check.values is for the protocols {}, whose answers hold the values; \"{protocol}\" can take check.same",
            names(|takes| takes.values)
        ));
    }
    check_rows(file, target)?;
    check_tls(target)?;
    check_namespace(target)?;
    let in_flight = target.load.in_flight.or(file.load.in_flight).unwrap_or(1);
    if !takes.local && !takes.program && !takes.pipelined && in_flight > 1 {
        return Err(format!(
            "load.in_flight is {in_flight}, but HTTP/1.1 answers one request after the other; \
             use more connections or another target.protocol, such as \"native\""
        ));
    }
    if !takes.path && (target.path.is_some() || !target.headers.is_empty()) {
        return Err(format!(
            "target.path and target.headers are for protocol \"http\"; \"{protocol}\" takes target.method or operations"
        ));
    }
    let needs_method = takes.json && !takes.local;
    if needs_method && target.operations.is_empty() && target.method.is_none() && target.path.is_none() {
        return Err(
            "[target] needs `method`, such as \"infer\" (or, for HTTP, `path`), or `operations`".into(),
        );
    }
    Ok(())
}

/// Where its calls are made: over connections of press, in this process, or by a program.
fn check_where(file: &File, target: &Target) -> Result<(), String> {
    let (protocol, takes, load) = (target.protocol.name(), target.protocol.takes, &file.load);
    if takes.program != target.program.is_some() {
        return Err(format!(
            "[targets.program] and protocol \"program\" go together, but the protocol of {:?} is \"{protocol}\" and it has {}",
            target.name(),
            if takes.program { "none" } else { "one" }
        ));
    }
    if takes.program {
        program::check(file, target)?;
    } else if takes.local {
        // Beside targets with connections these keys are theirs.
        let is_alone = file.targets.iter().all(|target| target.protocol.takes.local);
        if is_alone && (load.in_flight.unwrap_or(1) > 1 || !load.source_addresses.is_empty()) {
            return Err(format!(
                "protocol \"{protocol}\" runs in this process, one call at a time on each thread: load.in_flight and \
                 load.source_addresses are for targets with connections"
            ));
        }
        if load.processes > 1 {
            return Err(format!(
                "load.processes is {}, but protocol \"{protocol}\" runs in this process; leave it out, or raise \
                 load.client_threads for more calls at once",
                load.processes
            ));
        }
        if target.server.is_some() || !target.address.is_empty() {
            return Err(format!(
                "protocol \"{protocol}\" runs in this process: it takes no address and no server"
            ));
        }
    } else if target.address.is_empty() {
        return Err("target.address is missing; write it as \"127.0.0.1:13500\"".into());
    }
    Ok(())
}

/// Rows are known of lookups alone, and of those in which every key is one of the scenario's.
fn check_rows(file: &File, target: &Target) -> Result<(), String> {
    let Some(rows) = file.check.rows else {
        return Ok(());
    };
    between("check.rows.dim", Some(rows.dim), 1..=65_536)?;
    if !(target.protocol.knows_rows)(&target.operations) {
        return Err(
            "check.rows is for lookups of features: operations of protocol \"features\", or of protocol \"native\" with the method \
             \"features.lookup\""
                .into(),
        );
    }
    Ok(())
}

/// A server of a network of its own is reached by its own address.
fn check_namespace(target: &Target) -> Result<(), String> {
    let Some(keys) = target
        .server
        .as_ref()
        .and_then(|server| server.namespace.as_ref())
    else {
        return Ok(());
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    // What begins with `-` is an option to `ip`.
    let begins = keys.name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !begins || keys.name.len() > NAMESPACE_MAX || !keys.name.chars().all(is_plain) {
        return Err(format!(
            "server.namespace.name is {:?}; it names interfaces too, so use 1 to {NAMESPACE_MAX} letters, digits and `-`, a letter first",
            keys.name
        ));
    }
    let network = |address: std::net::Ipv4Addr| u32::from(address) >> 2;
    let is_end = |address: std::net::Ipv4Addr| matches!(u32::from(address) & 3, 1 | 2);
    let (server, client) = (keys.server, keys.client);
    if server == client || network(server) != network(client) || !is_end(server) || !is_end(client) {
        return Err(format!(
            "server.namespace: {server} and {client} are not the two addresses of a network of four, such as 10.203.5.2 and 10.203.5.1"
        ));
    }
    if !server.is_private() && !server.is_link_local() {
        return Err(format!(
            "server.namespace: {server} is an address of somebody else's, whose route would change; take private ones, such as 10.203.5.2 and \
             10.203.5.1"
        ));
    }
    if !target.address.starts_with(&format!("{server}:")) {
        return Err(format!(
            "target.address is {:?}, but its server runs in a network namespace at {server}; write it as \"{server}:13560\"",
            target.address
        ));
    }
    Ok(())
}

fn check_tls(target: &Target) -> Result<(), String> {
    if target.tls_ca.is_none() {
        return match target.tls_name {
            None => Ok(()),
            Some(_) => {
                Err("target.tls_name says nothing without target.tls_ca, the file of whom to trust".into())
            }
        };
    }
    let (protocol, takes) = (target.protocol.name(), target.protocol.takes);
    if !takes.tls {
        return Err(format!(
            "target.tls_ca is for the protocols {}; \"{protocol}\" is sent in clear",
            names(|takes| takes.tls)
        ));
    }
    if target.fill.is_some() || target.server_pid_from.is_some() {
        return Err(
            "target.fill and target.server_pid_from ask the server in clear, and target.tls_ca is given; leave them out, and \
             name the process with target.server_pid"
                .into(),
        );
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
    let mut seen = BTreeSet::new();
    for target in targets(file) {
        let name = target.name();
        if !seen.insert(name) {
            return Err(format!(
                "two targets are called {name:?}; give each its own target.name"
            ));
        }
        check_target_names(target)?;
    }
    if file.check.field.as_ref().is_some_and(String::is_empty) {
        return Err("check.field is empty; name the key of the answer that holds the numbers".into());
    }
    Ok(())
}

fn check_target_names(target: &Target) -> Result<(), String> {
    // FPNN's methods may hold spaces; a path and the first line of an HTTP request may not.
    let takes = target.protocol.takes;
    let takes_spaces = takes.json && !takes.path && target.operations.is_empty();
    for (key, value, takes_spaces) in [
        ("method", &target.method, takes_spaces),
        ("path", &target.path, false),
    ] {
        let bad = |c: char| c.is_control() || (c.is_whitespace() && !takes_spaces);
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
    let is_line = |text: &str| !text.contains(['\r', '\n']);
    if let Some((name, _)) = target
        .headers
        .iter()
        .find(|(name, value)| !is_line(name) || !is_line(value))
    {
        return Err(format!("target.headers.{name} holds a line end"));
    }
    Ok(())
}
