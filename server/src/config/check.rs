//! What can be known to be wrong before anything is opened or bound.
//! It opens no table, store or model; those say more themselves. Its invariant: every problem names its key and a hint.

use super::machine::{self, SOCKET_PATH_BYTES_MAX};
use super::{Config, Listen, Server, nodes, resp, secret, tls, web};
use millpond_catalog::{Problem, paths_mut};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Processes at most: more than any machine has processors for them.
pub(crate) const PROCESSES_MAX: usize = 256;
/// Microseconds of polling at most: a thread that polls for longer never sleeps.
const BUSY_POLL_US_MAX: usize = 10_000;
/// Net threads of a process at most.
const THREADS_MAX: usize = 1024;

/// Makes relative paths relative to the file's folder.
pub(super) fn resolve_paths(config: &mut Config, base: &Path) {
    let resolve = |path: &mut PathBuf| {
        if path.is_relative() {
            *path = base.join(&*path);
        }
    };
    let (features, ordered) = (&mut config.features, &mut config.ordered);
    paths_mut(features, ordered, &mut config.models, &mut config.onnxruntime).for_each(resolve);
    config.log.file.iter_mut().for_each(resolve);
    let encryption = config.server.fpnn_encryption.iter_mut();
    encryption.for_each(|encryption| resolve(&mut encryption.private_key));
    let tls = config.server.tls.iter_mut();
    tls.flat_map(|tls| tls.paths_mut()).for_each(resolve);
    let of_resp = config
        .server
        .resp
        .iter_mut()
        .flat_map(|resp| &mut resp.listen_also);
    for listen in config.server.listen_also.iter_mut().chain(of_resp) {
        if let Listen::Unix(path) = listen {
            resolve(path);
        }
    }
    for leader in config
        .ordered
        .values_mut()
        .filter_map(|store| store.follow.as_mut())
    {
        if let Some(path) = leader.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            let mut path = PathBuf::from(path);
            resolve(&mut path);
            *leader = format!("unix:{}", path.display());
        }
    }
    let nodes = config.nodes.iter_mut();
    nodes.flat_map(|nodes| nodes.paths_mut()).for_each(resolve);
    config.admin.token_file.iter_mut().for_each(resolve);
    let groups = config.access.tokens.values_mut();
    groups
        .filter_map(|group| group.token_file.as_mut())
        .for_each(resolve);
}

/// Reads the tokens that stand in files of their own.
pub(super) fn read_tokens(config: &mut Config) -> Result<(), String> {
    secret::fill("admin", &mut config.admin.token, config.admin.token_file.as_ref())?;
    if let Some(nodes) = &mut config.nodes {
        secret::fill("nodes", &mut nodes.token, nodes.token_file.as_ref())?;
    }
    for (name, group) in &mut config.access.tokens {
        let key = format!("access.tokens.{name}");
        secret::fill(&key, &mut group.token, group.token_file.as_ref())?;
    }
    Ok(())
}

pub(super) fn check(config: &Config) -> Result<(), Problem> {
    check_server(config)?;
    config.sections().check()?;
    check_watched(config)?;
    check_followers(config)?;
    crate::arrivals::check_built(config)?;
    tls::check(config)?;
    resp::check(config)?;
    nodes::check(config)?;
    millpond_methods::check(&config.methods)?;
    let methods = millpond_methods::names(&config.methods);
    config.access.check(&methods)?;
    Ok(())
}

/// A store that follows shows its leader a token.
fn check_followers(config: &Config) -> Result<(), String> {
    for (name, section) in &config.ordered {
        let Some(leader) = &section.follow else { continue };
        check_leader(leader).map_err(|why| format!("ordered.{name}.follow is {leader:?}: {why}"))?;
        if let Some(key) = own_address(&config.server, leader) {
            return Err(format!(
                "ordered.{name}.follow is {leader:?}, where this server listens itself ({key}); name the server that takes the store's writes, \
                 or leave the key out where this one does"
            ));
        }
        crate::following::read_tls(leader, section.follow_ca.as_deref())
            .map_err(|why| format!("ordered.{name}.{why}"))?;
        if let Some(file) = &section.follow_token_file {
            crate::following::read_token(file).map_err(|why| format!("ordered.{name}.{why}"))?;
        }
    }
    Ok(())
}

/// The path of a socket may have whatever a path has.
fn check_leader(address: &str) -> Result<(), &'static str> {
    let Some(path) = address.strip_prefix("unix:") else {
        return millpond_nodes::check_address(address);
    };
    if path.is_empty() {
        Err("no path follows unix:")
    } else if path.contains(char::is_control) {
        Err("it has a control character inside")
    } else if path.contains(char::REPLACEMENT_CHARACTER) {
        Err("the name of its folder is not UTF-8: name the socket by another path")
    } else if path.len() > SOCKET_PATH_BYTES_MAX {
        Err("choose another path, of at most 107 bytes")
    } else {
        Ok(())
    }
}

/// The key by which the server listens at an address, as far as the address says so without being looked up.
fn own_address(server: &Server, address: &str) -> Option<String> {
    let address = address.strip_prefix(millpond_nodes::TLS).unwrap_or(address);
    let named = address.replace("localhost:", "127.0.0.1:").parse::<SocketAddr>();
    let is_named = |listen: &Listen| match (listen, &named) {
        (Listen::Inet(own), Ok(named)) => {
            // An IPv6 address takes IPv6 alone.
            let is_any =
                own.ip().is_unspecified() && named.ip().is_loopback() && own.is_ipv4() == named.is_ipv4();
            own.port() == named.port() && (own.ip() == named.ip() || is_any)
        }
        (Listen::Unix(own), Err(_)) => address
            .strip_prefix("unix:")
            .is_some_and(|path| machine::followed(own) == machine::followed(Path::new(path))),
        _ => false,
    };
    let mut listens = server.listens().into_iter();
    listens.find_map(|(key, listen)| is_named(&listen).then_some(key))
}

/// A version that is given and one that comes by itself contradict each other.
fn check_watched(config: &Config) -> Result<(), String> {
    for (name, section) in &config.features {
        if let (Some(_), Some(version)) = (section.watched_every(), section.version) {
            let key = if section.watch { "watch" } else { "source" };
            return Err(format!(
                "features.{name}.{key} serves new versions by itself, and features.{name}.version is {version}, which a start serves; \
                 leave one of them out"
            ));
        }
    }
    Ok(())
}

fn check_server(config: &Config) -> Result<(), String> {
    let server = &config.server;
    check_bounds(config)?;
    web::check(&server.cors_origins)?;
    web::check_hosts("server.hosts", &server.hosts)?;
    web::check_hosts("admin.hosts", &config.admin.hosts)?;
    if server.processes > 1 {
        check_shared(config)?;
    }
    check_addresses(config)?;
    machine::check(config)
}

/// Each number by itself, and then those that must hold one call.
fn check_bounds(config: &Config) -> Result<(), String> {
    let server = &config.server;
    for (key, found) in [
        ("connections_max", server.connections_max),
        ("in_flight_max", server.in_flight_max),
        (
            "in_flight_per_connection_max",
            server.in_flight_per_connection_max,
        ),
        ("write_buffer_bytes_max", server.write_buffer_bytes_max),
        ("deadline_ms_default", server.deadline_ms_default as usize),
        ("processes", server.processes),
    ] {
        if found == 0 {
            return Err(format!("server.{key} is 0; expected at least 1"));
        }
    }
    for (key, found) in [
        ("server.frame_bytes_max", server.frame_bytes_max),
        ("log.queue_bytes_max", config.log.queue_bytes_max),
    ] {
        if !(1024..=1 << 30).contains(&found) {
            return Err(format!("{key} is {found}; expected 1024 to 1073741824 bytes"));
        }
    }
    for (key, found, most, hint) in [
        ("threads", server.threads, THREADS_MAX, " (0: one a processor)"),
        ("processes", server.processes, PROCESSES_MAX, ""),
        (
            "busy_poll_us",
            server.busy_poll_us as usize,
            BUSY_POLL_US_MAX,
            " (0: sleep at once)",
        ),
    ] {
        if found > most {
            return Err(format!("server.{key} is {found}; expected at most {most}{hint}"));
        }
    }
    check_one_call(server)
}

/// What calls may hold together must hold one of the largest.
fn check_one_call(server: &Server) -> Result<(), String> {
    let frame = server.frame_bytes_max;
    // The buffer of a request or an answer grows by doubling, and where that moves it, it is there twice.
    let twice = frame.saturating_mul(2);
    for (key, found, holds, least, is) in [
        (
            "in_flight_bytes_max",
            server.in_flight_bytes_max,
            "one call may hold",
            frame,
            "",
        ),
        (
            "unfinished_bytes_max",
            server.unfinished_bytes_max,
            "one request may take",
            twice,
            "twice ",
        ),
        (
            "write_buffers_total_bytes_max",
            server.write_buffers_total_bytes_max,
            "one answer may take",
            twice,
            "twice ",
        ),
    ] {
        if found < least {
            return Err(format!(
                "server.{key} is {found}; {holds} {least} bytes ({is}server.frame_bytes_max): raise the one, or lower the other"
            ));
        }
    }
    Ok(())
}

/// No two keys may name one address: several processes share theirs with whoever binds it, and the kernel would choose between
/// TLS and clear text.
fn check_addresses(config: &Config) -> Result<(), String> {
    let admin = ("admin.listen".to_owned(), Listen::Inet(config.admin.listen));
    let mut named: Vec<(String, SocketAddr)> = Vec::new();
    for (key, listen) in config.server.listens().into_iter().chain([admin]) {
        let Listen::Inet(addr) = listen else { continue };
        if let Some((other, found)) = named.iter().find(|(_, other)| overlap(&addr, other)) {
            return Err(if addr == *found {
                format!("{other} and {key} are both {addr}; give them different ports")
            } else {
                format!(
                    "{other} is {found} and {key} is {addr}, which are one address to whoever connects; give them different ports"
                )
            });
        }
        named.push((key, addr));
    }
    Ok(())
}

/// Whether a connection could be meant for either; an IPv6 address takes IPv6 alone, and port 0 is a port of its own.
fn overlap(one: &SocketAddr, other: &SocketAddr) -> bool {
    let any = one.ip().is_unspecified() || other.ip().is_unspecified();
    let same = one == other || any && one.is_ipv4() == other.is_ipv4();
    same && one.port() == other.port() && one.port() != 0
}

/// Whether several processes could serve it: what they cannot share on one address.
pub(crate) fn check_shared(config: &Config) -> Result<(), String> {
    let alone = format!("or set server.processes = 1 (it is {})", config.server.processes);
    let sections = config.sections();
    if let Some((pipeline, stage, store)) = sections.stage_of_a_store() {
        return Err(format!(
            "pipelines.{pipeline}, stage {stage:?} reads ordered.{store}: one process has the stores, and pipelines run in each; leave \
             the stage out, {alone}"
        ));
    }
    if let Some((name, _)) = config.features.iter().find(|(_, table)| table.overlay.is_some()) {
        return Err(format!(
            "features.{name}.overlay: the log of an overlay can be opened by one process only; leave it out, {alone}"
        ));
    }
    for (key, listen) in config.server.listens() {
        match listen {
            Listen::Inet(addr) if addr.port() == 0 => {
                return Err(format!(
                    "{key} is {addr}: with port 0 each process would get another port; name one, {alone}"
                ));
            }
            Listen::Unix(path) => {
                return Err(format!(
                    "{key} is unix:{}: a Unix socket has one process that accepts; leave it out, {alone}",
                    path.display()
                ));
            }
            Listen::Inet(_) => {}
        }
    }
    Ok(())
}
