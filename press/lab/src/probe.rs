//! Single HTTP requests outside of any measurement: is the server ready, and what is it.
//!
//! Blocking and bounded in time and size. Its invariant: no answer of any form does more than fail the probe.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use millpond_press_verdict::Server;
use serde::Deserialize;

use millpond_press_load::{Connection, Request};

/// How long one probe may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The same with the largest answer that one reads.
const LIMITS: (Duration, usize) = (TIMEOUT, 1 << 20);

/// Where a server says that it is ready: `http://HOST:PORT/PATH` with status 200, or `tcp://HOST:PORT` by taking a connection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ready {
    pub(crate) text: String,
    host: String,
    /// The path of a URL; nothing where a connection is enough.
    path: Option<String>,
}

impl Ready {
    pub(crate) fn parse(text: &str) -> Result<Ready, String> {
        let expected = || format!("{text:?} is not of the form http://HOST:PORT/PATH or tcp://HOST:PORT");
        let (rest, is_http) = match (text.strip_prefix("http://"), text.strip_prefix("tcp://")) {
            (Some(rest), _) => (rest, true),
            (None, Some(rest)) => (rest, false),
            (None, None) => return Err(expected()),
        };
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let port = host
            .rsplit_once(':')
            .and_then(|(_, port)| port.parse::<u16>().ok());
        let is_odd = text.contains(|c: char| c.is_whitespace() || c.is_control());
        if port.is_none() || is_odd || (!is_http && !path.is_empty()) {
            return Err(expected());
        }
        Ok(Ready {
            text: text.to_owned(),
            host: host.to_owned(),
            path: is_http.then(|| format!("/{path}")),
        })
    }

    /// Asks once; nothing when it is ready, or why it is not.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.path.is_none() {
            let connected = TcpStream::connect_timeout(&self.address()?, TIMEOUT);
            return connected.map(|_| ()).map_err(|error| error.to_string());
        }
        match self.get()? {
            (200, _) => Ok(()),
            (status, _) => Err(format!("status {status}")),
        }
    }

    /// The body of an answer of status 200, if it is text.
    pub(crate) fn text(&self) -> Option<String> {
        let (status, body) = self.get().ok()?;
        (status == 200).then(|| String::from_utf8(body).ok())?
    }

    fn get(&self) -> Result<(u16, Vec<u8>), String> {
        let get = Request {
            verb: "GET",
            path: self.path.as_deref().unwrap_or("/"),
            body: b"",
        };
        Connection::open(self.address()?, LIMITS)?.exchange(&get.written(&self.host))
    }

    fn address(&self) -> Result<SocketAddr, String> {
        let found = self
            .host
            .to_socket_addrs()
            .map_err(|error| error.to_string())?
            .next();
        found.ok_or_else(|| format!("{} has no address", self.host))
    }
}

/// Asks `*infos` of the server at `address` for its process, version, build, and what its models run on.
pub(crate) fn infos(address: SocketAddr, host: &str) -> Result<Server, String> {
    #[derive(Deserialize)]
    struct Infos {
        millpond: Millpond,
    }
    #[derive(Deserialize)]
    struct Millpond {
        pid: Option<u32>,
        version: Option<String>,
        build: Option<String>,
        #[serde(default)]
        models: BTreeMap<String, Model>,
        /// The number of the process among several that share the port.
        process: Option<u64>,
    }
    #[derive(Deserialize)]
    struct Model {
        provider: Option<String>,
    }
    let post = Request {
        verb: "POST",
        path: "/service/*infos",
        body: b"{}",
    };
    let (status, body) = Connection::open(address, LIMITS)?.exchange(&post.written(host))?;
    if status != 200 {
        return Err(format!("*infos answers with HTTP status {status}"));
    }
    let said: Infos = serde_json::from_slice(&body).map_err(|error| format!("*infos: {error}"))?;
    let Millpond {
        pid,
        version,
        build,
        models,
        process,
    } = said.millpond;
    let providers: BTreeSet<String> = models.into_values().filter_map(|model| model.provider).collect();
    // The number of a process says nothing on another machine, and one of several is not the server.
    let pid = pid.filter(|_| address.ip().is_loopback() && process.is_none());
    Ok(Server {
        pid,
        version,
        build,
        providers: providers.into_iter().collect(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn urls_are_host_port_path() {
        let url = Ready::parse("http://127.0.0.1:13590/readyz").unwrap();
        assert_eq!(
            (url.host.as_str(), url.path.as_deref()),
            ("127.0.0.1:13590", Some("/readyz"))
        );
        assert_eq!(Ready::parse("http://h:1").unwrap().path.as_deref(), Some("/"));
        assert_eq!(Ready::parse("tcp://h:1").unwrap().path, None);
        for bad in [
            "127.0.0.1:13590",
            "https://h:1/",
            "http://h/readyz",
            "http://h:x/",
            "http://h:1/a b",
            "tcp://h:1/x",
        ] {
            assert!(Ready::parse(bad).is_err(), "{bad}");
        }
    }
}
