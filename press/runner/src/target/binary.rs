//! Requests in the native protocol, many outstanding on one connection, through the Rust client.
//!
//! Bodies are turned from JSON into msgpack once, before the run. The client would open a lost connection again by itself;
//! here that must not happen unseen, so its invariant is: a connection that was lost or refused is not used again.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millpond_client_rust::{CallError, Client, Options};
use millpond_press_recorder::ErrorKind;
use millpond_press_workload::RequestSet;

use super::patience::Patience;
use super::{Answer, Failure, Lane, NOT_READY, OVERLOADED, Target};

/// The prepared requests and where they go.
pub(crate) struct Binary {
    address: String,
    method: String,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    timeout: Duration,
    answer_bytes_max: usize,
}

impl Binary {
    /// Prepares the requests; the error names the one that cannot travel.
    pub(crate) fn new(
        address: &str,
        method: &str,
        requests: &RequestSet,
        timeout: Duration,
        answer_bytes_max: usize,
    ) -> Result<Binary, String> {
        let mut binary = Binary {
            address: address.to_owned(),
            method: method.to_owned(),
            bytes: Vec::new(),
            ends: Vec::new(),
            timeout,
            answer_bytes_max,
        };
        for (number, body) in requests.iter().enumerate() {
            let bad = |why: String| format!("request {} cannot be sent as msgpack: {why}", number + 1);
            let map: serde_json::Map<String, serde_json::Value> =
                serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
            rmp_serde::encode::write_named(&mut binary.bytes, &map)
                .map_err(|error| bad(error.to_string()))?;
            binary.ends.push(binary.bytes.len());
        }
        Ok(binary)
    }

    fn request(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }
}

impl Target for Binary {
    type Lane = BinaryLane;

    async fn connect(self: Arc<Self>, lanes: usize) -> Result<Vec<BinaryLane>, String> {
        let options = Options {
            connections: 1,
            connect_timeout: self.timeout,
            frame_bytes_max: self.answer_bytes_max,
            in_flight_max: lanes,
        };
        let client = Client::connect(&self.address, options)
            .await
            .map_err(|error| match error {
                CallError::Connect { detail, .. } => detail,
                other => other.to_string(),
            })?;
        let connection = Rc::new(Connection {
            open: Cell::new(true),
            refused: Cell::new(false),
        });
        let lane = || BinaryLane {
            binary: self.clone(),
            client: client.clone(),
            connection: connection.clone(),
            patience: Patience::new(self.timeout),
            answer: Vec::new(),
        };
        Ok((0..lanes).map(|_| lane()).collect())
    }
}

/// What the lanes of one connection know of it.
struct Connection {
    open: Cell<bool>,
    /// The server refused the whole connection: what is still outstanding on it was refused with it.
    refused: Cell<bool>,
}

/// One outstanding request of a connection.
pub(crate) struct BinaryLane {
    binary: Arc<Binary>,
    client: Client,
    connection: Rc<Connection>,
    patience: Patience,
    /// The last answer, kept while it is looked at.
    answer: Vec<u8>,
}

impl Lane for BinaryLane {
    async fn exchange(&mut self, index: usize) -> Result<Answer<'_>, Failure> {
        let binary = &self.binary;
        let call = self.client.call(&binary.method, binary.request(index), None);
        match self.patience.wait(call).await {
            None => {
                let why = format!("no answer within {}", self.patience.in_words());
                Err(Failure::of(ErrorKind::Timeout, why))
            }
            Some(Ok(answer)) => {
                self.answer = answer;
                Ok(Answer::Msgpack(&self.answer))
            }
            Some(Err(error)) => Err(self.connection.judge(error)),
        }
    }

    fn is_open(&self) -> bool {
        self.connection.open.get()
    }
}

impl Connection {
    fn judge(&self, error: CallError) -> Failure {
        let why = error.to_string();
        let kind = match error {
            CallError::Status(status) => {
                let code = status.code.number();
                if !matches!(code, OVERLOADED | NOT_READY) {
                    return Failure::Error {
                        kind: ErrorKind::Status,
                        code: Some(code),
                        why,
                    };
                }
                // The protocol has no "connection: close", so the words tell a refused connection from a refused request.
                if status.ex.contains("connection limit") {
                    self.open.set(false);
                    self.refused.set(true);
                }
                return Failure::Refused { code };
            }
            _ if self.refused.get() => return Failure::Refused { code: OVERLOADED },
            CallError::Closed { .. } => ErrorKind::Closed,
            CallError::Connect { .. } => ErrorKind::Reset,
            CallError::Timeout { .. } => ErrorKind::Timeout,
            CallError::Protocol { .. } => ErrorKind::Garbage,
            CallError::TooManyInFlight { .. } | CallError::Unsendable { .. } => ErrorKind::TooLarge,
        };
        self.open.set(false);
        Failure::of(kind, why)
    }
}
