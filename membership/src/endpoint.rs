//! Where etcd listens: "http://HOST:PORT". Nothing is looked up here. Its invariant: an endpoint that was read has everything that
//! connecting needs.

use crate::Error;
use crate::options::refuse;
use millpond_nodes::check_address;

/// One of etcd's client URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// As it was written: what errors name.
    pub(crate) text: String,
    /// "HOST:PORT": where it is connected to, and the header `Host`.
    pub(crate) authority: String,
    /// The host, without the brackets of an IPv6 address.
    pub(crate) host: String,
    /// Whether it begins with https.
    pub(crate) tls: bool,
}

impl Endpoint {
    pub(crate) fn read(text: &str) -> Result<Endpoint, Error> {
        let refused = |why: &str| refuse("endpoints", &format!("{text:?}: {why}; write http://HOST:PORT"));
        let (tls, rest) = if let Some(rest) = text.strip_prefix("http://") {
            (false, rest)
        } else if let Some(rest) = text.strip_prefix("https://") {
            (true, rest)
        } else {
            return Err(refused("it begins with neither http:// nor https://"));
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.starts_with("unix:") || authority.starts_with("tls:") {
            return Err(refused("it has no host"));
        }
        check_address(authority).map_err(refused)?;
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        Ok(Endpoint {
            text: text.to_owned(),
            authority: authority.to_owned(),
            host: host.trim_matches(['[', ']']).to_owned(),
            tls,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_and_refused() {
        let check =
            |text: &str, expected: Result<(&str, &str, bool), &str>| match (Endpoint::read(text), expected) {
                (Ok(found), Ok(expected)) => {
                    assert_eq!(
                        (found.authority.as_str(), found.host.as_str(), found.tls),
                        expected
                    );
                }
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, _) => panic!("{text}: {found:?}"),
            };
        check(
            "http://127.0.0.1:2379",
            Ok(("127.0.0.1:2379", "127.0.0.1", false)),
        );
        check(
            "https://etcd.example:2379/",
            Ok(("etcd.example:2379", "etcd.example", true)),
        );
        check("http://[::1]:2379", Ok(("[::1]:2379", "::1", false)));
        check("etcd:2379", Err("neither http:// nor https://"));
        check("http://etcd", Err("no port"));
        check("http://etcd:2379/v3", Err("no port"));
        check("http://user:secret@etcd:2379", Err("brackets"));
        check("http://unix:/run", Err("no host"));
    }
}
