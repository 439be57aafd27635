//! Which pipelines' backends run on this thread: what would wait for itself is refused instead.
//!
//! It sees this thread alone: a backend that has another thread call its pipeline, and waits for that, is not seen. Its invariant:
//! a thread is inside a pipeline exactly while one of its Python backends runs there.

use std::cell::RefCell;

thread_local! {
    static INSIDE: RefCell<Vec<(u64, String)>> = const { RefCell::new(Vec::new()) };
}

/// While it lives, this thread runs a backend of a pipeline.
pub(super) struct Inside(());

impl Inside {
    pub(super) fn enter(owner: u64, backend: &str) -> Inside {
        INSIDE.with_borrow_mut(|inside| inside.push((owner, backend.to_owned())));
        Inside(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(Vec::pop);
    }
}

/// The backend of that pipeline which this thread runs, if it does.
pub(super) fn of(owner: u64) -> Option<String> {
    INSIDE.with_borrow(|inside| {
        let mut inside = inside.iter().rev();
        inside
            .find(|(found, _)| *found == owner)
            .map(|(_, backend)| backend.clone())
    })
}
