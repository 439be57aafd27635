//! Single HTTP requests outside of any measurement: is the server ready, and what is it.
//!
//! Blocking and bounded in time and size. Its invariant: no answer of any form does more than fail the probe.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use millpond_press_report::Server;
use serde::Deserialize;

use crate::target::answer::AnswerReader;
use crate::target::http::request_head;

/// How long one probe may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The largest answer a probe reads.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A URL of the form `http://HOST:PORT/PATH`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Url {
    pub(crate) text: String,
    host: String,
    path: String,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Result<Url, String> {
        let expected = || format!("{text:?} is not of the form http://HOST:PORT/PATH");
        let rest = text.strip_prefix("http://").ok_or_else(expected)?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let port = host
            .rsplit_once(':')
            .and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_none() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(expected());
        }
        Ok(Url {
            text: text.to_owned(),
            host: host.to_owned(),
            path: format!("/{path}"),
        })
    }

    /// Asks once; the status, or why there is none.
    pub(crate) fn get(&self) -> Result<u16, String> {
        let address = self
            .host
            .to_socket_addrs()
            .map_err(|error| error.to_string())?
            .next();
        let address = address.ok_or_else(|| format!("{} has no address", self.host))?;
        let head = request_head("GET", &self.path, &self.host, 0);
        ask(address, &head).map(|(status, _)| status)
    }
}

/// Asks `*infos` of the server at `address` for its process, version and build.
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
    }
    let mut request = request_head("POST", "/service/*infos", host, 2);
    request.extend_from_slice(b"{}");
    let (status, body) = ask(address, &request)?;
    if status != 200 {
        return Err(format!("*infos answers with HTTP status {status}"));
    }
    let said: Infos = serde_json::from_slice(&body).map_err(|error| format!("*infos: {error}"))?;
    let Millpond { pid, version, build } = said.millpond;
    // The number of a process says nothing on another machine.
    let pid = pid.filter(|_| address.ip().is_loopback());
    Ok(Server { pid, version, build })
}

fn ask(address: SocketAddr, request: &[u8]) -> Result<(u16, Vec<u8>), String> {
    let words = |error: std::io::Error| error.to_string();
    let deadline = Instant::now() + TIMEOUT;
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT).map_err(words)?;
    stream.set_write_timeout(Some(TIMEOUT)).map_err(words)?;
    stream.write_all(request).map_err(words)?;
    let mut reader = AnswerReader::new(BODY_BYTES_MAX);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("no answer within {} s", TIMEOUT.as_secs()));
        }
        stream.set_read_timeout(Some(left)).map_err(words)?;
        let count = stream.read(reader.space()).map_err(words)?;
        if reader.advance(count).map_err(|malformed| malformed.to_string())? {
            return Ok((reader.status(), reader.body().to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn urls_are_host_port_path() {
        let url = Url::parse("http://127.0.0.1:13590/readyz").unwrap();
        assert_eq!(
            (url.host.as_str(), url.path.as_str()),
            ("127.0.0.1:13590", "/readyz")
        );
        assert_eq!(Url::parse("http://h:1").unwrap().path, "/");
        for bad in [
            "127.0.0.1:13590",
            "https://h:1/",
            "http://h/readyz",
            "http://h:x/",
            "http://h:1/a b",
        ] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }
}
