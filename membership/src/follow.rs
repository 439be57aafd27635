//! The thread's work: read everything, watch from there, keep the lease, and begin again where anything fails.
//!
//! Whatever fails ends the session, and the next one reads everything from scratch: so a compacted revision, an etcd that lost its
//! data and a lost message are one case. The invariant: state changes only by complete answers of one etcd, in their order.

use crate::backoff::Backoff;
use crate::endpoint::Endpoint;
use crate::gateway::{Etcd, Watch};
use crate::lease::Lease;
use crate::messages::{Change, Kind, Pair};
use crate::options::refuse;
use crate::state::{State, prefix};
use crate::tls::Connector;
use crate::{Error, Event, Options};
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior};

/// Follows one cluster.
pub(crate) struct Follower {
    endpoints: Vec<Endpoint>,
    /// Which endpoint is asked next, or is being asked.
    turn: usize,
    tls: Option<Connector>,
    call_timeout: Duration,
    /// How often the lease is kept and the watch is checked: thrice in a lease's time.
    heartbeat: Duration,
    prefix: String,
    state: State,
    lease: Option<Lease>,
    /// Whether it was said that etcd does not answer.
    is_lost: bool,
    backoff: Backoff,
    on_event: Box<dyn FnMut(Event) + Send>,
}

impl Follower {
    pub(crate) fn new(options: &Options, on_event: Box<dyn FnMut(Event) + Send>) -> Result<Follower, Error> {
        let checked = options.check()?;
        let seed = getrandom::u64().map_err(|error| refuse("endpoints", &error.to_string()))?;
        let node = options.registration.as_ref();
        Ok(Follower {
            // Nodes of a cluster do not all begin with the same endpoint.
            turn: usize::try_from(seed % 32).unwrap_or(0),
            endpoints: checked.endpoints,
            tls: checked.tls,
            call_timeout: options.call_timeout,
            heartbeat: options.lease_ttl / 3,
            prefix: prefix(&options.cluster),
            state: State::new(&options.cluster),
            lease: node.map(|node| Lease::new(&options.cluster, node, options.lease_ttl)),
            is_lost: false,
            backoff: Backoff::new(options.backoff_first, options.backoff_most, seed),
            on_event,
        })
    }

    /// Until `stopped` is dropped or sent to.
    pub(crate) async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        loop {
            let Some(etcd) = self.etcd() else { return };
            let error = tokio::select! {
                _ = &mut stopped => break,
                Err(error) = self.session(&etcd) => error,
            };
            // Once for each time that it is lost, not for each attempt.
            if !std::mem::replace(&mut self.is_lost, true) {
                self.say(Event::Lost(error));
            }
            self.turn = self.turn.wrapping_add(1);
            let wait = self.backoff.failed();
            tokio::select! {
                _ = &mut stopped => break,
                () = tokio::time::sleep(wait) => {}
            }
        }
        if let (Some(etcd), Some(lease)) = (self.etcd(), &mut self.lease) {
            lease.leave(&etcd).await;
        }
    }

    /// etcd at the endpoint whose turn it is.
    fn etcd(&self) -> Option<Etcd> {
        let endpoint = self.endpoints.get(self.turn % self.endpoints.len().max(1))?;
        Some(Etcd {
            endpoint: endpoint.clone(),
            tls: self.tls.clone(),
            timeout: self.call_timeout,
        })
    }

    /// Follows until something fails.
    async fn session(&mut self, etcd: &Etcd) -> Result<Infallible, Error> {
        let listing = etcd.list(&self.prefix, false).await?;
        let mut watch = etcd
            .watch(&self.prefix, listing.revision.saturating_add(1))
            .await?;
        self.is_lost = false;
        self.say(Event::Connected {
            endpoint: etcd.endpoint.text.clone(),
        });
        for event in self.state.read(&listing.pairs) {
            self.say(event);
        }
        if !self.keep(etcd).await?
            && let Some(lease) = &self.lease
        {
            // Its lease lives; its key may have been removed or taken meanwhile.
            let own = listing
                .pairs
                .iter()
                .find(|pair| pair.key.0 == lease.key.as_bytes());
            self.restore(etcd, own).await?;
        }
        self.backoff.worked();
        self.follow(etcd, &mut watch).await
    }

    async fn follow(&mut self, etcd: &Etcd, watch: &mut Watch) -> Result<Infallible, Error> {
        let mut ticks = tokio::time::interval_at(Instant::now() + self.heartbeat, self.heartbeat);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut missed = false;
        loop {
            tokio::select! {
                found = watch.next() => {
                    for change in found?.events {
                        self.change(etcd, &change).await?;
                    }
                }
                _ = ticks.tick() => {
                    self.keep(etcd).await?;
                    missed = self.check(etcd, missed).await?;
                }
            }
        }
    }

    async fn change(&mut self, etcd: &Etcd, change: &Change) -> Result<(), Error> {
        if let Some(event) = self.state.change(change) {
            self.say(event);
        }
        let is_own = |lease: &Lease| change.kv.key.0 == lease.key.as_bytes();
        if self.lease.as_ref().is_some_and(is_own) {
            let found = (change.kind == Kind::Put).then_some(&change.kv);
            self.restore(etcd, found).await?;
        }
        Ok(())
    }

    /// Keeps the lease, or registers anew and says so.
    async fn keep(&mut self, etcd: &Etcd) -> Result<bool, Error> {
        let Some(lease) = &mut self.lease else {
            return Ok(false);
        };
        let registered = lease.keep(etcd).await?;
        if let Some(id) = registered {
            self.say(Event::Registered { lease: id });
        }
        Ok(registered.is_some())
    }

    /// Puts this process's key again where somebody removed it. A key that another process has taken is left to it.
    async fn restore(&mut self, etcd: &Etcd, found: Option<&Pair>) -> Result<(), Error> {
        let Some(lease) = &mut self.lease else {
            return Ok(());
        };
        if found.is_some_and(|pair| lease.is_other(pair)) {
            let name = lease.name.clone();
            self.say(Event::NameTaken { name });
        } else if let Some(id) = lease.restore(etcd, found).await? {
            self.say(Event::Registered { lease: id });
        }
        Ok(())
    }

    /// Whether the watch has said all that etcd has, which also says that etcd answers. What was missing at two heartbeats in a row is
    /// missed: a connection can be dead without an error.
    async fn check(&self, etcd: &Etcd, missed: bool) -> Result<bool, Error> {
        let listing = etcd.list(&self.prefix, true).await?;
        match (self.state.is_current(&listing.pairs), missed) {
            (true, _) => Ok(false),
            (false, false) => Ok(true),
            (false, true) => Err(Error::WatchEnded {
                endpoint: etcd.endpoint.text.clone(),
                reason: "it misses changes".to_owned(),
            }),
        }
    }

    fn say(&mut self, event: Event) {
        (self.on_event)(event);
    }
}
