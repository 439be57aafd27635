//! The descriptors of this process's channels, which a process that it forks inherits and must close: a worker ends when the last copy of its
//! server's end is closed.
//!
//! It closes nothing. Its invariants: a number is listed only while its descriptor is open; and nothing here waits, because a forked process
//! finds a lock as it stood.

use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// What a free place holds.
const FREE: RawFd = -1;

/// A place of the list, which grows to as many channels as there were at a time.
struct Place {
    descriptor: AtomicI32,
    next: OnceLock<Box<Place>>,
}

static FIRST: Place = Place::new();

/// While it lives, the descriptor is listed. It is dropped before the descriptor is closed.
pub(crate) struct Listed(&'static Place);

impl Listed {
    pub(crate) fn new(descriptor: RawFd) -> Listed {
        let mut place = &FIRST;
        while place
            .descriptor
            .compare_exchange(FREE, descriptor, Ordering::SeqCst, Ordering::SeqCst)
            .is_err()
        {
            place = place.next.get_or_init(|| Box::new(Place::new()));
        }
        Listed(place)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.0.descriptor.store(FREE, Ordering::SeqCst);
    }
}

impl Place {
    const fn new() -> Place {
        Place {
            descriptor: AtomicI32::new(FREE),
            next: OnceLock::new(),
        }
    }
}

/// The descriptors of all channels, for a forked process to close. It has no threads that use them, and must drop none of the parent's models.
pub fn inherited() -> Vec<RawFd> {
    let mut found = Vec::new();
    let mut place = Some(&FIRST);
    while let Some(here) = place {
        let descriptor = here.descriptor.swap(FREE, Ordering::SeqCst);
        found.extend(Some(descriptor).filter(|descriptor| *descriptor != FREE));
        place = here.next.get().map(|next| &**next);
    }
    found
}
