//! Who may run a batch: an instance thread that was called, or a caller that runs its own request where it is.
//!
//! Threads have no place while they sleep, so that a caller can have it. Its invariants: no more places are taken than there are
//! instances; a place that is free is counted idle or called; and who gives one back calls an instance where requests wait.

use super::{Accepted, Asked, Noticed, State};
use crate::batcher::queue::Waiting;
use crate::batcher::{Rejected, Request};
use millpond_backends_interface::Instance;
use std::time::Instant;

/// An instance thread, and the place that it has while it is awake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::batcher) struct Seat {
    pub thread: usize,
    pub place: usize,
}

/// The thread that has this place in a state where each keeps its own.
#[cfg(test)]
impl From<usize> for Seat {
    fn from(thread: usize) -> Seat {
        Seat {
            thread,
            place: thread,
        }
    }
}

pub(super) struct Places {
    is_free: Vec<bool>,
    /// The instance that callers have at each place: made when one first does, and used by the next one.
    instances: Vec<Option<Box<dyn Instance>>>,
    /// Callers may run the model themselves.
    are_lent: bool,
}

impl Places {
    pub(super) fn new(instances: usize) -> Places {
        Places {
            is_free: vec![true; instances],
            instances: (0..instances).map(|_| None).collect(),
            are_lent: true,
        }
    }

    pub(super) fn free(&mut self, place: usize) {
        self.is_free[place] = true;
    }
}

/// A caller has a place.
pub(in crate::batcher) struct Lent {
    pub waiting: Waiting,
    pub place: usize,
    pub instance: Option<Box<dyn Instance>>,
}

/// What becomes of a request whose caller would run it.
pub(in crate::batcher) enum Visit {
    /// It does.
    Lent(Lent),
    /// It waits like others.
    Queued(Accepted),
}

/// Who has to be woken when a caller has given its place back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::batcher) enum Wake {
    Nobody,
    /// One of those that sleep.
    Sleeper,
    /// The one that waited for callers.
    Holder,
    All,
}

impl State {
    /// A place for an instance thread that has just been taken off those that are idle or called.
    pub(in crate::batcher) fn take_place(&mut self) -> usize {
        let free = self.places.is_free.iter().position(|is_free| *is_free);
        debug_assert!(free.is_some(), "idle and called count the places that are free");
        let place = free.unwrap_or(0);
        self.places.is_free[place] = false;
        place
    }

    /// Callers run the model no longer.
    pub(in crate::batcher) fn lend_no_more(&mut self) {
        self.places.are_lent = false;
    }

    /// As [`State::submit`], but where a place is free, nothing waits and no wait for others would pay, the caller gets that place.
    pub(in crate::batcher) fn visit(
        &mut self,
        request: Request,
        now: Instant,
    ) -> Result<Visit, (Rejected, Request)> {
        let asked = Asked::of(&request);
        if let Some(rejected) = self.refusal(&asked, now) {
            self.note_refused(rejected, &asked, now);
            return Err((rejected, request));
        }
        self.came(&asked, Noticed::at(now));
        let is_free = self.places.are_lent && self.idle > 0 && self.queued() == 0;
        if !is_free || self.would_hold(&asked, now) {
            return Ok(Visit::Queued(self.accept(request, asked, now)));
        }
        let place = self.lend(&asked, now);
        Ok(Visit::Lent(Lent {
            waiting: Waiting {
                request,
                submitted: now,
            },
            place,
            instance: self.places.instances[place].take(),
        }))
    }

    /// A place for work that its caller does itself, of a model that joins nothing; `None`, with nothing noted, where that would have to
    /// wait. What the place keeps of callers stays there.
    pub(in crate::batcher) fn visit_with_work(
        &mut self,
        asked: &Asked,
        now: Instant,
    ) -> Result<Option<usize>, Rejected> {
        if !self.places.are_lent || self.idle == 0 || self.queued() > 0 || self.batch_size_max > 1 {
            return Ok(None);
        }
        if let Some(rejected) = self.refusal(asked, now) {
            self.note_refused(rejected, asked, now);
            return Err(rejected);
        }
        self.came(asked, Noticed::at(now));
        Ok(Some(self.lend(asked, now)))
    }

    /// Gives a caller a place that is free.
    fn lend(&mut self, asked: &Asked, now: Instant) -> usize {
        self.idle -= 1;
        let place = self.take_place();
        self.standing.accepted();
        self.running_bytes[place] = asked.bytes;
        self.holding.runs(place, asked.source, asked.rows);
        self.forecast.began(place, asked.rows, now);
        place
    }

    /// A caller has finished and gives its place back, and the instance that it had there. Its run tells what runs take where `learns` says so.
    pub(in crate::batcher) fn give_back(
        &mut self,
        place: usize,
        instance: Option<Box<dyn Instance>>,
        learns: bool,
        now: Instant,
    ) -> Wake {
        // Whoever ran here is not back before it gives its place back.
        self.ended(place, learns, None, now);
        if let Some(instance) = instance {
            self.places.instances[place] = Some(instance);
        }
        self.places.free(place);
        self.idle += 1;
        let mut wake = Wake::Nobody;
        if self.queued() > 0 && !self.fills_with(0) {
            // What another instance waits with is taken now, as by an instance that becomes free.
            wake = match self.release_holder(now) {
                true => Wake::Holder,
                false => Wake::Sleeper,
            };
            self.call();
        }
        // Those that sleep with an errand, or are to stop, did so because all places were taken.
        match self.stopping || self.errands.iter().any(|errands| !errands.is_empty()) {
            true => Wake::All,
            false => wake,
        }
    }
}
