//! Requests over HTTP/1.1 on kept connections, one outstanding at a time.
//!
//! Requests lie ready as whole byte strings and answers are read into a buffer that is used again, so an exchange is one
//! write, one read and no allocation. Its invariant: a connection on which anything went wrong is not used again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use millpond_press_recorder::ErrorKind;
use millpond_press_workload::RequestSet;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::answer::{AnswerReader, Malformed};
use super::patience::Patience;
use super::{Answer, Failure, Lane, NOT_READY, OVERLOADED, Target};

/// The prepared requests and where they go.
pub(crate) struct Http {
    address: SocketAddr,
    /// Head and body of every request, one after the other.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    timeout: Duration,
    answer_bytes_max: usize,
}

impl Http {
    pub(crate) fn new(
        address: SocketAddr,
        host: &str,
        path: &str,
        requests: &RequestSet,
        timeout: Duration,
        answer_bytes_max: usize,
    ) -> Http {
        let mut http = Http {
            address,
            bytes: Vec::new(),
            ends: Vec::new(),
            timeout,
            answer_bytes_max,
        };
        for body in requests.iter() {
            http.bytes
                .extend_from_slice(&request_head("POST", path, host, body.len()));
            http.bytes.extend_from_slice(body);
            http.ends.push(http.bytes.len());
        }
        http
    }

    fn request(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }
}

/// The head of a request with a JSON body of `length` bytes.
pub(crate) fn request_head(verb: &str, path: &str, host: &str, length: usize) -> Vec<u8> {
    format!(
        "{verb} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
    .into_bytes()
}

impl Target for Http {
    type Lane = HttpLane;

    async fn connect(self: Arc<Self>, _lanes: usize) -> Result<Vec<HttpLane>, String> {
        let connected = timeout(self.timeout, TcpStream::connect(self.address)).await;
        let stream = match connected {
            Ok(stream) => stream.map_err(|error| error.to_string())?,
            Err(_) => return Err(format!("no connection within {} ms", self.timeout.as_millis())),
        };
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let reader = AnswerReader::new(self.answer_bytes_max);
        let patience = Patience::new(self.timeout);
        Ok(vec![HttpLane {
            http: self,
            stream,
            reader,
            patience,
            open: true,
        }])
    }
}

/// One connection.
pub(crate) struct HttpLane {
    http: Arc<Http>,
    stream: TcpStream,
    reader: AnswerReader,
    patience: Patience,
    open: bool,
}

impl Lane for HttpLane {
    async fn exchange(&mut self, index: usize) -> Result<Answer<'_>, Failure> {
        self.reader.restart();
        let HttpLane {
            http,
            stream,
            reader,
            patience,
            open,
        } = self;
        match patience
            .wait(round_trip(stream, http.request(index), reader))
            .await
        {
            None => {
                *open = false;
                let why = format!("no whole answer within {}", patience.in_words());
                return Err(Failure::of(ErrorKind::Timeout, why));
            }
            Some(Err(failure)) => {
                *open = false;
                return Err(failure);
            }
            Some(Ok(())) => *open = !reader.closes(),
        }
        if reader.status() == 200 {
            Ok(Answer::Json(reader.body()))
        } else {
            Err(not_answered(reader))
        }
    }

    fn is_open(&self) -> bool {
        self.open
    }
}

async fn round_trip(
    stream: &mut TcpStream,
    request: &[u8],
    reader: &mut AnswerReader,
) -> Result<(), Failure> {
    let broken = |error: std::io::Error| Failure::of(ErrorKind::Reset, error.to_string());
    // A server that refuses may answer and close before the request is whole: the answer is still read.
    let written = stream.write_all(request).await;
    loop {
        let count = match stream.read(reader.space()).await {
            Ok(count) => count,
            Err(error) => return Err(broken(written.err().unwrap_or(error))),
        };
        match reader.advance(count) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(malformed) => {
                let kind = match malformed {
                    Malformed::Garbage(_) => ErrorKind::Garbage,
                    Malformed::TooLarge(_) => ErrorKind::TooLarge,
                    Malformed::Ended(_) => ErrorKind::Closed,
                };
                return Err(Failure::of(kind, malformed.to_string()));
            }
        }
    }
}

/// An answer that is not 200: a refusal the server names as one, or a failure.
fn not_answered(reader: &AnswerReader) -> Failure {
    #[derive(Deserialize)]
    struct Said {
        code: Option<u32>,
        ex: Option<String>,
    }
    let status = reader.status();
    let said = serde_json::from_slice(reader.body()).unwrap_or(Said { code: None, ex: None });
    match said.code {
        Some(code @ (OVERLOADED | NOT_READY)) if matches!(status, 429 | 503) => Failure::Refused { code },
        code => Failure::Error {
            kind: ErrorKind::Status,
            code: Some(code.unwrap_or(u32::from(status))),
            why: format!(
                "HTTP status {status}: {}",
                said.ex.unwrap_or_else(|| "no reason given".into())
            ),
        },
    }
}
