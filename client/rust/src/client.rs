//! The ways to call.
//!
//! It is not a connection (`link.rs` is), does not choose one (`pool.rs` does) and knows no method's payload
//! (`methods.rs` does). Its invariant: a call is written once, whatever happens to it, unless its caller has said that
//! it may be repeated.

use crate::hedge::{HedgeCounts, Hedger, Timed};
use crate::link::Reserved;
use crate::pool::{Outgoing, Pool};
use crate::{CallError, Options};
use millpond_wire_schema::Status;
use millpond_wire_schema::payload::{Encoding, Gained, decode_map};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep_until, timeout};

/// A pool of connections to one server, or to several that serve the same; clones share it.
///
/// A connection lives on the tokio runtime (with I/O and time enabled) of the call that opened it. When it closes, the
/// next call opens it again; while it cannot be opened, calls use the others, or fail at once until the next attempt is
/// due ([`Options::backoff`]). A call that fails is not repeated: whether running it twice is harmless, only the caller
/// can know ([`CallError::may_have_run`] says when it cannot have run at all).
#[derive(Clone)]
pub struct Client {
    pool: Arc<Pool>,
    hedger: Option<Arc<Hedger>>,
    /// Of every call the epoch, and of those that have an answer the priority.
    gained: Gained<'static>,
}

impl Client {
    /// Opens every connection of the pool to `addr`: "HOST:PORT", "unix:PATH" or "tls://HOST:PORT", or several of them
    /// with commas between.
    ///
    /// # Errors
    /// [`CallError::Connect`] and [`CallError::Tls`] when not one of them can be made, an address is none, or the TLS
    /// settings cannot be used.
    pub async fn connect(addr: &str, options: Options) -> Result<Client, CallError> {
        let hedger = options.hedge.clone().map(|hedge| Arc::new(Hedger::new(hedge)));
        let client = Client {
            pool: Arc::new(Pool::new(addr, options)?),
            hedger,
            gained: Gained::default(),
        };
        client.pool.open().await?;
        Ok(client)
    }

    /// The same without a connection: calls open them.
    pub(crate) fn unconnected(addr: &str, options: Options) -> Result<Client, CallError> {
        Ok(Client {
            pool: Arc::new(Pool::new(addr, options)?),
            hedger: None,
            gained: Gained::default(),
        })
    }

    /// As [`Client::call`], for a caller that waits for another time than the server has: `left` travels in the payload, and after
    /// `timeout` the server counts as one that does not answer.
    pub(crate) async fn call_within(
        &self,
        method: &str,
        payload: &[u8],
        left: Option<Duration>,
        timeout: Duration,
    ) -> Result<Vec<u8>, CallError> {
        let outgoing = Outgoing::new(method, Encoding::Msgpack, payload, left, self.gained);
        let exchange = async {
            let reserved = self.pool.ready().await?;
            self.exchange(reserved, &outgoing).await
        };
        let late = |_| CallError::Timeout {
            method: method.to_owned(),
            addr: self.pool.addr().to_owned(),
            deadline: timeout,
        };
        tokio::time::timeout(timeout, exchange).await.map_err(late)?
    }

    /// A client of the same connections whose calls say how urgent they are, from 0 (first) to 9: while they wait for a model,
    /// those of a better level go first. Calls without a level have 5. The level travels in the payload as `_priority`, which
    /// payloads must then not hold themselves; the server refuses one above 9. Calls without an answer carry none.
    #[must_use]
    pub fn with_priority(&self, level: u8) -> Client {
        Client {
            gained: Gained {
                priority: Some(level),
                ..self.gained
            },
            ..self.clone()
        }
    }

    /// A client of the same connections whose calls of ordered stores say the epoch that their caller knows, as `ordered.inspect` answers it: a
    /// server whose store is in a lower one refuses them with [`Code::NotLeader`](crate::Code::NotLeader), reads too, as another server was
    /// promoted in its place, or its leader's. It travels in the payload as `_epoch`, which payloads must then not hold themselves.
    #[must_use]
    pub fn with_epoch(&self, epoch: u64) -> Client {
        Client {
            gained: Gained {
                epoch: Some(epoch),
                ..self.gained
            },
            ..self.clone()
        }
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
        let outgoing = Outgoing::new(method, encoding, payload, deadline, self.gained);
        let exchange = async {
            let reserved = self.pool.ready().await?;
            self.exchange(reserved, &outgoing).await
        };
        self.within(&outgoing, exchange).await
    }

    /// Calls a method that is safe to repeat, as [`Client::call_raw`] does. If there is no answer after a while, a second
    /// attempt goes to another connection, of another address where there are several, and the first answer wins
    /// ([`Options::hedge`], off by default). The server may so run the call twice.
    ///
    /// A refusal (an error that is retryable) and an attempt without an answer lose against the other attempt while that
    /// is under way. The other's answer is dropped, and counted with [`Client::late_answers`] if it comes.
    ///
    /// # Errors
    /// As [`Client::call_raw`]; of two failed attempts, the one that failed last.
    pub async fn call_hedged(
        &self,
        method: &str,
        encoding: Encoding,
        payload: &[u8],
        deadline: Option<Duration>,
    ) -> Result<Vec<u8>, CallError> {
        let Some(hedger) = &self.hedger else {
            return self.call_raw(method, encoding, payload, deadline).await;
        };
        let outgoing = Outgoing::new(method, encoding, payload, deadline, self.gained);
        self.within(&outgoing, self.hedged(hedger, &outgoing)).await
    }

    /// Queues a call with a msgpack map that has no answer. Ok means that it waits to be written, not that the server has
    /// it: if the connection closes first, it is lost.
    ///
    /// # Errors
    /// [`CallError`] when it cannot be queued.
    pub async fn oneway(&self, method: &str, payload: &[u8]) -> Result<(), CallError> {
        self.oneway_raw(method, Encoding::Msgpack, payload).await
    }

    /// Queues a call with one encoded map that has no answer, as [`Client::oneway`] does.
    ///
    /// # Errors
    /// [`CallError`] when it cannot be queued.
    pub async fn oneway_raw(
        &self,
        method: &str,
        encoding: Encoding,
        payload: &[u8],
    ) -> Result<(), CallError> {
        let gained = Gained {
            priority: None,
            ..self.gained
        };
        self.pool
            .oneway(&Outgoing::new(method, encoding, payload, None, gained))
            .await
    }

    /// Writes what is queued, then closes every connection and returns when they are closed. Calls that still wait for
    /// an answer end with [`CallError::Closed`], later ones of this client and its clones with [`CallError::Connect`].
    ///
    /// Dropping the last clone does the same in the background, for as long as the runtime lives.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// Answers that came after their caller had gone (its deadline passed), since the client was made. They are dropped.
    pub fn late_answers(&self) -> u64 {
        self.pool.links().iter().map(|link| link.late_answers()).sum()
    }

    /// Calls of the server's that were refused or dropped because [`Options::pushes_max`] were worked on already, since
    /// the client was made.
    pub fn pushes_refused(&self) -> u64 {
        self.pool.links().iter().map(|link| link.pushes_refused()).sum()
    }

    /// What hedging has done since the client was made; nothing without [`Options::hedge`].
    pub fn hedge_counts(&self) -> HedgeCounts {
        self.hedger
            .as_ref()
            .map(|hedger| hedger.counts())
            .unwrap_or_default()
    }

    async fn hedged(&self, hedger: &Hedger, outgoing: &Outgoing<'_>) -> Result<Vec<u8>, CallError> {
        let reserved = self.pool.ready().await?;
        let first_link = reserved.link.clone();
        let mut timed = hedger.begin();
        let mut first = pin!(self.exchange(reserved, outgoing));
        if let Some(second_at) = timed.second_at() {
            tokio::select! {
                biased;
                ended = &mut first => {
                    timed.ended(&ended);
                    return ended;
                }
                () = sleep_until(second_at) => {}
            }
            if let Some(reserved) = self.pool.reserve_beside(&first_link)
                && timed.may_send()
            {
                let second = pin!(self.exchange(reserved, outgoing));
                return race(hedger, &mut timed, first, second).await;
            }
        }
        let ended = first.await;
        timed.ended(&ended);
        ended
    }

    /// Ends `exchange` at the call's deadline, if it has one.
    async fn within<T>(
        &self,
        outgoing: &Outgoing<'_>,
        exchange: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let Some(deadline) = outgoing.deadline else {
            return exchange.await;
        };
        let late = || CallError::Timeout {
            method: outgoing.method.to_owned(),
            addr: self.pool.addr().to_owned(),
            deadline,
        };
        if deadline.is_zero() {
            return Err(late());
        }
        timeout(deadline, exchange).await.unwrap_or_else(|_| Err(late()))
    }

    /// Sends the call on `reserved` and reads the answer's status.
    async fn exchange(&self, reserved: Reserved, outgoing: &Outgoing<'_>) -> Result<Vec<u8>, CallError> {
        let answer = self.pool.exchange(reserved, outgoing).await?;
        if answer.status == 0 {
            return Ok(answer.payload);
        }
        let map = decode_map(answer.encoding, &answer.payload)
            .map_err(|error| self.misread(outgoing.method, "an error answer", &error))?;
        Err(CallError::Status(Status::decode(&map)))
    }

    /// The error for an answer that is a frame but not what the method answers.
    pub(crate) fn misread(&self, method: &str, what: &str, error: &dyn std::error::Error) -> CallError {
        CallError::Protocol {
            addr: self.pool.addr().to_owned(),
            detail: format!("{what} to {method}: {error}"),
        }
    }
}

/// Waits for both attempts of a call, until one has ended for good.
async fn race(
    hedger: &Hedger,
    timed: &mut Timed<'_>,
    mut first: Pin<&mut impl Future<Output = Result<Vec<u8>, CallError>>>,
    mut second: Pin<&mut impl Future<Output = Result<Vec<u8>, CallError>>>,
) -> Result<Vec<u8>, CallError> {
    tokio::select! {
        biased;
        ended = &mut first => {
            timed.ended(&ended);
            if is_final(&ended) {
                return ended;
            }
            let ended = second.await;
            if is_final(&ended) {
                hedger.second_won();
            }
            ended
        }
        ended = &mut second => {
            if is_final(&ended) {
                hedger.second_won();
                return ended;
            }
            let ended = first.await;
            timed.ended(&ended);
            ended
        }
    }
}

/// Whether the other attempt of the call could do no better.
fn is_final(ended: &Result<Vec<u8>, CallError>) -> bool {
    match ended {
        Ok(_) => true,
        Err(CallError::Status(status)) => !status.code.retryable(),
        Err(_) => false,
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Client({}, {} connections)",
            self.pool.addr(),
            self.pool.links().len()
        )
    }
}
