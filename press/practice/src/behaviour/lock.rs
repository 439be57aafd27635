//! Every request of the server holds one lock while it is worked on.
//!
//! Its invariant: however many workers there are, one works.

use super::pooled::Task;
use super::work::burn;
use crate::quantity::ns;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

pub(crate) struct Lock {
    lock: Mutex<()>,
    hold: Duration,
    /// Whether the time is slept or burnt.
    asleep: bool,
}

impl Lock {
    pub(crate) fn new(hold: Duration, asleep: bool) -> Lock {
        Lock {
            lock: Mutex::new(()),
            hold,
            asleep,
        }
    }
}

impl Task for Lock {
    fn work(&self, _request: &[u8]) -> io::Result<()> {
        let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if self.asleep {
            thread::sleep(self.hold);
        } else {
            burn(ns(self.hold));
        }
        Ok(())
    }
}
