//! What a membership follows and how. Its invariant: options that were checked can be used; what cannot is refused by name before
//! the first connection.

use crate::Error;
use crate::endpoint::Endpoint;
use crate::tls::Connector;
use millpond_nodes::Node;
use std::path::PathBuf;
use std::time::Duration;

/// Endpoints at most.
const ENDPOINTS_MAX: usize = 32;
/// How long a lease may last: etcd itself refuses shorter ones than its election takes.
const LEASE_TTL_S: std::ops::RangeInclusive<u64> = 2..=3600;
/// How long a call may take.
const CALL_TIMEOUT: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);

/// What a membership follows and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// etcd's client URLs, "http://HOST:PORT" or "https://HOST:PORT"; where one fails, the next is tried.
    pub endpoints: Vec<String>,
    /// The cluster's name: its keys begin with "/millpond/CLUSTER/". 1 to 64 letters, digits, '.', '_' and '-'.
    pub cluster: String,
    /// This process, where it is a node that others call.
    pub registration: Option<Node>,
    /// How long etcd keeps the registration of a process that has died, in whole seconds.
    pub lease_ttl: Duration,
    /// How long one call to etcd may take; at most half of `lease_ttl`.
    pub call_timeout: Duration,
    /// The ceiling of the wait after the first failure; it doubles with each further one. Waits are drawn evenly below it.
    pub backoff_first: Duration,
    /// The ceiling of every wait.
    pub backoff_most: Duration,
    /// For endpoints that begin with https.
    pub tls: Option<Tls>,
}

/// How etcd is known over TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// PEM: the certificates that etcd's certificate must be signed by.
    pub ca: PathBuf,
    /// The certificate that etcd asks its clients for, if it does.
    pub identity: Option<TlsIdentity>,
}

/// A certificate of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsIdentity {
    /// PEM.
    pub certificate: PathBuf,
    /// PEM.
    pub key: PathBuf,
}

/// What was read of the options.
pub(crate) struct Checked {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) tls: Option<Connector>,
}

impl Options {
    /// Leases of 10 s, calls of at most 2 s, waits of 100 ms to 5 s; no registration and no TLS.
    pub fn new<E: Into<String>>(
        endpoints: impl IntoIterator<Item = E>,
        cluster: impl Into<String>,
    ) -> Options {
        Options {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            cluster: cluster.into(),
            registration: None,
            lease_ttl: Duration::from_secs(10),
            call_timeout: Duration::from_secs(2),
            backoff_first: Duration::from_millis(100),
            backoff_most: Duration::from_secs(5),
            tls: None,
        }
    }

    /// What [`Membership::start`](crate::Membership::start) would refuse.
    ///
    /// # Errors
    /// What cannot be used, by its name.
    pub fn check_all(&self) -> Result<(), Error> {
        self.check().map(|_| ())
    }

    /// Refuses what cannot be used, and reads certificates.
    pub(crate) fn check(&self) -> Result<Checked, Error> {
        let refused = |option, why: &str| Err(refuse(option, why));
        if !(1..=ENDPOINTS_MAX).contains(&self.endpoints.len()) {
            return refused("endpoints", "expected 1 to 32 of them");
        }
        let endpoints = self.endpoints.iter().map(|text| Endpoint::read(text));
        let endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
        check_cluster(&self.cluster)?;
        if let Some(node) = &self.registration {
            node.check()
                .map_err(|error| refuse("registration", &error.to_string()))?;
        }
        if self.lease_ttl.subsec_nanos() != 0 || !LEASE_TTL_S.contains(&self.lease_ttl.as_secs()) {
            return refused("lease_ttl", "expected whole seconds, 2 to 3600");
        }
        if !CALL_TIMEOUT.contains(&self.call_timeout) || self.call_timeout > self.lease_ttl / 2 {
            return refused(
                "call_timeout",
                "expected 1 ms to 60 s, and at most half of lease_ttl",
            );
        }
        if self.backoff_first.is_zero() || self.backoff_first > self.backoff_most {
            return refused("backoff_first", "expected more than 0, and at most backoff_most");
        }
        if endpoints.iter().any(|endpoint| endpoint.tls) && self.tls.is_none() {
            return refused("tls", "missing, and an endpoint begins with https");
        }
        let tls = self.tls.as_ref().map(Connector::new).transpose();
        Ok(Checked {
            endpoints,
            tls: tls.map_err(|why| refuse("tls", &why))?,
        })
    }
}

fn check_cluster(name: &str) -> Result<(), Error> {
    // A cluster is called as a node may be.
    let node = Node {
        name: name.to_owned(),
        addresses: vec!["a:1".to_owned()],
    };
    node.check()
        .map_err(|_| refuse("cluster", "expected 1 to 64 letters, digits, '.', '_' and '-'"))
}

pub(crate) fn refuse(option: &'static str, why: &str) -> Error {
    Error::Options {
        option,
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_cannot_be_used_are_refused_by_name() {
        let check = |change: &dyn Fn(&mut Options), expected: &str| {
            let mut options = Options::new(["http://127.0.0.1:2379"], "a");
            change(&mut options);
            let found = options
                .check()
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            assert!(
                found.contains(expected) && found.is_empty() == expected.is_empty(),
                "{found}"
            );
        };
        let path = || PathBuf::from("/nowhere");
        check(&|_| (), "");
        check(
            &|options| options.endpoints.clear(),
            "endpoints: expected 1 to 32",
        );
        check(
            &|options| options.endpoints[0] = "127.0.0.1:2379".into(),
            "endpoints: \"127.0.0.1:2379\"",
        );
        check(&|options| options.cluster = "a/b".into(), "cluster: ");
        check(&|options| options.cluster.clear(), "cluster: ");
        let node = Node {
            name: "a".into(),
            addresses: vec!["nowhere".into()],
        };
        check(
            &|options| options.registration = Some(node.clone()),
            "registration: node \"a\": address \"nowhere\"",
        );
        check(
            &|options| options.lease_ttl = Duration::from_millis(2500),
            "lease_ttl: ",
        );
        check(
            &|options| options.lease_ttl = Duration::from_secs(1),
            "lease_ttl: ",
        );
        check(
            &|options| options.call_timeout = Duration::from_secs(6),
            "call_timeout: ",
        );
        check(&|options| options.call_timeout = Duration::ZERO, "call_timeout: ");
        check(
            &|options| options.backoff_first = Duration::from_secs(6),
            "backoff_first: ",
        );
        check(
            &|options| options.endpoints[0] = "https://a:1".into(),
            "tls: missing",
        );
        check(
            &|options| {
                options.tls = Some(Tls {
                    ca: path(),
                    identity: None,
                })
            },
            "tls: no certificates can be read from /nowhere",
        );
    }
}
