//! A request that its caller runs itself, where an instance would otherwise be woken for it: no hop to another thread and back.
//!
//! It decides nothing: a place is given by [`Queue::visit`](super::queue::Queue::visit). Its invariants: whoever has a place gives it
//! back, whatever happens; and what runs there is answered as on an instance thread.

use super::queue::Queue;
use super::state::places::Lent;
use super::stats::add;
use super::worker::{self, Runner};
use super::{Request, Shared, Timing};
use crate::{Error, FailureCause};
use millpond_backends_interface::Instance;
use millpond_threads::contain;
use std::time::{Duration, Instant};

/// A place that is given back when this is dropped.
struct Place<'a> {
    queue: &'a Queue,
    number: usize,
    instance: Option<Box<dyn Instance>>,
    learns: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let instance = self.instance.take();
        self.queue.give_back(self.number, instance, self.learns);
    }
}

/// Runs and answers the request that came with a place. It comes back where no instance of the model can be had here.
pub(super) fn run(shared: &Shared, lent: Lent) -> Result<(), Request> {
    let Lent {
        waiting,
        place,
        instance,
    } = lent;
    let mut place = Place {
        queue: &shared.queue,
        number: place,
        instance: None,
        learns: false,
    };
    // The first run of a new instance does what happens once; it tells nothing of the others.
    let is_new = instance.is_none();
    let mut runner = Runner::inline(shared, instance);
    if is_new && let Err(error) = runner.build() {
        tracing::warn!(model = shared.name, %error, "its own threads run the model");
        shared.queue.lock().lend_no_more();
        return Err(waiting.request);
    }
    let now = if is_new { Instant::now() } else { waiting.submitted };
    place.learns = runner.serve_one(waiting, now, None).is_some() && !is_new;
    place.instance = runner.instance.take();
    Ok(())
}

/// What work at a place came to.
#[derive(Debug)]
pub struct Worked<T> {
    /// What it gave.
    pub result: Result<T, Error>,
    /// Where its time went.
    pub timing: Timing,
}

/// Does the caller's own work at a place, in the model's stead, unless `deadline` has passed; a panic is its failure.
pub(super) fn work<T>(
    shared: &Shared,
    number: usize,
    began: Instant,
    deadline: Option<Instant>,
    work: impl FnOnce() -> Result<T, String>,
) -> Worked<T> {
    let mut place = Place {
        queue: &shared.queue,
        number,
        instance: None,
        learns: false,
    };
    let counters = &shared.counters;
    if deadline.is_some_and(|deadline| deadline <= began) {
        add(&counters.expired, 1);
        let model = shared.name.clone();
        return Worked {
            result: Err(Error::DeadlinePassed { model, waited_us: 0 }),
            timing: Timing {
                queue: Duration::ZERO,
                compute: Duration::ZERO,
                ended: began,
                batch_rows: 0,
                batch_requests: 0,
            },
        };
    }
    let mut cause = FailureCause::Backend;
    let result = contain(work).unwrap_or_else(|panic| {
        cause = FailureCause::Panic;
        Err(worker::panicked(shared, &panic))
    });
    let ended = Instant::now();
    let compute = ended.saturating_duration_since(began);
    counters.ran(1, compute);
    place.learns = result.is_ok();
    let failed = |problem| Error::ModelFailed {
        model: shared.name.clone(),
        cause,
        problem,
    };
    let result = result.map_err(failed);
    counters.came_to(&result);
    if result.is_ok() {
        counters.wait.add(0);
    }
    Worked {
        result,
        timing: Timing {
            queue: Duration::ZERO,
            compute,
            ended,
            batch_rows: 1,
            batch_requests: 1,
        },
    }
}
