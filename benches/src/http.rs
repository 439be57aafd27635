//! One HTTP/1.1 connection, blocking, one request at a time.
//!
//! What a bar measures with its own hands goes through here; load comes from the press. Its invariant: an exchange is one
//! write, the reads its answer takes, and no allocation on a connection that has seen an answer of that size.

use anyhow::{Context as _, bail};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// A connection, kept open.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A request, ready to be written.
pub(crate) fn request(verb: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{verb} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

impl Connection {
    pub(crate) fn open(address: &str) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let buffer = vec![0; 64 << 10];
        Ok(Connection { stream, buffer })
    }

    /// Sends a request and reads its answer: status and body.
    pub(crate) fn exchange(&mut self, request: &[u8]) -> anyhow::Result<(u16, &[u8])> {
        self.stream.write_all(request).context("cannot send a request")?;
        let mut filled = 0;
        let (status, start, end) = loop {
            if let Some(whole) = whole(&self.buffer[..filled])? {
                break whole;
            }
            if filled == self.buffer.len() {
                self.buffer.resize(2 * filled, 0);
            }
            match self.stream.read(&mut self.buffer[filled..]) {
                Ok(0) => bail!("the server closed the connection before it answered"),
                Ok(count) => filled += count,
                Err(error) => return Err(error).context("cannot read an answer"),
            }
        };
        Ok((status, &self.buffer[start..end]))
    }
}

/// Status, and where the body begins and ends, once all of it is there.
fn whole(bytes: &[u8]) -> anyhow::Result<Option<(u16, usize, usize)>> {
    let Some(head_len) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..head_len]).context("the head of an answer is no text")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_it = name.eq_ignore_ascii_case("content-length");
        is_it.then(|| value.trim().parse::<usize>().ok())?
    });
    let (Some(status), Some(length)) = (status, length.filter(|length| *length <= ANSWER_BYTES_MAX)) else {
        bail!("an answer without status or length: {head:?}");
    };
    let start = head_len + 4;
    Ok((bytes.len() >= start + length).then_some((status, start, start + length)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn answers_are_whole_or_not_yet() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        for cut in 0..answer.len() {
            assert_eq!(whole(&answer[..cut]).unwrap(), None);
        }
        assert_eq!(
            whole(answer).unwrap(),
            Some((200, answer.len() - 2, answer.len()))
        );
        assert!(whole(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(whole(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n").is_err());
    }
}
