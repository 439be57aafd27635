//! The pool and the two ways to call through it.
//!
//! It is not a connection (`link.rs` is) and knows no method's payload (`methods.rs` does). Its invariant: no more than
//! `connections × in_flight_max` calls are under way.

use crate::link::{Link, Reserved};
use crate::{CallError, deadline};
use millpond_wire_schema::Status;
use millpond_wire_schema::frame::{Encoding, decode_map};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Limits of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Connections in the pool; 0 counts as 1.
    pub connections: usize,
    /// For one connection to be made.
    pub connect_timeout: Duration,
    /// Bytes of one frame in either direction. As many may also wait to be written on one connection before callers
    /// have to wait.
    pub frame_bytes_max: usize,
    /// Calls under way on one connection; 0 counts as 1.
    pub in_flight_max: usize,
}

impl Default for Options {
    /// One connection, 5 s to make it, frames up to 8 MiB, 4,096 calls in flight.
    fn default() -> Self {
        Options {
            connections: 1,
            connect_timeout: Duration::from_secs(5),
            frame_bytes_max: 8 << 20,
            in_flight_max: 4096,
        }
    }
}

/// A pool of connections to one server; clones share it.
///
/// A connection lives on the tokio runtime (with I/O and time enabled) of the call that opened it, and is opened again
/// by the next call after it closed. A call that fails is not repeated: whether it ran, and whether running it twice is
/// harmless, only the caller can know.
#[derive(Clone)]
pub struct Client {
    pool: Arc<Pool>,
}

struct Pool {
    addr: String,
    in_flight_max: usize,
    links: Vec<Arc<Link>>,
    /// Where the search for the least busy link begins, so that equals take turns.
    turn: AtomicUsize,
}

impl Client {
    /// Opens every connection of the pool to `addr`, "HOST:PORT".
    ///
    /// # Errors
    /// [`CallError::Connect`] when one of them cannot be made.
    pub async fn connect(addr: &str, options: Options) -> Result<Client, CallError> {
        let links: Vec<Arc<Link>> = (0..options.connections.max(1))
            .map(|_| Arc::new(Link::new(addr, &options)))
            .collect();
        let pool = Pool {
            addr: addr.to_owned(),
            in_flight_max: options.in_flight_max.max(1),
            links,
            turn: AtomicUsize::new(0),
        };
        for link in &pool.links {
            link.open().await?;
        }
        Ok(Client { pool: Arc::new(pool) })
    }

    /// Calls a method with a msgpack map and returns the answer's msgpack map.
    ///
    /// # Errors
    /// As [`Client::call_raw`].
    pub async fn call(
        &self,
        method: &str,
        payload: &[u8],
        deadline: Option<Duration>,
    ) -> Result<Vec<u8>, CallError> {
        self.call_raw(method, Encoding::Msgpack, payload, deadline).await
    }

    /// Calls a method with one encoded map and returns the answer's map in the same encoding.
    ///
    /// A deadline is kept here and travels in the payload as `_deadline_ms`, which `payload` must then not hold itself.
    /// It covers connecting too. Without one, a call waits for as long as its connection lives.
    ///
    /// # Errors
    /// [`CallError::Status`] when the server answers with an error; the other cases of [`CallError`] when it does not
    /// answer.
    pub async fn call_raw(
        &self,
        method: &str,
        encoding: Encoding,
        payload: &[u8],
        deadline: Option<Duration>,
    ) -> Result<Vec<u8>, CallError> {
        let Some(deadline) = deadline else {
            let reserved = self.reserve()?;
            reserved.link.open().await?;
            return self.exchange(&reserved, method, encoding, payload).await;
        };
        let started = Instant::now();
        let exchange = async {
            let reserved = self.reserve()?;
            reserved.link.open().await?;
            let left_ms = deadline
                .saturating_sub(started.elapsed())
                .as_micros()
                .div_ceil(1000);
            let left_ms = u64::try_from(left_ms).unwrap_or(u64::MAX);
            let payload =
                deadline::insert(encoding, payload, left_ms).map_err(|detail| CallError::Unsendable {
                    method: method.to_owned(),
                    detail,
                })?;
            self.exchange(&reserved, method, encoding, &payload).await
        };
        let late = || CallError::Timeout {
            method: method.to_owned(),
            addr: self.pool.addr.clone(),
            deadline,
        };
        if deadline.is_zero() {
            return Err(late());
        }
        timeout(deadline, exchange).await.unwrap_or_else(|_| Err(late()))
    }

    /// Queues a call that has no answer. Ok means that it waits to be written, not that the server has it: if the
    /// connection closes first, it is lost.
    ///
    /// # Errors
    /// [`CallError`] when it cannot be queued.
    pub async fn oneway(&self, method: &str, payload: &[u8]) -> Result<(), CallError> {
        let reserved = self.reserve()?;
        reserved.link.open().await?;
        reserved.link.oneway(Encoding::Msgpack, method, payload).await
    }

    /// Answers that came after their caller had gone (its deadline passed), since the client was made. They are dropped.
    pub fn late_answers(&self) -> u64 {
        self.pool.links.iter().map(|link| link.late_answers()).sum()
    }

    async fn exchange(
        &self,
        reserved: &Reserved,
        method: &str,
        encoding: Encoding,
        payload: &[u8],
    ) -> Result<Vec<u8>, CallError> {
        let answer = reserved.link.call(encoding, method, payload).await?;
        if answer.status == 0 {
            return Ok(answer.payload);
        }
        let map = decode_map(answer.encoding, &answer.payload)
            .map_err(|error| self.misread(method, "an error answer", &error))?;
        Err(CallError::Status(Status::decode(&map)))
    }

    /// The error for an answer that is a frame but not what the method answers.
    pub(crate) fn misread(&self, method: &str, what: &str, error: &dyn std::error::Error) -> CallError {
        CallError::Protocol {
            addr: self.pool.addr.clone(),
            detail: format!("{what} to {method}: {error}"),
        }
    }

    /// The link with the fewest calls under way; the first idle one ends the search.
    fn reserve(&self) -> Result<Reserved, CallError> {
        let links = &self.pool.links;
        loop {
            let turn = self.pool.turn.fetch_add(1, Ordering::Relaxed) % links.len();
            let mut least: Option<(usize, &Arc<Link>)> = None;
            for link in links[turn..].iter().chain(&links[..turn]) {
                let outstanding = link.outstanding();
                if least.is_none_or(|(fewest, _)| outstanding < fewest) {
                    least = Some((outstanding, link));
                }
                if outstanding == 0 {
                    break;
                }
            }
            match least {
                Some((fewest, link)) if fewest < self.pool.in_flight_max => {
                    // Another thread may have taken the last place: then the search starts over.
                    if let Some(reserved) = link.reserve(self.pool.in_flight_max) {
                        return Ok(reserved);
                    }
                }
                _ => {
                    return Err(CallError::TooManyInFlight {
                        addr: self.pool.addr.clone(),
                        in_flight_max: self.pool.in_flight_max,
                        connections: links.len(),
                    });
                }
            }
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Client({}, {} connections)",
            self.pool.addr,
            self.pool.links.len()
        )
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.links.iter().for_each(|link| link.retire());
    }
}
