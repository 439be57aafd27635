//! The one TOML file: what each key means, its default, and where it comes from.
//!
//! Flags come before the environment, that before the file, that before the defaults. It opens nothing; `check` looks
//! whether what is named is there. Its invariant: an unknown key is refused, wherever it stands.

pub(crate) mod check;
mod fresh;
mod log;
pub(crate) mod machine;
pub(crate) mod nodes;
mod resp;
mod secret;
mod source;
mod tls;
mod web;

pub use log::{Format, Level, Log};
pub use nodes::{Etcd, MapSource, Nodes, Tls as NodesTls};
pub use resp::Resp;
pub(crate) use resp::numbered;
pub use source::{Origin, load, made};
pub use tls::Tls;

use crate::Error;
use millpond_calls::access::{Secret, Section as Access};
use millpond_catalog::{Library, ModelSection, Resources, Sections};
use millpond_engines_features as features;
use millpond_pipelines::Description;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Everything `millpond serve` can be told. Paths are relative to the file's folder.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The model of an `infer` call that names none; may be left out when there is one model.
    pub default_model: Option<String>,
    /// The pipeline of a `rank` or samples call that names none; may be left out when one fits.
    pub default_pipeline: Option<String>,
    /// The store of an `ordered` call that names none; may be left out when there is one store.
    pub default_store: Option<String>,
    /// The data port.
    pub server: Server,
    /// Health and metrics.
    pub admin: Admin,
    /// Where and how much is logged.
    pub log: Log,
    /// Feature tables by name.
    pub features: BTreeMap<String, features::Section>,
    /// The servers that share tables with this one; none when left out.
    pub nodes: Option<Nodes>,
    /// Ordered stores by name.
    pub ordered: BTreeMap<String, millpond_engines_ordered::Section>,
    /// Models by name.
    pub models: BTreeMap<String, ModelSection>,
    /// The library that ONNX models run on.
    pub onnxruntime: Library,
    /// Pipelines by name.
    pub pipelines: BTreeMap<String, Description>,
    /// Methods of one's own by name.
    pub methods: BTreeMap<String, millpond_methods::Section>,
    /// Who may call what.
    pub access: Access,
}

/// `[server]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Native frames and HTTP.
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    /// Further addresses, and paths of Unix sockets.
    pub listen_also: Vec<Listen>,
    /// Origins whose web pages may call; ["*"] is any.
    pub cors_origins: Vec<String>,
    /// Names by which HTTP callers of loopback addresses may call, beside `localhost`; ["*"] is any.
    pub hosts: Vec<String>,
    /// FPNN's encrypted channel, for old clients; not offered when left out.
    pub fpnn_encryption: Option<FpnnEncryption>,
    /// TLS 1.3 on a port of its own; none when left out.
    pub tls: Option<Tls>,
    /// RESP on a port of its own, for clients of Redis; none when left out.
    pub resp: Option<Resp>,
    /// Processes that share the addresses; see [`crate::Supervisor`].
    pub processes: usize,
    /// Net threads of each process; 0 is one a processor, shared among the processes.
    pub threads: usize,
    /// Processors for net threads and model instances, in turn; empty pins nothing.
    pub cpus: Vec<usize>,
    /// Connections served at a time by each process; further ones are told `Overloaded`.
    pub connections_max: usize,
    /// Calls that each process works on at a time, over all its connections; further ones are told `Overloaded`.
    pub in_flight_max: usize,
    /// Bytes that they hold, over all connections of a process, beside those that wait for models.
    pub in_flight_bytes_max: usize,
    /// Calls one connection may have unanswered before it is not read further.
    pub in_flight_per_connection_max: usize,
    /// Bytes of answers that may wait for one peer to read them, beyond a single answer.
    pub write_buffer_bytes_max: usize,
    /// Bytes of answers that may wait for all peers of a process together.
    pub write_buffers_total_bytes_max: usize,
    /// Bytes of a frame or an HTTP body.
    pub frame_bytes_max: usize,
    /// Bytes of requests that have not come whole, over all connections of a process, beyond 8 KiB of each.
    pub unfinished_bytes_max: usize,
    /// The deadline of a call that names none.
    pub deadline_ms_default: u64,
    /// How long a stop waits for accepted work.
    pub drain_ms_max: u64,
    /// Seconds without a request after which a connection is closed; 0 is for ever.
    pub idle_timeout_s: u64,
    /// Seconds from the first byte of a request to its last; 0 is for ever.
    pub request_timeout_s: u64,
    /// Seconds that a peer may leave answers unread; 0 is for ever.
    pub write_timeout_s: u64,
    /// Microseconds that a net thread polls for requests before it sleeps.
    pub busy_poll_us: u64,
}

impl Default for Server {
    fn default() -> Self {
        Server {
            listen: SocketAddr::from(([127, 0, 0, 1], 13500)),
            listen_also: Vec::new(),
            cors_origins: Vec::new(),
            hosts: Vec::new(),
            fpnn_encryption: None,
            tls: None,
            resp: None,
            processes: 1,
            threads: 0,
            cpus: Vec::new(),
            connections_max: 10_000,
            in_flight_max: 8192,
            in_flight_bytes_max: 64 << 20,
            in_flight_per_connection_max: 1024,
            write_buffer_bytes_max: 32 << 20,
            write_buffers_total_bytes_max: 256 << 20,
            frame_bytes_max: 8 << 20,
            unfinished_bytes_max: 256 << 20,
            deadline_ms_default: 5000,
            drain_ms_max: 10_000,
            idle_timeout_s: 60,
            request_timeout_s: 30,
            write_timeout_s: 30,
            busy_poll_us: 0,
        }
    }
}

impl Server {
    /// Every address where calls are answered, by its key.
    pub(crate) fn listens(&self) -> Vec<(String, Listen)> {
        let also = self.listen_also.iter().enumerate();
        let also = also.map(|(at, listen)| (format!("server.listen_also[{at}]"), listen.clone()));
        let tls = self.tls.iter();
        let tls = tls.map(|tls| ("server.tls.listen".to_owned(), Listen::Inet(tls.listen)));
        let first = ("server.listen".to_owned(), Listen::Inet(self.listen));
        let resp = self.resp.iter().flat_map(Resp::listens);
        std::iter::once(first)
            .chain(also)
            .chain(tls)
            .chain(resp)
            .collect()
    }
}

/// One of `server.listen_also`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// "IP:PORT"
    Inet(SocketAddr),
    /// "unix:PATH"
    Unix(PathBuf),
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Listen::Unix(path.into()));
        }
        text.parse().map(Listen::Inet).map_err(|_| {
            D::Error::custom(format!(
                "{text:?} is no address; write IP:PORT, as in \"[::1]:13500\", or unix:PATH"
            ))
        })
    }
}

/// `[server.fpnn_encryption]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FpnnEncryption {
    /// "secp256k1" or "secp256r1".
    #[serde(default = "fpnn_curve")]
    pub curve: String,
    /// The file of the private key: 32 raw bytes.
    pub private_key: PathBuf,
}

fn fpnn_curve() -> String {
    "secp256k1".into()
}

/// `[admin]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    /// `/healthz`, `/readyz`, `/metrics`.
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    /// As `server.hosts`, for this port.
    pub hosts: Vec<String>,
    /// What `*tune` asks for; it is off where none is set.
    pub token: Secret,
    /// The file that holds it.
    pub token_file: Option<PathBuf>,
}

impl Default for Admin {
    fn default() -> Self {
        Admin {
            listen: SocketAddr::from(([127, 0, 0, 1], 13590)),
            hosts: Vec::new(),
            token: Secret::default(),
            token_file: None,
        }
    }
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    let bad = |_| {
        D::Error::custom(match text.starts_with("unix:") {
            true => format!(
                "{text:?} is a Unix socket, which only listen_also of [server] and [server.resp] takes: listen_also = [{text:?}]; write \
                 IP:PORT here, as in \"127.0.0.1:13500\""
            ),
            false => format!("{text:?} is no address; write IP:PORT, as in \"127.0.0.1:13500\""),
        })
    };
    text.parse().map_err(bad)
}

impl Config {
    /// Reads and checks a file alone, as `millpond check-config` does.
    ///
    /// # Errors
    /// [`Error::Config`] naming file, key and hint.
    pub fn read(file: &Path) -> Result<Config, Error> {
        load(&Origin {
            file: Some(file.to_owned()),
            ..Origin::default()
        })
    }

    /// What the catalog is to hold.
    pub fn sections(&self) -> Sections {
        let mut features = self.features.clone();
        // A table without a folder is on other servers alone.
        features.retain(|_, section| !section.is_elsewhere());
        if self.server.processes > 1 {
            // A copy in each process is for those who ask for it.
            for section in features.values_mut() {
                section.memory.get_or_insert(features::Memory::Mapped);
            }
        }
        Sections {
            features,
            ordered: BTreeMap::clone(&self.ordered),
            models: self.models.clone(),
            onnxruntime: self.onnxruntime.clone(),
            pipelines: self.pipelines.clone(),
            default_model: self.default_model.clone(),
            default_pipeline: self.default_pipeline.clone(),
            default_store: self.default_store.clone(),
        }
    }

    /// What the catalog may use.
    pub fn resources(&self) -> Resources {
        Resources {
            cpus: self.server.cpus.clone(),
            // Admission counts more for a put than its store does, so this is never what refuses one.
            put_bytes_max: self.server.in_flight_bytes_max,
            drain: Duration::from_millis(self.server.drain_ms_max),
            node: self.nodes.as_ref().and_then(|nodes| nodes.name.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
