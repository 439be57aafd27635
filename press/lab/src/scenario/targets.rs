//! One target made ready: its requests as its kind prepares them, what a right answer is, and the server that is started for it.
//!
//! Its invariant: a target that comes out of here can be sent to; every request in it was rendered and encoded once.

use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use millpond_press_load::{Checker, Given, Rules, TargetKind, Tls};
use millpond_press_report::Requests;
use millpond_press_workload as workload;
use millpond_press_workload::{Mixed, Sizes, Template, value_of};

use super::keys::{AntagonistKeys, File, Launch, OwnLoad, PidFrom, ProgramKeys, Server, Target};
use super::requests::{Bodies, bodies, expected, fill_of, operation_names};
use crate::probe::Ready;

/// Where the number of the server's process comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServerPid {
    Unknown,
    Given(u32),
    Infos,
    /// The server of the target at this place.
    Of(usize),
}

/// What loads the store before the first load.
pub(crate) struct Fill {
    pub(super) parts: Vec<Template>,
    pub(crate) keys: u64,
    pub(super) sizes: Sizes,
    pub(super) seed: u64,
    pub(super) target: Target,
}

/// A target, ready to be sent to.
pub(crate) struct TargetPlan {
    pub(crate) name: String,
    pub(crate) kind: &'static TargetKind,
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
    pub(crate) prepared: Arc<dyn millpond_press_load::Target>,
    pub(crate) checker: Arc<Checker>,
    pub(crate) operations: Vec<String>,
    pub(crate) operation_of: Arc<Vec<u16>>,
    /// Whether the order of the requests matters.
    pub(crate) in_sequence: bool,
    pub(crate) fill: Option<Fill>,
    pub(crate) server: Option<(Server, Ready)>,
    /// What makes the calls, where that is not press.
    pub(crate) program: Option<ProgramKeys>,
    /// Whether the run goes on without it where it cannot be started.
    pub(crate) optional: bool,
    pub(crate) requests: Requests,
    pub(crate) own: OwnLoad,
    /// What disturbs every second of its loads.
    pub(crate) antagonists: Option<AntagonistKeys>,
}

impl TargetPlan {
    pub(super) fn new(file: &File, target: &Target, server: Option<&Server>) -> Result<TargetPlan, String> {
        let kind = target.protocol;
        let bodies = bodies(file, target)?;
        let address = match kind.takes.local || target.address.is_empty() {
            true => None,
            false => Some(resolve(&target.address)?),
        };
        let checker = checker(file, target, &bodies)?;
        let (prepared, verified) = prepare(file, target, &bodies)?;
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
            name: target.name().to_owned(),
            kind,
            address_text: target.address.clone(),
            address,
            tls: Tls::of(
                target.tls_ca.as_deref(),
                target.tls_name.as_deref(),
                &target.address,
            )?,
            words: match &target.program {
                Some(program) => program.command.join(" "),
                None => (kind.in_words)(&target.description()),
            },
            timeout: Duration::from_millis(target.timeout_ms),
            answer_bytes_max: target.answer_bytes_max,
            server_pid: match (target.server_pid, target.server_pid_from) {
                _ if target.server_of.is_some() => ServerPid::Of(place_of(file, target)?),
                (Some(pid), _) => ServerPid::Given(pid),
                (None, Some(PidFrom::Infos)) => ServerPid::Infos,
                (None, None) => ServerPid::Unknown,
            },
            metrics: metrics.map_err(|message| format!("target.metrics: {message}"))?,
            prepared,
            requests: Requests {
                target: target.name().to_owned(),
                source: bodies.source.clone(),
                count: bodies.set.len(),
                distinct: bodies.set.distinct(),
                bytes: bodies.set.bytes(),
                keys: bodies.mixed.as_ref().and_then(Mixed::keys_mean),
                check: checker.in_words() + verified,
                check_share: checker.share(),
            },
            checker: Arc::new(checker),
            operations: operation_names(target),
            in_sequence: bodies.mixed.is_some(),
            operation_of: Arc::new(bodies.mixed.map(|mixed| mixed.operation_of).unwrap_or_default()),
            fill,
            server,
            program: target.program.clone(),
            optional: target.optional,
            own: target.load.clone(),
            antagonists: target.antagonists.clone(),
        })
    }
}

impl TargetPlan {
    /// What is started for it.
    pub(crate) fn launches(&self) -> impl Iterator<Item = Launch<'_>> {
        let server = self.server.as_ref().map(|(server, _)| server.launch());
        server
            .into_iter()
            .chain(self.program.as_ref().map(ProgramKeys::launch))
    }
}

/// What a right answer of a target is; a program knows that itself.
fn checker(file: &File, target: &Target, bodies: &Bodies) -> Result<Checker, String> {
    let kind = target.protocol;
    let is_compared = kind.takes.json || file.targets.is_empty();
    let expected = if is_compared {
        expected(file, target, bodies)?
    } else {
        None
    };
    let is_json = kind.takes.json && bodies.mixed.is_none();
    let json = is_json.then_some(&bodies.set);
    let mut rules = file.check.clone();
    if !is_compared {
        // Beside targets whose answers have fields, those rules are theirs.
        (rules.field, rules.length_of) = (None, None);
    }
    if kind.takes.program {
        rules = Rules::default();
    }
    Checker::new(&rules, json, expected.as_ref(), bodies.set.len())
}

/// The requests as their kind prepares them, and what it verifies of the answers.
fn prepare(
    file: &File,
    target: &Target,
    bodies: &Bodies,
) -> Result<(Arc<dyn millpond_press_load::Target>, &'static str), String> {
    let checks_values = file.check.values.unwrap_or(target.fill.is_some());
    let keys = file.keys.as_ref().filter(|_| checks_values);
    let sizes = keys.map(|keys| &keys.value_bytes);
    let value = |key: u64| {
        let mut value = Vec::new();
        if let Some(sizes) = sizes {
            value_of(file.scenario.seed, key, sizes, &mut value);
        }
        value
    };
    let given = Given {
        target: target.description(),
        set: &bodies.set,
        has_first_lines: bodies.mixed.is_some(),
        is_empty: file.request_files(target).0.is_none() && file.requests.generate.is_none(),
        mixed: bodies.mixed.as_ref(),
        value_of: match sizes {
            Some(_) => Some(&value),
            None => None,
        },
        rows: file.check.rows,
    };
    let prepared = (target.protocol.prepare)(&given)?;
    Ok((prepared, (target.protocol.verified)(&given)))
}

impl Fill {
    /// Writes the keys of one range.
    pub(crate) fn write(&self, plan: &TargetPlan, keys: Range<u64>) -> Result<(), String> {
        let set = workload::fill(self.seed, keys, &self.parts, &self.sizes);
        let set = set.map_err(|error| error.to_string())?;
        let given = Given {
            target: self.target.description(),
            set: &set,
            has_first_lines: true,
            is_empty: false,
            mixed: None,
            value_of: None,
            rows: None,
        };
        plan.prepared.fill(&given, plan.address, plan.timeout)
    }
}

fn resolve(address: &str) -> Result<SocketAddr, String> {
    let mut found = address.to_socket_addrs().map_err(|error| {
        format!("target.address {address:?} is no host and port ({error}); write it as \"127.0.0.1:13500\"")
    })?;
    found
        .next()
        .ok_or_else(|| format!("target.address {address:?} has no address"))
}

/// The place of the target that has the same server, which stands before this one.
fn place_of(file: &File, target: &Target) -> Result<usize, String> {
    let name = target.server_of.as_deref().unwrap_or_default();
    let before = file
        .targets
        .iter()
        .take_while(|other| other.name() != target.name());
    let place = before.enumerate().find(|(_, other)| other.name() == name);
    place.map(|(place, _)| place).ok_or_else(|| {
        format!(
            "target.server_of is {name:?}, but no target before {:?} is called so",
            target.name()
        )
    })
}
