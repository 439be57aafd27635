//! A request that its caller runs itself, where an instance would otherwise be woken for it: no hop to another thread and back.
//!
//! It decides nothing: a place is given by [`Queue::visit`](super::queue::Queue::visit). Its invariants: whoever has a place gives it
//! back, whatever happens; and what runs there is answered as on an instance thread.

use super::queue::Queue;
use super::state::places::Lent;
use super::worker::Runner;
use super::{Request, Shared};
use millpond_backends_interface::Instance;
use std::time::Instant;

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
    place.learns = runner.serve_one(waiting, now).is_some() && !is_new;
    place.instance = runner.instance.take();
    Ok(())
}
