//! The task of a link: opens its connection, lets `stream.rs` work on it, and waits where it may not be opened again yet.
//!
//! It writes and reads no frame. Its invariant: however it ends, also when its runtime is shut down, the link is closed,
//! every waiting caller receives the reason, and the time of the next attempt is set.

use super::stream;
use super::{Link, Phase, State};
use crate::CallError;
use crate::address::Place;
use crate::tls::TlsStream;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep_until, timeout};

/// One connection, of whatever kind.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream>),
}

/// Runs until the link's connection has closed, or could not be made; with keep-alive, until nobody needs the link.
pub(super) async fn drive(mut ending: Ending) {
    let link = ending.link.clone();
    loop {
        let dialled = tokio::select! {
            dialled = link.dial() => dialled,
            () = link.closing.notified() => Err(link.closed("the client was closed")),
        };
        match dialled {
            Err(cause) => ending.cause = cause,
            Ok(stream) => {
                link.opened();
                ending.cause = stream::run(&link, stream).await;
            }
        }
        drop(ending);
        if !link.rest().await {
            return;
        }
        ending = Ending::new(link.clone());
    }
}

async fn tcp(addr: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(addr).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Link {
    async fn dial(&self) -> Result<Stream, CallError> {
        let connect_timeout = self.terms.options.connect_timeout;
        let late = |_| Err(self.away(format!("nothing answered within {connect_timeout:?}")));
        timeout(connect_timeout, self.connect())
            .await
            .unwrap_or_else(late)
    }

    async fn connect(&self) -> Result<Stream, CallError> {
        let away = |error: io::Error| self.away(error.to_string());
        match &self.address.place {
            Place::Tcp(addr) => tcp(addr).await.map(Stream::Tcp).map_err(away),
            Place::Unix(path) => UnixStream::connect(path).await.map(Stream::Unix).map_err(away),
            Place::Tls { addr, host } => {
                let Some(connector) = &self.terms.connector else {
                    return Err(self.untrusted("it was not set up".to_owned()));
                };
                let stream = tcp(addr).await.map_err(away)?;
                let shaken = connector.connect(host, stream).await;
                shaken
                    .map(|stream| Stream::Tls(Box::new(stream)))
                    .map_err(|detail| self.untrusted(detail))
            }
        }
    }

    fn away(&self, detail: String) -> CallError {
        CallError::Connect {
            addr: self.address.text.clone(),
            detail,
            retry_after: Duration::ZERO,
        }
    }

    fn untrusted(&self, detail: String) -> CallError {
        CallError::Tls {
            addr: self.address.text.clone(),
            detail,
            retry_after: Duration::ZERO,
        }
    }

    fn opened(&self) {
        let mut state = self.lock();
        self.enter(&mut state, Phase::Open(Instant::now()));
        state.connection += 1;
        state.seq_first = state.seq_next;
        state.issued = 0;
        self.frames_in.store(0, Ordering::Relaxed);
        drop(state);
        self.terms.changed.notify_waiters();
    }

    /// Waits until a link with keep-alive is to be opened again without a call; true when its caller has to do that.
    async fn rest(&self) -> bool {
        if self.keep_alive_interval().is_none() {
            return false;
        }
        let wake_at = {
            let mut state = self.lock();
            let spread = state.waits.spread();
            match &state.phase {
                _ if state.closing => return false,
                // A call was quicker; its task keeps the link from now on.
                Phase::Open(_) | Phase::Opening => return false,
                Phase::Closed { try_at, .. } => (*try_at).max(Instant::now() + spread),
            }
        };
        tokio::select! {
            () = sleep_until(wake_at) => self.begin(Instant::now()),
            () = self.closing.notified() => false,
        }
    }
}

/// How long the link may not be tried after `phase` ended because of `cause`.
fn wait_after(link: &Link, state: &mut State, cause: &CallError) -> Duration {
    match state.phase {
        Phase::Open(since) => {
            let is_proven = link.frames_in.load(Ordering::Relaxed) > 0
                || since.elapsed() >= link.terms.options.backoff.most;
            if is_proven {
                state.waits.worked();
                return Duration::ZERO;
            }
            state.waits.closed_unproven()
        }
        // An attempt that was broken off is no failure of the server's.
        _ if matches!(cause, CallError::Closed { .. }) => Duration::ZERO,
        _ => state.waits.failed(),
    }
}

/// Closes the link when its task ends, or is dropped before it could.
pub(super) struct Ending {
    link: Arc<Link>,
    cause: CallError,
}

impl Ending {
    /// For a link that has just begun to open.
    pub(super) fn new(link: Arc<Link>) -> Ending {
        Ending {
            cause: link.closed("the runtime it was opened on has stopped"),
            link,
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut state = self.link.lock();
        let wait = wait_after(&self.link, &mut state, &self.cause);
        let phase = Phase::Closed {
            cause: self.cause.clone(),
            try_at: Instant::now() + wait,
        };
        self.link.enter(&mut state, phase);
        state.out = Vec::new();
        let waiters = std::mem::take(&mut state.pending);
        drop(state);
        for waiter in waiters.into_values() {
            // A caller that has left needs no news.
            let _ = waiter.send(Err(self.cause.clone()));
        }
        self.link.space.notify_waiters();
        self.link.terms.changed.notify_waiters();
    }
}
