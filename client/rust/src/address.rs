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
}

/// Reads "ADDRESS,ADDRESS,…".
///
/// # Errors
/// [`CallError::Connect`] that names the first one that is no address.
pub(crate) fn parse_list(list: &str) -> Result<Vec<Address>, CallError> {
    list.split(',').map(|text| parse(text.trim())).collect()
}

fn parse(text: &str) -> Result<Address, CallError> {
    let place = match text.strip_prefix("unix:") {
        Some("") => Err("no path follows unix:"),
        Some(path) => Ok(Place::Unix(path.into())),
        None => host_and_port(text).map(|_| Place::Tcp(text.to_owned())),
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

/// Both parts of "HOST:PORT"; the host of an IPv6 address stands in brackets.
fn host_and_port(text: &str) -> Result<(&str, u16), &'static str> {
    let (host, port) = text.rsplit_once(':').ok_or("it has no port")?;
    let port = port
        .parse()
        .map_err(|_| "what follows its last colon is no port (1 to 65535)")?;
    match host {
        "" => Err("it has no host"),
        _ if host.contains("//") => Err("it begins with a scheme that this client does not know"),
        _ if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) => {
            Err("an IPv6 address stands in brackets, as in [::1]:13500")
        }
        _ => Ok((host, port)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn tcp(text: &str) -> Place {
        Place::Tcp(text.to_owned())
    }

    #[test]
    fn every_spelling_is_read() {
        for (list, expected) in [
            ("localhost:13500", vec![tcp("localhost:13500")]),
            ("[::1]:13500", vec![tcp("[::1]:13500")]),
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
    fn what_is_no_address_is_named_with_the_mend() {
        for (list, named, expected) in [
            ("no-port", "no-port", "has no port"),
            ("", "", "has no port"),
            ("a:1,,b:2", "", "has no port"),
            ("a:1, b:port", "b:port", "no port (1 to 65535)"),
            ("a:65536", "a:65536", "no port (1 to 65535)"),
            (":13500", ":13500", "has no host"),
            ("::1:13500", "::1:13500", "brackets"),
            ("http://a:1", "http://a:1", "scheme"),
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
