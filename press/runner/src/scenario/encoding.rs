//! Requests as the bytes of their protocol, and the answers that are known before they come.
//!
//! Its invariant: every request is encoded once, before the first is sent; one that cannot be is an error that names it.

use std::sync::Arc;

use millpond_press_workload::{Mixed, RequestSet, value_of};

use super::keys::{Check, File, Protocol, RandomRows, Target};
use super::requests::Bodies;
use super::targets::method_and_path;
use crate::target::echo::Echo;
use crate::target::http::{Http, Request};
use crate::target::in_process::LocalRequests;
use crate::target::memcached::{self, Memcached};
use crate::target::native::Native;
use crate::target::resp::{self, Resp};
use crate::target::rows::KnownRows;
use crate::target::{Prepared, msgpack};

/// The largest set of known answers.
const EXPECTED_BYTES_MAX: usize = 256 << 20;

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

fn checks_values(check: &Check, target: &Target) -> bool {
    check.values.unwrap_or(target.fill.is_some())
}

/// What is verified of an answer beside the checks of the scenario.
pub(super) fn verified_in_words(file: &File, target: &Target, bodies: &Bodies) -> &'static str {
    match target.protocol {
        Protocol::Echo => "; every byte comes back as it was sent",
        Protocol::Resp | Protocol::Memcached
            if bodies.mixed.is_some() && checks_values(&file.check, target) =>
        {
            "; every value is the one that was written"
        }
        Protocol::Native | Protocol::Features if file.check.rows.is_some() => {
            "; every row is the one that was made"
        }
        _ => "",
    }
}

/// Encodes the requests of a target.
pub(super) fn encode(file: &File, target: &Target, bodies: &Bodies) -> Result<Encoded, String> {
    let known = match &bodies.mixed {
        Some(mixed) if checks_values(&file.check, target) => known_answers(file, target, mixed)?,
        _ => None,
    };
    let headers: String = target
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    if let (Some(mixed), Some(rows)) = (&bodies.mixed, file.check.rows) {
        let known = || known_rows(rows, mixed).map(Some);
        match target.protocol {
            Protocol::Features => {
                let requests = LocalRequests::new(target.protocol, &bodies.set)?;
                return Ok(Encoded::Local(Arc::new(requests.with_rows(known()?))));
            }
            Protocol::Native => {
                let native = native_set(&bodies.set, target.answer_bytes_max)?;
                return Ok(Encoded::Native(Arc::new(native.with_rows(known()?))));
            }
            _ => {}
        }
    }
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
pub(super) fn encode_set(
    protocol: Protocol,
    host: &str,
    headers: &str,
    set: &RequestSet,
    known: Option<Prepared>,
    answer_bytes_max: usize,
) -> Result<Encoded, String> {
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
        Protocol::Native => Encoded::Native(Arc::new(native_set(set, answer_bytes_max)?)),
        Protocol::Resp => Encoded::Resp(Arc::new(Resp::new(set, known, answer_bytes_max)?)),
        Protocol::Memcached => Encoded::Memcached(Arc::new(Memcached::new(set, known, answer_bytes_max)?)),
        Protocol::Echo => Encoded::Echo(Arc::new(Echo::new(set))),
        local => Encoded::Local(Arc::new(LocalRequests::new(local, set)?)),
    })
}

/// The first line and what follows it.
fn split(body: &[u8]) -> Result<(String, Vec<u8>), String> {
    let at = body.iter().position(|&byte| byte == b'\n').unwrap_or(body.len());
    let first = std::str::from_utf8(&body[..at]).map_err(|_| "a first line is not UTF-8")?;
    Ok((first.to_owned(), body.get(at + 1..).unwrap_or_default().to_vec()))
}

/// Frames of requests whose first line is their method.
fn native_set(set: &RequestSet, answer_bytes_max: usize) -> Result<Native, String> {
    let mut frames = Vec::new();
    for (number, body) in set.iter().enumerate() {
        let (method, body) = split(body)?;
        let payload = msgpack::from_json(&body)
            .map_err(|why| format!("request {} cannot be sent as msgpack: {why}", number + 1))?;
        frames.push((method, payload));
    }
    Native::new(frames.into_iter(), answer_bytes_max)
}

/// The rows that each request looks up.
fn known_rows(rows: RandomRows, mixed: &Mixed) -> Result<KnownRows, String> {
    let (mut known, mut bytes) = (KnownRows::new(rows.dim), 0);
    for number in 0..mixed.requests.len() {
        let keys = mixed.keys_of(number);
        bytes += keys.len() * rows.dim * size_of::<f32>();
        if bytes > EXPECTED_BYTES_MAX {
            return Err(format!(
                "the rows of check.rows need more than {EXPECTED_BYTES_MAX} bytes of memory; lower requests.count or leave it out"
            ));
        }
        known.push(rows.seed, keys);
    }
    Ok(known)
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
