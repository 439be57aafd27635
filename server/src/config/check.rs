//! What can be known to be wrong before anything is opened or bound.
//! It opens no table, store or model; those say more themselves. Its invariant: every problem names its key and the mend.

use super::{Backend, Config, Durability, Listen, Model, access, machine, method, secret, tls, web};
use millpond_pipelines::{Plan, RequestKind};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What a run of a practice model takes at most, in microseconds: warming it up must end.
const PRACTICE_RUN_US_MAX: u64 = 10_000_000;
/// Processes at most: more than any machine has processors for them.
pub(crate) const PROCESSES_MAX: usize = 256;
/// Elements of a practice model's row at most.
const PRACTICE_WIDTH_MAX: usize = 1 << 16;

/// Makes relative paths relative to the file's folder.
pub(super) fn resolve_paths(config: &mut Config, base: &Path) {
    let resolve = |path: &mut PathBuf| {
        if path.is_relative() {
            *path = base.join(&*path);
        }
    };
    config
        .features
        .values_mut()
        .for_each(|table| resolve(&mut table.path));
    config
        .models
        .values_mut()
        .filter_map(|model| model.path.as_mut())
        .for_each(resolve);
    config
        .ordered
        .values_mut()
        .filter_map(|store| store.path.as_mut())
        .for_each(resolve);
    config.log.file.iter_mut().for_each(resolve);
    let encryption = config.server.fpnn_encryption.iter_mut();
    encryption.for_each(|encryption| resolve(&mut encryption.private_key));
    let tls = config.server.tls.iter_mut();
    tls.flat_map(|tls| tls.paths_mut()).for_each(resolve);
    for listen in &mut config.server.listen_also {
        if let Listen::Unix(path) = listen {
            resolve(path);
        }
    }
    config.admin.token_file.iter_mut().for_each(resolve);
    let groups = config.access.tokens.values_mut();
    groups
        .filter_map(|group| group.token_file.as_mut())
        .for_each(resolve);
}

/// Reads the tokens that stand in files of their own.
pub(super) fn read_tokens(config: &mut Config) -> Result<(), String> {
    secret::fill("admin", &mut config.admin.token, config.admin.token_file.as_ref())?;
    for (name, group) in &mut config.access.tokens {
        let key = format!("access.tokens.{name}");
        secret::fill(&key, &mut group.token, group.token_file.as_ref())?;
    }
    Ok(())
}

/// Something wrong, and where a stage is at fault, which.
pub(super) struct Problem {
    pub(super) text: String,
    /// The pipeline, the position of its stage, and the key.
    pub(super) stage: Option<(String, usize, String)>,
}

impl From<String> for Problem {
    fn from(text: String) -> Problem {
        Problem { text, stage: None }
    }
}

pub(super) fn check(config: &Config) -> Result<(), Problem> {
    check_server(config)?;
    check_stored(config)?;
    check_models(config)?;
    for (name, pipeline) in &config.pipelines {
        check_references(config, &pipeline.plan(name).map_err(unplanned)?)?;
    }
    tls::check(config)?;
    method::check(config)?;
    access::check(config)?;
    check_defaults(config)?;
    Ok(())
}

fn check_stored(config: &Config) -> Result<(), String> {
    for (name, table) in &config.features {
        if !table.path.is_dir() {
            let path = table.path.display();
            return Err(format!(
                "features.{name}.path: {path} is no folder; build the table with `millpond features build`"
            ));
        }
    }
    for (name, store) in &config.ordered {
        match (&store.path, store.durability) {
            (None, Durability::Logged | Durability::Synced) => {
                return Err(format!(
                    "ordered.{name}.path is missing; name a folder, or set durability = \"memory\""
                ));
            }
            (Some(_), Durability::Memory) => {
                return Err(format!(
                    "ordered.{name}: a store with durability \"memory\" keeps no file; leave path out, or choose \"logged\" or \"synced\""
                ));
            }
            _ => {}
        }
        positive(&format!("ordered.{name}.queue_max"), store.queue_max)?;
        if store.memory_bytes_max == Some(0) {
            return Err(format!(
                "ordered.{name}.memory_bytes_max is 0, so the store could hold nothing; leave it out for no limit"
            ));
        }
    }
    Ok(())
}

/// A pipeline whose stages do not fit together.
fn unplanned(error: millpond_pipelines::Error) -> Problem {
    let text = error.to_string();
    let stage = match error {
        millpond_pipelines::Error::Description {
            pipeline,
            stage: Some(stage),
            ..
        } => Some((pipeline, stage.0, stage.1)),
        _ => None,
    };
    Problem { text, stage }
}

fn check_server(config: &Config) -> Result<(), String> {
    let server = &config.server;
    positive("server.connections_max", server.connections_max)?;
    positive("server.in_flight_max", server.in_flight_max)?;
    positive(
        "server.in_flight_per_connection_max",
        server.in_flight_per_connection_max,
    )?;
    positive("server.write_buffer_bytes_max", server.write_buffer_bytes_max)?;
    positive("server.deadline_ms_default", server.deadline_ms_default as usize)?;
    for (key, found) in [
        ("server.frame_bytes_max", server.frame_bytes_max),
        ("log.queue_bytes_max", config.log.queue_bytes_max),
    ] {
        if !(1024..=1 << 30).contains(&found) {
            return Err(format!("{key} is {found}; expected 1024 to 1073741824 bytes"));
        }
    }
    if server.in_flight_bytes_max < server.frame_bytes_max {
        return Err(format!(
            "server.in_flight_bytes_max is {}; one call may hold {} bytes (server.frame_bytes_max): raise the one, or lower the other",
            server.in_flight_bytes_max, server.frame_bytes_max
        ));
    }
    // Its buffer grows by doubling, and where that moves it, it is there twice.
    let unfinished_min = server.frame_bytes_max.saturating_mul(2);
    if server.unfinished_bytes_max < unfinished_min {
        return Err(format!(
            "server.unfinished_bytes_max is {}; one request may take {unfinished_min} bytes while it comes (twice server.frame_bytes_max): \
             raise the one, or lower the other",
            server.unfinished_bytes_max
        ));
    }
    if server.write_buffers_total_bytes_max < unfinished_min {
        return Err(format!(
            "server.write_buffers_total_bytes_max is {}; one answer may take {unfinished_min} bytes (twice server.frame_bytes_max): \
             raise the one, or lower the other",
            server.write_buffers_total_bytes_max
        ));
    }
    if server.threads > 1024 {
        return Err(format!(
            "server.threads is {}; expected at most 1024 (0: one a processor)",
            server.threads
        ));
    }
    web::check(&server.cors_origins)?;
    web::check_hosts("server.hosts", &server.hosts)?;
    web::check_hosts("admin.hosts", &config.admin.hosts)?;
    check_processes(config)?;
    check_addresses(config)?;
    machine::check(config)
}

/// No two keys may name one address: several processes share theirs with whoever binds it, and the kernel would choose between
/// TLS and clear text.
fn check_addresses(config: &Config) -> Result<(), String> {
    let server = &config.server;
    let mut named: Vec<(String, &SocketAddr)> = vec![("server.listen".into(), &server.listen)];
    for (at, listen) in server.listen_also.iter().enumerate() {
        if let Listen::Inet(addr) = listen {
            named.push((format!("server.listen_also[{at}]"), addr));
        }
    }
    let tls = server.tls.iter();
    named.extend(tls.map(|tls| ("server.tls.listen".into(), &tls.listen)));
    named.push(("admin.listen".into(), &config.admin.listen));
    for (at, (key, addr)) in named.iter().enumerate() {
        let Some((other, found)) = named[..at].iter().find(|(_, other)| overlap(addr, other)) else {
            continue;
        };
        return Err(if addr == found {
            format!("{other} and {key} are both {addr}; give them different ports")
        } else {
            format!(
                "{other} is {found} and {key} is {addr}, which are one address to whoever connects; give them different ports"
            )
        });
    }
    Ok(())
}

/// Whether a connection could be meant for either; an IPv6 address takes IPv6 alone, and port 0 is a port of its own.
fn overlap(one: &SocketAddr, other: &SocketAddr) -> bool {
    let any = one.ip().is_unspecified() || other.ip().is_unspecified();
    let same = one == other || any && one.is_ipv4() == other.is_ipv4();
    same && one.port() == other.port() && one.port() != 0
}

/// What several processes on one address cannot share.
fn check_processes(config: &Config) -> Result<(), String> {
    let server = &config.server;
    positive("server.processes", server.processes)?;
    let processes = server.processes;
    if processes > PROCESSES_MAX {
        return Err(format!(
            "server.processes is {processes}; expected at most {PROCESSES_MAX}"
        ));
    }
    if processes == 1 {
        return Ok(());
    }
    check_shared(config)
}

/// Whether several processes could serve it.
pub(crate) fn check_shared(config: &Config) -> Result<(), String> {
    let server = &config.server;
    let processes = server.processes;
    let alone = format!("or set server.processes = 1 (it is {processes})");
    if let Some(name) = config.ordered.keys().next() {
        return Err(format!(
            "ordered.{name}: an ordered store can be opened by one process only; leave it out, {alone}"
        ));
    }
    let tls = server
        .tls
        .iter()
        .map(|tls| ("server.tls.listen", Listen::Inet(tls.listen)));
    let also = server
        .listen_also
        .iter()
        .map(|listen| ("server.listen_also", listen.clone()));
    for (key, listen) in std::iter::once(("server.listen", Listen::Inet(server.listen)))
        .chain(tls)
        .chain(also)
    {
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

fn check_models(config: &Config) -> Result<(), String> {
    for (name, model) in &config.models {
        match model.backend {
            Backend::Tract => check_file(name, model)?,
            Backend::Practice => check_practice(name, model)?,
        }
        positive(&format!("models.{name}.batch_size_max"), model.batch_size_max)?;
        positive(&format!("models.{name}.instances"), model.instances)?;
        positive(&format!("models.{name}.queue_bytes_max"), model.queue_bytes_max)?;
        for rows in model.warm_up.iter().flatten() {
            if *rows == 0 || *rows > model.batch_size_max {
                let most = model.batch_size_max;
                return Err(format!(
                    "models.{name}.warm_up holds {rows}; expected rows from 1 to batch_size_max ({most})"
                ));
            }
        }
    }
    Ok(())
}

/// A model that is read from a file, and needs no other word.
fn check_file(name: &str, model: &Model) -> Result<(), String> {
    let Some(path) = &model.path else {
        return Err(format!(
            "models.{name}.path is missing; name an ONNX model, or set backend = \"practice\" for a model of known behaviour"
        ));
    };
    if !path.is_file() {
        let path = path.display();
        return Err(format!(
            "models.{name}.path: {path} is no file; name an ONNX model"
        ));
    }
    let for_practice = [
        ("behaviour", model.behaviour.is_some()),
        ("us", model.us.is_some()),
        ("us_per_row", model.us_per_row.is_some()),
        ("width", model.width.is_some()),
    ];
    match for_practice.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((key, _)) => Err(format!(
            "models.{name}.{key} is for backend \"practice\", and the backend is \"tract\"; leave it out"
        )),
    }
}

/// A model that is nothing but its behaviour.
fn check_practice(name: &str, model: &Model) -> Result<(), String> {
    if let Some(path) = &model.path {
        let path = path.display();
        return Err(format!(
            "models.{name}.path is {path}, and backend \"practice\" reads no file; leave path out"
        ));
    }
    if model.behaviour.is_none() {
        return Err(format!(
            "models.{name}.behaviour is missing; backend \"practice\" needs \"wait\" or \"compute\""
        ));
    }
    let Some(us) = model.us else {
        return Err(format!(
            "models.{name}.us is missing; backend \"practice\" needs the microseconds of a run, as in us = 1000"
        ));
    };
    let most = (model.batch_size_max as u64).saturating_mul(model.us_per_row.unwrap_or(0));
    if us.saturating_add(most) > PRACTICE_RUN_US_MAX {
        let found = us.saturating_add(most);
        return Err(format!(
            "models.{name}: a run of batch_size_max rows takes {found} us (us + batch_size_max * us_per_row); expected at most {PRACTICE_RUN_US_MAX}"
        ));
    }
    match model.width {
        Some(width) if width == 0 || width > PRACTICE_WIDTH_MAX => Err(format!(
            "models.{name}.width is {width}; expected 1 to {PRACTICE_WIDTH_MAX}"
        )),
        _ => Ok(()),
    }
}

fn check_references(config: &Config, plan: &Plan) -> Result<(), Problem> {
    for (stage, name) in plan.names() {
        let at = &plan.stages[stage].description.name;
        let key = format!("pipelines.{}, stage {at:?}, key {}", plan.name, name.key);
        let found = match name.section {
            "ordered" => known(&key, name.name, name.section, &config.ordered),
            "features" => known(&key, name.name, name.section, &config.features),
            _ => known(&key, name.name, name.section, &config.models),
        };
        found.map_err(|text| Problem {
            text,
            stage: Some((plan.name.clone(), stage, name.key.to_owned())),
        })?;
    }
    Ok(())
}

fn check_defaults(config: &Config) -> Result<(), String> {
    if let Some(name) = &config.default_model {
        known("default_model", name, "models", &config.models)?;
    }
    if let Some(name) = &config.default_store {
        known("default_store", name, "ordered", &config.ordered)?;
    }
    if let Some(name) = &config.default_pipeline {
        known("default_pipeline", name, "pipelines", &config.pipelines)?;
    }
    Ok(())
}

/// The pipeline that a call of `kind` without a name means.
pub(crate) fn default_pipeline(config: &Config, kind: RequestKind) -> Option<&str> {
    let of_kind = |name: &&String| {
        config
            .pipelines
            .get(*name)
            .is_some_and(|pipeline| pipeline.request == kind)
    };
    if let Some(name) = config.default_pipeline.as_ref().filter(of_kind) {
        return Some(name);
    }
    let mut fitting = config.pipelines.keys().filter(of_kind);
    match (fitting.next(), fitting.next()) {
        (Some(name), None) => Some(name),
        _ => None,
    }
}

fn known<T>(key: &str, name: &str, section: &str, named: &BTreeMap<String, T>) -> Result<(), String> {
    if named.contains_key(name) {
        return Ok(());
    }
    let there: Vec<&str> = named.keys().map(String::as_str).collect();
    Err(format!(
        "{key} is {name:?}, which no [{section}.…] section defines; defined are {there:?}"
    ))
}

fn positive(key: &str, value: usize) -> Result<(), String> {
    if value == 0 {
        Err(format!("{key} is 0; expected at least 1"))
    } else {
        Ok(())
    }
}
