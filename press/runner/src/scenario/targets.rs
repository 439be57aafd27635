//! One target made ready: its requests as bytes, what a right answer is, and the server that is started for it.
//!
//! Its invariant: a target that comes out of here can be sent to; every request in it was rendered and encoded once.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millpond_press_report::Requests;
use millpond_press_workload as workload;
use millpond_press_workload::{Sizes, Template};

use super::encoding::{Encoded, encode, encode_set, verified_in_words};
use super::keys::{File, Operation, PidFrom, Protocol, Server, Target};
use super::requests::{bodies, expected, fill_of, operation_names};
use crate::check::Checker;
use crate::probe::Ready;
use crate::tls::Tls;

/// Where the number of the server's process comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServerPid {
    Unknown,
    Given(u32),
    Infos,
}

/// What loads the store before the first load.
pub(crate) struct Fill {
    pub(super) parts: Vec<Template>,
    pub(crate) keys: u64,
    pub(super) sizes: Sizes,
    pub(super) seed: u64,
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
pub(super) fn method_and_path(target: &Target) -> (String, String) {
    let last = |path: &String| path.rsplit('/').next().unwrap_or_default().to_owned();
    let method = target.method.clone().or_else(|| target.path.as_ref().map(last));
    let method = method.unwrap_or_default();
    let path = target
        .path
        .clone()
        .unwrap_or_else(|| format!("/service/{method}"));
    (method, path)
}

fn resolve(address: &str) -> Result<SocketAddr, String> {
    let mut found = address.to_socket_addrs().map_err(|error| {
        format!("target.address {address:?} is no host and port ({error}); write it as \"127.0.0.1:13500\"")
    })?;
    found
        .next()
        .ok_or_else(|| format!("target.address {address:?} has no address"))
}
