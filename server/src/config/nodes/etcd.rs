//! `[nodes.etcd]`: where the map comes from in place of a file, and how this server registers there.
//!
//! It opens no connection. Its invariant: what passes its check can be followed, and a server that registers says where it is reached.

use super::Nodes;
use crate::config::Config;
use millpond_nodes::Node;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// `[nodes.etcd]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Etcd {
    /// Client URLs; where one fails, the next is tried.
    pub endpoints: Vec<String>,
    /// The cluster's name: its keys begin with `/millpond/CLUSTER/`.
    pub cluster: String,
    /// Where other servers reach this one; `server.listen` when left out.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Seconds that the registration of a server that has died stays.
    #[serde(default = "lease_ttl_s")]
    pub lease_ttl_s: u64,
    /// How long one call to etcd may take.
    #[serde(default = "call_timeout_ms")]
    pub call_timeout_ms: u64,
    /// PEM: the certificates that etcd's own must be signed by, for https.
    pub ca: Option<PathBuf>,
    /// PEM: what etcd asks its clients for, if it does.
    pub certificate: Option<PathBuf>,
    /// PEM: its key.
    pub private_key: Option<PathBuf>,
}

fn lease_ttl_s() -> u64 {
    10
}

fn call_timeout_ms() -> u64 {
    2000
}

impl Etcd {
    /// How it is followed; `registration` is this server.
    pub(crate) fn options(&self, registration: Option<Node>) -> millpond_membership::Options {
        let identity = self.certificate.clone().zip(self.private_key.clone());
        let identity =
            identity.map(|(certificate, key)| millpond_membership::TlsIdentity { certificate, key });
        let tls = self
            .ca
            .clone()
            .map(|ca| millpond_membership::Tls { ca, identity });
        millpond_membership::Options {
            registration,
            lease_ttl: Duration::from_secs(self.lease_ttl_s),
            call_timeout: Duration::from_millis(self.call_timeout_ms),
            tls,
            ..millpond_membership::Options::new(self.endpoints.clone(), self.cluster.clone())
        }
    }

    /// The paths that it names.
    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let files = [&mut self.ca, &mut self.certificate, &mut self.private_key];
        files.into_iter().flatten()
    }

    pub(super) fn check(&self, config: &Config, nodes: &Nodes) -> Result<(), String> {
        let has_key = self.private_key.is_some();
        if self.certificate.is_some() != has_key || (has_key && self.ca.is_none()) {
            return Err("nodes.etcd: certificate and private_key go together, and with ca".into());
        }
        let registration = registration(config, nodes, self, None)?;
        if config.server.processes > 1 && registration.is_some() {
            return Err(format!(
                "nodes.name with nodes.etcd registers one process, and server.processes is {}; set it to 1, or have the map in a file \
                 (nodes.map)",
                config.server.processes
            ));
        }
        let checked = self.options(registration).check_all();
        checked.map_err(|error| format!("nodes.etcd: {error}"))
    }
}

/// This server as other servers find it in etcd; `bound` is where it listens.
pub(crate) fn registration(
    config: &Config,
    nodes: &Nodes,
    etcd: &Etcd,
    bound: Option<std::net::SocketAddr>,
) -> Result<Option<Node>, String> {
    let Some(name) = &nodes.name else {
        return Ok(None);
    };
    let listen = bound.unwrap_or(config.server.listen);
    let addresses = match etcd.addresses.as_slice() {
        [] if listen.ip().is_unspecified() => {
            return Err(format!(
                "nodes.etcd.addresses: others cannot reach this server at {listen}; say where they do"
            ));
        }
        // A port of the kernel's choice is known once it is bound.
        [] if listen.port() == 0 => vec![format!("{}:1", listen.ip())],
        [] => vec![listen.to_string()],
        addresses => addresses.to_vec(),
    };
    let node = Node {
        name: name.clone(),
        addresses,
    };
    node.check().map_err(|error| format!("nodes.etcd: {error}"))?;
    Ok(Some(node))
}
