//! The connections of a client, and which of them a call goes to.
//!
//! It knows no deadline's end and reads no answer. Its invariants: no more than `in_flight_max` calls are under way on a
//! connection; a call waits for connections that are being opened only while none is open; and one that was written to a
//! connection is never written to another.

use crate::address::parse_list;
use crate::link::{Answer, Ended, Link, Reserved, Standing};
use crate::tls::{self, Connector};
use crate::{CallError, Options};
use millpond_wire_schema::payload::{Encoding, Gained};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What all links of a pool share.
pub(crate) struct Terms {
    pub(crate) options: Options,
    /// There is one where an address asks for it.
    pub(crate) connector: Option<Connector>,
    /// Tells those who wait that a link has opened, or could not be.
    pub(crate) changed: Notify,
}

/// The links to every address.
pub(crate) struct Pool {
    /// The addresses as they were given: what errors name.
    addr: String,
    in_flight_max: usize,
    terms: Arc<Terms>,
    links: Vec<Arc<Link>>,
    /// Where the search for the least busy link begins, so that equals take turns.
    turn: AtomicUsize,
}

/// A call to be sent.
pub(crate) struct Outgoing<'a> {
    pub(crate) method: &'a str,
    pub(crate) encoding: Encoding,
    payload: &'a [u8],
    /// The caller's, whole.
    pub(crate) deadline: Option<Duration>,
    /// What its payload gains beside that.
    gained: Gained<'static>,
    started: Instant,
}

/// What a search for a link found.
enum Found {
    Open(Reserved),
    /// None is open; at least one is being opened.
    Opening,
    /// None is open, and none is to be tried now.
    Down,
}

impl Pool {
    /// Links without connections.
    pub(crate) fn new(addr: &str, options: Options) -> Result<Pool, CallError> {
        let addresses = parse_list(addr)?;
        let connector = tls::prepare(&addresses, options.tls.as_ref())?;
        let in_flight_max = options.in_flight_max.max(1);
        let connections = options.connections.max(1);
        let terms = Arc::new(Terms {
            options,
            connector,
            changed: Notify::new(),
        });
        // Neighbours in the list go to different addresses, so that turns do.
        let places = (0..connections).flat_map(|_| &addresses).enumerate();
        let links = places
            .map(|(at, address)| Arc::new(Link::new(address.clone(), at, terms.clone())))
            .collect();
        Ok(Pool {
            addr: addr.to_owned(),
            in_flight_max,
            terms,
            links,
            turn: AtomicUsize::new(0),
        })
    }

    /// The addresses as they were given.
    pub(crate) fn addr(&self) -> &str {
        &self.addr
    }

    /// Every link, also those without a connection.
    pub(crate) fn links(&self) -> &[Arc<Link>] {
        &self.links
    }

    /// Tries to open every link, and returns when no attempt is under way any more.
    pub(crate) async fn open(&self) -> Result<(), CallError> {
        for link in &self.links {
            link.standing(true);
        }
        self.wait_until(|| {
            !self
                .links
                .iter()
                .any(|link| link.standing(false) == Standing::Opening)
        })
        .await;
        let is_open = |link: &Arc<Link>| link.standing(false) == Standing::Open;
        if self.links.iter().any(is_open) {
            return Ok(());
        }
        // The caller makes a new client, which need not wait.
        Err(self.why_down().seen_before_next_try(Duration::ZERO))
    }

    /// Ends every link and returns when it has.
    pub(crate) async fn close(&self) {
        self.links.iter().for_each(|link| link.retire());
        self.wait_until(|| {
            self.links
                .iter()
                .all(|link| link.standing(false) == Standing::Down)
        })
        .await;
    }

    /// A place for one call on the open link with the fewest under way. Links that have closed are opened on the way;
    /// only where none is open is that waited for.
    pub(crate) async fn ready(&self) -> Result<Reserved, CallError> {
        // Only the first look may begin attempts: a caller that has seen them fail tells its own caller.
        let mut may_open = true;
        loop {
            let changed = self.terms.changed.notified();
            match self.search(may_open)? {
                Found::Open(reserved) => return Ok(reserved),
                Found::Opening => changed.await,
                Found::Down => return Err(self.why_down()),
            }
            may_open = false;
        }
    }

    /// A place on another open link than `first`, at another address if there is one; `None` where every other one is
    /// closed or full.
    pub(crate) fn reserve_beside(&self, first: &Arc<Link>) -> Option<Reserved> {
        let others = self
            .links
            .iter()
            .filter(|link| !Arc::ptr_eq(link, first) && link.standing(false) == Standing::Open);
        let best = others.min_by_key(|link| (link.address() == first.address(), link.outstanding()))?;
        best.reserve(self.in_flight_max)
    }

    /// Sends a call on `reserved`, or on another link if that one closes before the call is written to it, and returns the
    /// answer.
    pub(crate) async fn exchange(
        &self,
        reserved: Reserved,
        outgoing: &Outgoing<'_>,
    ) -> Result<Answer, CallError> {
        let mut reserved = reserved;
        let mut left = self.links.len();
        loop {
            let payload = outgoing.payload()?;
            match reserved
                .link
                .call(outgoing.encoding, outgoing.method, &payload)
                .await
            {
                Ok(answer) => return Ok(answer),
                Err(Ended::NotSent) if left > 0 => left -= 1,
                Err(Ended::NotSent) => return Err(self.why_down()),
                Err(Ended::Failed(error)) => return Err(error),
            }
            drop(reserved);
            reserved = self.ready().await?;
        }
    }

    /// Queues a call that has no answer.
    pub(crate) async fn oneway(&self, outgoing: &Outgoing<'_>) -> Result<(), CallError> {
        for _ in 0..=self.links.len() {
            let reserved = self.ready().await?;
            let payload = outgoing.payload()?;
            match reserved
                .link
                .oneway(outgoing.encoding, outgoing.method, &payload)
                .await
            {
                Ok(()) => return Ok(()),
                Err(Ended::NotSent) => {}
                Err(Ended::Failed(error)) => return Err(error),
            }
        }
        Err(self.why_down())
    }

    /// The open link with the fewest calls under way; the first idle one ends the search.
    fn search(&self, may_open: bool) -> Result<Found, CallError> {
        loop {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.links.len();
            let mut least: Option<(usize, &Arc<Link>)> = None;
            let mut is_opening = false;
            for link in self.links[turn..].iter().chain(&self.links[..turn]) {
                match link.standing(may_open) {
                    Standing::Open => {}
                    Standing::Opening => {
                        is_opening = true;
                        continue;
                    }
                    Standing::Down => continue,
                }
                let outstanding = link.outstanding();
                if least.is_none_or(|(fewest, _)| outstanding < fewest) {
                    least = Some((outstanding, link));
                }
                if outstanding == 0 {
                    break;
                }
            }
            match least {
                Some((fewest, link)) if fewest < self.in_flight_max => {
                    // Another thread may have taken the last place: then the search starts over.
                    if let Some(reserved) = link.reserve(self.in_flight_max) {
                        return Ok(Found::Open(reserved));
                    }
                }
                Some(_) => {
                    return Err(CallError::TooManyInFlight {
                        addr: self.addr.clone(),
                        in_flight_max: self.in_flight_max,
                        connections: self.links.len(),
                    });
                }
                None if is_opening => return Ok(Found::Opening),
                None => return Ok(Found::Down),
            }
        }
    }

    /// Why no link is open: what the one that is tried next says.
    fn why_down(&self) -> CallError {
        let reasons = self.links.iter().map(|link| link.why_down());
        let soonest = reasons.min_by_key(|error| error.retry_after().unwrap_or(Duration::MAX));
        soonest.unwrap_or_else(|| CallError::Connect {
            addr: self.addr.clone(),
            detail: "the pool is empty".to_owned(),
            retry_after: Duration::ZERO,
        })
    }

    async fn wait_until(&self, mut is_so: impl FnMut() -> bool) {
        loop {
            // Made before the look, so that no news between look and wait is lost.
            let changed = self.terms.changed.notified();
            if is_so() {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.links.iter().for_each(|link| link.retire());
    }
}

impl<'a> Outgoing<'a> {
    /// A call whose deadline begins now.
    pub(crate) fn new(
        method: &'a str,
        encoding: Encoding,
        payload: &'a [u8],
        deadline: Option<Duration>,
        gained: Gained<'static>,
    ) -> Outgoing<'a> {
        Outgoing {
            method,
            encoding,
            payload,
            deadline,
            gained,
            started: Instant::now(),
        }
    }

    /// The payload with what is left of the deadline in it, and what else it gains.
    fn payload(&self) -> Result<Cow<'a, [u8]>, CallError> {
        let gained = Gained {
            deadline_ms: self.deadline.map(|deadline| {
                let left = deadline.saturating_sub(self.started.elapsed());
                u64::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
            }),
            ..self.gained
        };
        if gained == Gained::default() {
            return Ok(Cow::Borrowed(self.payload));
        }
        let inserted = gained.insert(self.encoding, self.payload);
        inserted.map(Cow::Owned).map_err(|error| CallError::Unsendable {
            method: self.method.to_owned(),
            detail: error.to_string(),
        })
    }
}
