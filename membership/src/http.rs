//! One POST over one connection: no pool, as etcd is asked about once a second. It knows no message of etcd. Its invariant: no
//! more than [`BYTES_MAX`] of an answer or of a message is ever held, and a connection ends with what reads it.

use crate::Error;
use crate::endpoint::Endpoint;
use crate::tls::Connector;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Bytes of an answer, or of a message of a stream, at most: the longest map and 1,024 nodes of 16 long addresses, in base64.
pub(crate) const BYTES_MAX: usize = 16 << 20;

/// An answer that is being read.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The whole URL and the call, for errors.
    endpoint: String,
    call: &'static str,
    body: Incoming,
    /// What was read and not yet given.
    held: Vec<u8>,
    /// How much of `held` has no line end.
    searched: usize,
    _connection: SendRequest<Full<Bytes>>,
}

/// Sends a body to a path and waits for the head of the answer.
pub(crate) async fn post(
    endpoint: &Endpoint,
    tls: Option<&Connector>,
    call: &'static str,
    body: String,
) -> Result<Answer, Error> {
    let unconnected = |detail: String| Error::Connect {
        endpoint: endpoint.text.clone(),
        detail,
    };
    let stream = TcpStream::connect(&endpoint.authority)
        .await
        .map_err(|error| unconnected(error.to_string()))?;
    let connection = match tls.filter(|_| endpoint.tls) {
        Some(connector) => {
            let stream = connector.connect(&endpoint.host, stream).await;
            shake_hands(stream.map_err(unconnected)?).await
        }
        None => shake_hands(stream).await,
    };
    let broken = |error: hyper::Error| broken(&endpoint.text, call, &error);
    let mut connection = connection.map_err(broken)?;
    let request = hyper::Request::post(call)
        .header(HOST, &endpoint.authority)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| unconnected(error.to_string()))?;
    let answer = connection.send_request(request).await.map_err(broken)?;
    Ok(Answer {
        status: answer.status().as_u16(),
        endpoint: endpoint.text.clone(),
        call,
        body: answer.into_body(),
        held: Vec::new(),
        searched: 0,
        _connection: connection,
    })
}

async fn shake_hands<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends when sender and answer are dropped; its error is theirs too.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

fn broken(endpoint: &str, call: &'static str, error: &hyper::Error) -> Error {
    let cause = std::error::Error::source(error).map_or(String::new(), |cause| format!(": {cause}"));
    Error::Broken {
        endpoint: endpoint.to_owned(),
        call,
        detail: format!("{error}{cause}"),
    }
}

impl Answer {
    /// The rest of the answer.
    pub(crate) async fn whole(&mut self) -> Result<Vec<u8>, Error> {
        while self.read().await? {}
        Ok(std::mem::take(&mut self.held))
    }

    /// The next line of a stream; `None` at its end. Nothing is lost where this future is dropped.
    pub(crate) async fn line(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let unsearched = self.held.get(self.searched..).unwrap_or_default();
            if let Some(at) = unsearched.iter().position(|byte| *byte == b'\n') {
                let rest = self.held.split_off(self.searched + at + 1);
                self.searched = 0;
                let line = std::mem::replace(&mut self.held, rest);
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Ok(Some(line));
            }
            self.searched = self.held.len();
            if !self.read().await? {
                self.searched = 0;
                let last = std::mem::take(&mut self.held);
                return Ok(Some(last).filter(|line| !line.iter().all(u8::is_ascii_whitespace)));
            }
        }
    }

    /// Reads on; false at the end.
    async fn read(&mut self) -> Result<bool, Error> {
        let Some(frame) = self.body.frame().await else {
            return Ok(false);
        };
        let frame = frame.map_err(|error| broken(&self.endpoint, self.call, &error))?;
        if let Some(data) = frame.data_ref() {
            if self.held.len() + data.len() > BYTES_MAX {
                return Err(Error::TooLong {
                    endpoint: self.endpoint.clone(),
                    call: self.call,
                    bytes_max: BYTES_MAX,
                });
            }
            self.held.extend_from_slice(data);
        }
        Ok(true)
    }
}
