//! What a membership said, in order.

use millpond_membership::{Event, Membership, Options};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// How long an event may take that must come; far longer than any should.
const WAIT: Duration = Duration::from_secs(60);

pub struct Heard {
    pub membership: Option<Membership>,
    events: Receiver<Event>,
}

/// Options whose waits are short, and whose leases outlive a busy machine.
pub fn steady(url: &str) -> Options {
    Options {
        lease_ttl: Duration::from_secs(8),
        call_timeout: Duration::from_secs(2),
        ..quick(url)
    }
}

/// Options whose calls, leases and waits are short.
pub fn quick(url: &str) -> Options {
    Options {
        lease_ttl: Duration::from_secs(3),
        call_timeout: Duration::from_millis(900),
        backoff_first: Duration::from_millis(10),
        backoff_most: Duration::from_millis(100),
        ..Options::new([url], "test")
    }
}

impl Heard {
    pub fn of(options: Options) -> Heard {
        let (say, events) = sync_channel(10_000);
        let membership = Membership::start(options, move |event| {
            // The test may have ended.
            let _ = say.send(event);
        });
        Heard {
            membership: Some(membership.unwrap()),
            events,
        }
    }

    /// Waits for an event; those before it are given too, and the event is the last.
    pub fn until(&self, what: &str, is_it: impl Fn(&Event) -> bool) -> Vec<Event> {
        let end = Instant::now() + WAIT;
        let mut heard = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(event) => heard.push(event),
                Err(error) => panic!("{what} was not heard ({error}), but {heard:#?}"),
            }
            if heard.last().is_some_and(&is_it) {
                return heard;
            }
        }
    }

    pub fn connected(&self) -> Vec<Event> {
        self.until("that etcd answers", |event| {
            matches!(event, Event::Connected { .. })
        })
    }

    pub fn up(&self, name: &str) -> Vec<Event> {
        self.until(
            &format!("that {name} is up"),
            |event| matches!(event, Event::NodeUp(node) if node.name == name),
        )
    }

    pub fn down(&self, name: &str) -> Vec<Event> {
        self.until(
            &format!("that {name} is down"),
            |event| matches!(event, Event::NodeDown { name: of } if of == name),
        )
    }

    pub fn map(&self, version: u64) -> Vec<Event> {
        self.until(
            &format!("map {version}"),
            |event| matches!(event, Event::Map(map) if map.version() == version),
        )
    }

    pub fn lost(&self) -> millpond_membership::Error {
        let mut heard = self.until("that etcd is lost", |event| matches!(event, Event::Lost(_)));
        match heard.pop() {
            Some(Event::Lost(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    pub fn registered(&self) -> i64 {
        match self
            .until("a registration", |event| {
                matches!(event, Event::Registered { .. })
            })
            .pop()
        {
            Some(Event::Registered { lease }) => lease,
            other => panic!("{other:?}"),
        }
    }

    /// Waits for a refused value, and says why it was refused.
    pub fn refused(&self) -> String {
        match self
            .until("a refused value", |event| matches!(event, Event::Refused { .. }))
            .pop()
        {
            Some(Event::Refused { key, why }) => format!("{key}: {why}"),
            other => panic!("{other:?}"),
        }
    }
}
