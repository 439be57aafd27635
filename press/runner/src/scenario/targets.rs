//! One target made ready: its requests as bytes, what a right answer is, and the server that is started for it.
//!
//! Its invariant: a target that comes out of here can be sent to; every request in it was rendered and encoded once.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millpond_press_report::Requests;
use millpond_press_workload as workload;
use millpond_press_workload::{Mixed, RequestSet, Sizes, Template, value_of};

use super::keys::{Check, File, Operation, PidFrom, Protocol, Server, Target};
use crate::check::Checker;
use crate::probe::Ready;
use crate::target::echo::Echo;
use crate::target::http::{Http, Request};
use crate::target::in_process::LocalRequests;
use crate::target::memcached::{self, Memcached};
use crate::target::native::Native;
use crate::target::resp::{self, Resp};
use crate::target::{Prepared, msgpack};
use crate::tls::Tls;

/// Requests drawn for a mix where the scenario does not say how many.
const COUNT: usize = 10_000;
/// The largest set of known answers.
const EXPECTED_BYTES_MAX: usize = 256 << 20;

/// Where the number of the server's process comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServerPid {
    Unknown,
    Given(u32),
    Infos,
}

/// The protocol with its prepared requests.
#[derive(Clone)]
pub(crate) enum Encoded {
    Http(Arc<Http>),
    Native(Arc<Native>),
    Resp(Arc<Resp>),
    Memcached(Arc<Memcached>),
    Echo(Arc<Echo>),
    Local(Arc<LocalRequests>),
}

/// What loads the store before the first load.
pub(crate) struct Fill {
    parts: Vec<Template>,
    pub(crate) keys: u64,
    sizes: Sizes,
    seed: u64,
}

/// A target, ready to be sent to.
pub(crate) struct TargetPlan {
    pub(crate) name: String,
    pub(crate) protocol: Protocol,
    pub(crate) address_text: String,
    pub(crate) address: Option<SocketAddr>,
    /// What its connections begin with, where they are encrypted.
    pub(crate) tls: Option<Tls>,
    /// The path, the method or the first operation.
    pub(crate) words: String,
    pub(crate) timeout: Duration,
    pub(crate) answer_bytes_max: usize,
    pub(crate) server_pid: ServerPid,
    pub(crate) metrics: Option<Ready>,
    pub(crate) files: Option<PathBuf>,
    pub(crate) encoded: Encoded,
    pub(crate) checker: Arc<Checker>,
    pub(crate) operations: Vec<String>,
    pub(crate) operation_of: Arc<Vec<u16>>,
    /// Whether the order of the requests matters.
    pub(crate) in_sequence: bool,
    pub(crate) fill: Option<Fill>,
    pub(crate) server: Option<(Server, Ready)>,
    pub(crate) requests: Requests,
}

/// What is sent, before it is encoded.
struct Bodies {
    set: RequestSet,
    source: String,
    /// The keys of each request, for mixes.
    mixed: Option<Mixed>,
}

impl TargetPlan {
    pub(super) fn new(file: &File, target: &Target, server: Option<&Server>) -> Result<TargetPlan, String> {
        let bodies = bodies(file, target)?;
        let address = match target.protocol.is_local() {
            true => None,
            false => Some(resolve(&target.address)?),
        };
        let expected = expected(file, &bodies)?;
        let is_json = matches!(target.protocol, Protocol::Http | Protocol::Native);
        let json = is_json.then_some(&bodies.set).filter(|_| bodies.mixed.is_none());
        let checker = Checker::new(&file.check, json, expected.as_ref(), bodies.set.len())?;
        let encoded = encode(file, target, &bodies)?;
        let fill = target
            .fill
            .as_ref()
            .map(|fill| fill_of(file, target, fill, bodies.mixed.as_ref()))
            .transpose()?;
        let server = server
            .map(|server| Ok((server.clone(), Ready::parse(&server.ready)?)))
            .transpose()
            .map_err(|message: String| format!("server.ready: {message}"))?;
        let metrics = target.metrics.as_deref().map(Ready::parse).transpose();
        Ok(TargetPlan {
            name: name_of(target),
            protocol: target.protocol,
            address_text: target.address.clone(),
            address,
            tls: Tls::of(target)?,
            words: words_of(target),
            timeout: Duration::from_millis(target.timeout_ms),
            answer_bytes_max: target.answer_bytes_max,
            server_pid: match (target.server_pid, target.server_pid_from) {
                (Some(pid), _) => ServerPid::Given(pid),
                (None, Some(PidFrom::Infos)) => ServerPid::Infos,
                (None, None) => ServerPid::Unknown,
            },
            metrics: metrics.map_err(|message| format!("target.metrics: {message}"))?,
            files: target.files.clone(),
            encoded,
            requests: Requests {
                target: name_of(target),
                source: bodies.source.clone(),
                count: bodies.set.len(),
                distinct: bodies.set.distinct(),
                bytes: bodies.set.bytes(),
                check: checker.in_words() + verified_in_words(file, target, &bodies),
                check_share: checker.share(),
            },
            checker: Arc::new(checker),
            operations: operation_names(target),
            in_sequence: bodies.mixed.is_some(),
            operation_of: Arc::new(bodies.mixed.map(|mixed| mixed.operation_of).unwrap_or_default()),
            fill,
            server,
        })
    }
}

impl Fill {
    /// The requests that write the keys of one range, encoded.
    pub(crate) fn encode(&self, target: &TargetPlan, keys: std::ops::Range<u64>) -> Result<Encoded, String> {
        let set =
            workload::fill(self.seed, keys, &self.parts, &self.sizes).map_err(|error| error.to_string())?;
        encode_set(
            target.protocol,
            &target.address_text,
            "",
            &set,
            None,
            target.answer_bytes_max,
        )
    }
}

fn name_of(target: &Target) -> String {
    target
        .name
        .clone()
        .unwrap_or_else(|| target.protocol.as_str().to_owned())
}

/// What is sent, in a few words.
fn words_of(target: &Target) -> String {
    let first = target.operations.first();
    let of_first = |operation: &Operation| {
        let command = operation.command.as_ref().or(operation.method.as_ref());
        command.or(operation.path.as_ref()).cloned()
    };
    match target.protocol {
        Protocol::Http | Protocol::Native if first.is_none() => {
            let (method, path) = method_and_path(target);
            if target.protocol == Protocol::Http {
                path
            } else {
                method
            }
        }
        _ => first.and_then(of_first).unwrap_or_default(),
    }
}

/// The method and the path; each follows from the other where only one is given.
fn method_and_path(target: &Target) -> (String, String) {
    let last = |path: &String| path.rsplit('/').next().unwrap_or_default().to_owned();
    let method = target.method.clone().or_else(|| target.path.as_ref().map(last));
    let method = method.unwrap_or_default();
    let path = target
        .path
        .clone()
        .unwrap_or_else(|| format!("/service/{method}"));
    (method, path)
}

pub(super) fn operation_names(target: &Target) -> Vec<String> {
    let name = |(at, operation): (usize, &Operation)| {
        let words = operation.name.clone().or(operation.command.clone());
        words.unwrap_or_else(|| format!("operation {}", at + 1))
    };
    target.operations.iter().enumerate().map(name).collect()
}

fn bodies(file: &File, target: &Target) -> Result<Bodies, String> {
    let requests = &file.requests;
    let plain = |set, source: String| {
        Ok(Bodies {
            set,
            source,
            mixed: None,
        })
    };
    let words = |error: workload::Error| format!("[requests]: {error}");
    let bodies = if !target.operations.is_empty() {
        mix(file, target)
    } else if let Some(path) = &requests.file {
        plain(RequestSet::load(path).map_err(words)?, path.display().to_string())
    } else if let Some(samples) = &requests.generate {
        let columns = samples.features.len();
        let source = format!(
            "generated, {} samples of {columns} features each",
            samples.samples
        );
        plain(samples.generate(file.scenario.seed).map_err(words)?, source)
    } else if target.protocol == Protocol::Echo {
        let sizes = requests.bytes.clone().unwrap_or(Sizes::Constant(32));
        sizes
            .check()
            .map_err(|error| format!("requests.bytes: {error}"))?;
        let mut body = Vec::new();
        let bodies = (0..requests.count.unwrap_or(1_000)).map(|number| {
            body.clear();
            value_of(file.scenario.seed, number as u64, &sizes, &mut body);
            body.clone()
        });
        plain(
            RequestSet::from_bodies("requests.bytes", bodies).map_err(words)?,
            "random letters".into(),
        )
    } else if target.method.is_some() || target.path.is_some() {
        let body: &[u8] = if target.protocol == Protocol::Native {
            b"{}"
        } else {
            b""
        };
        plain(
            RequestSet::from_bodies("the empty request", [body]).map_err(words)?,
            "empty bodies".into(),
        )
    } else {
        Err(
            "[requests] needs `file` or `generate`, or the target `operations`; \
             see press/scenarios/r1-recommand.toml and peer-redis.toml"
                .into(),
        )
    }?;
    if target.protocol == Protocol::Echo && bodies.set.iter().any(<[u8]>::is_empty) {
        return Err(
            "requests.bytes gives a request of 0 bytes, and an echo of nothing has no end; use at least 1"
                .into(),
        );
    }
    let distinct_min = requests.distinct_min.unwrap_or(1);
    if bodies.set.distinct() < distinct_min {
        return Err(format!(
            "requests.distinct_min is {distinct_min}, but {} holds {} distinct requests; add requests or lower it",
            bodies.source,
            bodies.set.distinct()
        ));
    }
    Ok(bodies)
}

/// Draws the requests of a target's operations.
fn mix(file: &File, target: &Target) -> Result<Bodies, String> {
    let operations = target
        .operations
        .iter()
        .zip(operation_names(target))
        .map(|(operation, name)| {
            Ok(workload::Operation {
                parts: parts(target.protocol, target, operation)?,
                weight: operation.weight,
                writes: operation.writes,
                name,
            })
        })
        .collect::<Result<Vec<_>, String>>()?;
    let (count, popularity, sizes) = match &file.keys {
        Some(keys) => (keys.count, keys.popularity.clone(), keys.value_bytes.clone()),
        None if operations
            .iter()
            .flat_map(|one| &one.parts)
            .any(|part| part.keys_each() > 0) =>
        {
            return Err(
                "an operation holds {key}, but there is no [keys] section; add one with count = …".into(),
            );
        }
        None => (1, workload::Popularity::Uniform, Sizes::Constant(40)),
    };
    let mut keys = workload::Keys::new(count, &popularity).map_err(|error| format!("[keys]: {error}"))?;
    let requests = file.requests.count.unwrap_or(COUNT);
    let mixed = workload::mix(file.scenario.seed, requests, &operations, &mut keys, &sizes)
        .map_err(|error| error.to_string())?;
    Ok(Bodies {
        set: mixed.requests.clone(),
        source: format!(
            "{requests} drawn from {} operations over {count} keys",
            operations.len()
        ),
        mixed: Some(mixed),
    })
}

/// The templates of one operation, as its protocol wants them: the first line says what, the rest is the body.
fn parts(protocol: Protocol, target: &Target, operation: &Operation) -> Result<Vec<Template>, String> {
    let needs = |key: &str| format!("an operation of protocol \"{}\" needs `{key}`", protocol.as_str());
    let texts: Vec<String> = match protocol {
        Protocol::Http => {
            let path = operation.path.clone().or_else(|| {
                let method = operation.method.as_ref().or(target.method.as_ref());
                method.map(|method| format!("/service/{method}"))
            });
            let path = path.or(target.path.clone()).ok_or_else(|| needs("path"))?;
            let verb = operation.verb.clone();
            let default = if operation.body.is_some() { "POST" } else { "GET" };
            let first = format!("{} {path}", verb.unwrap_or_else(|| default.into()));
            vec![first, operation.body.clone().unwrap_or_default()]
        }
        Protocol::Native => {
            let method = operation.method.clone().or(target.method.clone());
            let body = operation.body.clone().unwrap_or_else(|| "{}".into());
            vec![method.ok_or_else(|| needs("method"))?, body]
        }
        Protocol::Echo => vec![operation.body.clone().ok_or_else(|| needs("body"))?],
        _ => vec![operation.command.clone().ok_or_else(|| needs("command"))?],
    };
    texts
        .iter()
        .map(|text| Template::parse(text).map_err(|error| format!("{text:?}: {error}")))
        .collect()
}

fn fill_of(file: &File, target: &Target, fill: &Operation, mixed: Option<&Mixed>) -> Result<Fill, String> {
    let keys = file
        .keys
        .as_ref()
        .ok_or("target.fill needs a [keys] section: it writes every key once")?;
    Ok(Fill {
        parts: parts(target.protocol, target, fill).map_err(|message| format!("target.fill: {message}"))?,
        // With the keys that writes insert: another connection may ask for them before they are written.
        keys: keys.count.max(mixed.map_or(0, Mixed::keys_end)),
        sizes: keys.value_bytes.clone(),
        seed: file.scenario.seed,
    })
}

fn expected(file: &File, bodies: &Bodies) -> Result<Option<RequestSet>, String> {
    let Some(path) = &file.requests.expected else {
        return Ok(None);
    };
    let expected = RequestSet::load(path).map_err(|error| format!("requests.expected: {error}"))?;
    if expected.len() != bodies.set.len() {
        return Err(format!(
            "requests.expected holds {} lines for {} requests; it needs one line a request",
            expected.len(),
            bodies.set.len()
        ));
    }
    Ok(Some(expected))
}

fn checks_values(check: &Check, target: &Target) -> bool {
    check.values.unwrap_or(target.fill.is_some())
}

fn verified_in_words(file: &File, target: &Target, bodies: &Bodies) -> &'static str {
    match target.protocol {
        Protocol::Echo => "; every byte comes back as it was sent",
        Protocol::Resp | Protocol::Memcached
            if bodies.mixed.is_some() && checks_values(&file.check, target) =>
        {
            "; every value is the one that was written"
        }
        _ => "",
    }
}

fn encode(file: &File, target: &Target, bodies: &Bodies) -> Result<Encoded, String> {
    let known = match &bodies.mixed {
        Some(mixed) if checks_values(&file.check, target) => known_answers(file, target, mixed)?,
        _ => None,
    };
    let headers: String = target
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    if bodies.mixed.is_some() {
        let (host, max) = (&target.address, target.answer_bytes_max);
        return encode_set(target.protocol, host, &headers, &bodies.set, known, max);
    }
    let (method, path) = method_and_path(target);
    match target.protocol {
        Protocol::Http => {
            let is_empty = file.requests.file.is_none() && file.requests.generate.is_none();
            let verb = if is_empty { "GET" } else { "POST" };
            let mut http = Http::builder(&target.address, &headers, target.answer_bytes_max);
            for body in bodies.set.iter() {
                http.push(Request {
                    verb,
                    path: &path,
                    body,
                });
            }
            Ok(Encoded::Http(Arc::new(http.finish())))
        }
        Protocol::Native => {
            let encoded = bodies.set.iter().enumerate().map(|(number, body)| {
                let payload = msgpack::from_json(body);
                payload.map_err(|why| format!("request {} cannot be sent as msgpack: {why}", number + 1))
            });
            let encoded: Vec<Vec<u8>> = encoded.collect::<Result<_, _>>()?;
            let frames = encoded.into_iter().map(|payload| (method.clone(), payload));
            Ok(Encoded::Native(Arc::new(Native::new(
                frames,
                target.answer_bytes_max,
            )?)))
        }
        Protocol::Echo => Ok(Encoded::Echo(Arc::new(Echo::new(&bodies.set)))),
        other => encode_set(other, "", "", &bodies.set, None, target.answer_bytes_max),
    }
}

/// Encodes requests whose first line says what they are.
fn encode_set(
    protocol: Protocol,
    host: &str,
    headers: &str,
    set: &RequestSet,
    known: Option<Prepared>,
    answer_bytes_max: usize,
) -> Result<Encoded, String> {
    let split = |body: &[u8]| -> Result<(String, Vec<u8>), String> {
        let at = body.iter().position(|&byte| byte == b'\n').unwrap_or(body.len());
        let first = std::str::from_utf8(&body[..at]).map_err(|_| "a first line is not UTF-8")?;
        Ok((first.to_owned(), body.get(at + 1..).unwrap_or_default().to_vec()))
    };
    Ok(match protocol {
        Protocol::Http => {
            let mut http = Http::builder(host, headers, answer_bytes_max);
            for body in set.iter() {
                let (first, body) = split(body)?;
                let (verb, path) = first.split_once(' ').unwrap_or(("GET", &first));
                http.push(Request {
                    verb,
                    path,
                    body: &body,
                });
            }
            Encoded::Http(Arc::new(http.finish()))
        }
        Protocol::Native => {
            let mut frames = Vec::new();
            for (number, body) in set.iter().enumerate() {
                let (method, body) = split(body)?;
                let payload = msgpack::from_json(&body)
                    .map_err(|why| format!("request {} cannot be sent as msgpack: {why}", number + 1))?;
                frames.push((method, payload));
            }
            Encoded::Native(Arc::new(Native::new(frames.into_iter(), answer_bytes_max)?))
        }
        Protocol::Resp => Encoded::Resp(Arc::new(Resp::new(set, known, answer_bytes_max)?)),
        Protocol::Memcached => Encoded::Memcached(Arc::new(Memcached::new(set, known, answer_bytes_max)?)),
        Protocol::Echo => Encoded::Echo(Arc::new(Echo::new(set))),
        local => Encoded::Local(Arc::new(LocalRequests::new(local, set)?)),
    })
}

/// From a command and the values of its keys to the answer.
type KnownAnswer = fn(&[u8], &[Vec<u8>]) -> Option<Vec<u8>>;

/// The answers that are known before they come, because every value follows from its key.
fn known_answers(file: &File, target: &Target, mixed: &Mixed) -> Result<Option<Prepared>, String> {
    let answer: KnownAnswer = match target.protocol {
        Protocol::Resp => resp::expected_answer,
        Protocol::Memcached => memcached::expected_answer,
        _ => return Ok(None),
    };
    let Some(keys) = &file.keys else { return Ok(None) };
    let (mut known, mut bytes) = (Prepared::default(), 0);
    for (number, command) in mixed.requests.iter().enumerate() {
        let value = |&key: &u64| {
            let mut value = Vec::new();
            value_of(file.scenario.seed, key, &keys.value_bytes, &mut value);
            value
        };
        let values: Vec<Vec<u8>> = mixed.keys_of(number).iter().map(value).collect();
        let expected = answer(command, &values).unwrap_or_default();
        bytes += expected.len();
        if bytes > EXPECTED_BYTES_MAX {
            return Err(format!(
                "the known answers need more than {EXPECTED_BYTES_MAX} bytes of memory; \
                 lower requests.count or set check.values = false"
            ));
        }
        known.push(|out| out.extend_from_slice(&expected));
    }
    Ok(Some(known))
}

fn resolve(address: &str) -> Result<SocketAddr, String> {
    let mut found = address.to_socket_addrs().map_err(|error| {
        format!("target.address {address:?} is no host and port ({error}); write it as \"127.0.0.1:13500\"")
    })?;
    found
        .next()
        .ok_or_else(|| format!("target.address {address:?} has no address"))
}
