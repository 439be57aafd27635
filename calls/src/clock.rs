//! The time of one turn of a net thread.
//!
//! Its invariant: a turn reads the clock once when its sockets are ready; it is read again only by a service that asks.

use std::cell::Cell;
use std::time::Instant;

/// A net thread's clock: all that a turn serves was ready when the turn began, and leaves when it ends.
#[derive(Debug, Clone)]
pub struct Clock {
    began: Cell<Instant>,
    last: Cell<Instant>,
}

impl Clock {
    /// A clock whose first turn begins.
    pub fn start() -> Clock {
        let now = Instant::now();
        Clock {
            began: Cell::new(now),
            last: Cell::new(now),
        }
    }

    /// A turn begins.
    pub fn begin(&self) -> Instant {
        let now = self.read();
        self.began.set(now);
        now
    }

    /// When this turn began.
    pub fn began(&self) -> Instant {
        self.began.get()
    }

    /// When the clock was last read: not long ago, as calls of unbounded cost read it when they end.
    pub fn last(&self) -> Instant {
        self.last.get()
    }

    /// Reads the clock.
    pub fn read(&self) -> Instant {
        let now = Instant::now();
        self.last.set(now);
        now
    }
}
