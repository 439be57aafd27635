//! By which names this server is called: whether a request's `Host` is answered.
//!
//! A browser lets a page call the site that it came from, and who owns a name may point it at 127.0.0.1 after the page has come
//! (DNS rebinding): such a page calls without an Origin that anybody could refuse, and reads the answers. Only the `Host` tells.
//! It looks at no origin and knows no configuration file. Its invariant: over loopback no name is answered that a
//! stranger could own.

use std::net::{IpAddr, Ipv6Addr};

/// Which names callers over loopback may use beside addresses and `localhost`.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    /// Names without a port, or `*` for any.
    pub listed: Vec<&'static str>,
    /// The configuration key that lists them: what a refusal names.
    pub key: &'static str,
}

impl Hosts {
    /// Whether a request for that `Host` is answered over loopback. One without any is of HTTP/1.0, which no browser
    /// speaks.
    pub(crate) fn answers(&self, host: Option<&str>) -> bool {
        let Some(host) = host else { return true };
        let name = without_port(host);
        let name = name.strip_suffix('.').unwrap_or(name);
        let is_name = |listed: &&str| *listed == "*" || listed.eq_ignore_ascii_case(name);
        is_address(name) || name.eq_ignore_ascii_case("localhost") || self.listed.iter().any(is_name)
    }

    /// The text of a refusal.
    pub(crate) fn refusal(&self, host: &str) -> String {
        let key = self.key;
        format!(
            "Host {host:?} is not answered on a loopback address: a page of any site could call by a name of its own; call an address or \
             localhost, or add the name to {key}"
        )
    }
}

/// A host without the port behind it; the colons of an IPv6 address stand in brackets.
fn without_port(host: &str) -> &str {
    let after_address = host.rfind(']').map_or(0, |end| end + 1);
    let colon = host.get(after_address..).and_then(|rest| rest.find(':'));
    host.get(..colon.map_or(host.len(), |colon| after_address + colon))
        .unwrap_or(host)
}

fn is_address(name: &str) -> bool {
    match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_anybody_could_own_are_not_answered() {
        let hosts = |listed: &[&'static str]| Hosts {
            listed: listed.to_vec(),
            key: "server.hosts",
        };
        let own = hosts(&[]);
        for host in [
            "127.0.0.1",
            "127.0.0.1:13500",
            "[::1]",
            "[::1]:13500",
            "192.168.0.1",
            "localhost",
            "LocalHost:13500",
            "localhost.:80",
        ] {
            assert!(own.answers(Some(host)), "{host}");
        }
        assert!(own.answers(None));
        for host in [
            "",
            ":80",
            "evil.example",
            "evil.example:13500",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "a.localhost",
            "[::1].evil",
            "127.1",
            "0x7f.1",
            "::1",
            "[localhost]",
        ] {
            assert!(!own.answers(Some(host)), "{host}");
        }
        let listed = hosts(&["app.internal"]);
        for host in [
            "app.internal",
            "APP.internal:80",
            "app.internal.",
            "localhost",
            "127.0.0.1",
        ] {
            assert!(listed.answers(Some(host)), "{host}");
        }
        assert!(
            !listed.answers(Some("a.app.internal")) && !listed.answers(Some("app.internal.evil.example"))
        );
        assert!(hosts(&["*"]).answers(Some("evil.example")));
    }
}
