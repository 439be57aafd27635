//! Where a link connects to: how an address is spelt, and lists of them.
//!
//! Nothing is looked up and nothing is opened here. Its invariant: what is parsed has everything that connecting needs,
//! and what is not is refused before the first connection, by name.

use crate::CallError;
use std::path::PathBuf;
use std::time::Duration;

/// One address, as it was written and as it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// As it was written: what errors name.
    pub(crate) text: String,
    /// What it means.
    pub(crate) place: Place,
}

/// What an address means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// "HOST:PORT"
    Tcp(String),
    /// "unix:PATH"
    Unix(PathBuf),
    /// "tls://HOST:PORT"
    Tls {
        /// "HOST:PORT"
        addr: String,
        /// The host, without the brackets of an IPv6 address: what the server's certificate is for.
        host: String,
    },
}

/// Reads "ADDRESS,ADDRESS,…".
pub(crate) fn parse_list(list: &str) -> Result<Vec<Address>, CallError> {
    list.split(',').map(|text| parse(text.trim())).collect()
}

fn parse(text: &str) -> Result<Address, CallError> {
    let place = if let Some(path) = text.strip_prefix("unix:") {
        match path {
            "" => Err("no path follows unix:"),
            path => Ok(Place::Unix(path.into())),
        }
    } else if let Some(addr) = text.strip_prefix("tls://") {
        host_of(addr).map(|host| Place::Tls {
            addr: addr.to_owned(),
            host: host.trim_matches(['[', ']']).to_owned(),
        })
    } else {
        host_of(text).map(|_| Place::Tcp(text.to_owned()))
    };
    let address = |place| Address {
        text: text.to_owned(),
        place,
    };
    place.map(address).map_err(|detail| CallError::Connect {
        addr: text.to_owned(),
        detail: detail.to_owned(),
        retry_after: Duration::ZERO,
    })
}

/// The host of "HOST:PORT"; that of an IPv6 address stands in brackets.
fn host_of(text: &str) -> Result<&str, &'static str> {
    let (host, port) = text.rsplit_once(':').ok_or("it has no port")?;
    if !matches!(port.parse::<u16>(), Ok(1..)) {
        return Err("what follows its last colon is no port (1 to 65535)");
    }
    match host {
        "" => Err("it has no host"),
        _ if host.contains("//") => Err("it begins with a scheme that this client does not know"),
        _ if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) => {
            Err("an IPv6 address stands in brackets, as in [::1]:13500")
        }
        _ => Ok(host),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn tcp(text: &str) -> Place {
        Place::Tcp(text.to_owned())
    }

    fn tls(addr: &str, host: &str) -> Place {
        Place::Tls {
            addr: addr.to_owned(),
            host: host.to_owned(),
        }
    }

    #[test]
    fn every_spelling_is_read() {
        for (list, expected) in [
            ("localhost:13500", vec![tcp("localhost:13500")]),
            ("[::1]:13500", vec![tcp("[::1]:13500")]),
            (
                "tls://[::1]:13503,tls://a:1",
                vec![tls("[::1]:13503", "::1"), tls("a:1", "a")],
            ),
            (
                "unix:/run/millpond.sock",
                vec![Place::Unix("/run/millpond.sock".into())],
            ),
            (
                "a:1, b:2,unix:c",
                vec![tcp("a:1"), tcp("b:2"), Place::Unix("c".into())],
            ),
        ] {
            let found: Vec<Place> = parse_list(list)
                .unwrap()
                .into_iter()
                .map(|one| one.place)
                .collect();
            assert_eq!(found, expected, "{list}");
        }
    }

    #[test]
    fn what_is_no_address_is_named_with_the_hint() {
        for (list, named, expected) in [
            ("no-port", "no-port", "has no port"),
            ("", "", "has no port"),
            ("a:1,,b:2", "", "has no port"),
            ("a:1, b:port", "b:port", "no port (1 to 65535)"),
            ("a:65536", "a:65536", "no port (1 to 65535)"),
            (":13500", ":13500", "has no host"),
            ("::1:13500", "::1:13500", "brackets"),
            ("a:0", "a:0", "no port (1 to 65535)"),
            ("http://a:1", "http://a:1", "scheme"),
            ("tls://a", "tls://a", "has no port"),
            ("unix:", "unix:", "no path"),
        ] {
            let error = parse_list(list).unwrap_err();
            assert!(
                matches!(&error, CallError::Connect { addr, .. } if addr == named),
                "{error:?}"
            );
            let text = error.to_string();
            assert!(text.contains(expected) && text.contains("HOST:PORT"), "{text}");
        }
    }
}
