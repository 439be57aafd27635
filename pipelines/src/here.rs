//! A caller that waits for its request and runs what the request waits for itself, model by model, on its own thread.
//!
//! It decides nothing: the batchers say whether there is a place. Its invariants: what is handed over in a turn is run or submitted before
//! the turn ends; and nothing goes on at a model's place, so that others may have it meanwhile.

use crate::wait::submit;
use millpond_engines_batcher::{Batcher, Request};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

/// What is left to do in a turn.
enum Task {
    Run(Arc<Batcher>, Request),
    GoOn(Box<dyn FnOnce()>),
}

thread_local! {
    /// `None` outside of a turn.
    static TURN: RefCell<Option<VecDeque<Task>>> = const { RefCell::new(None) };
}

/// A turn of this thread. What runs in it may take turns of its own.
struct Turn {
    outer: Option<VecDeque<Task>>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        // What is left after a panic is dropped, and its callers told so.
        let left = TURN.replace(self.outer.take());
        drop(left);
    }
}

/// Whether this thread has a turn.
pub(crate) fn has_turn() -> bool {
    TURN.with_borrow(Option::is_some)
}

/// Does what `begin` hands over, and what comes of it on this thread.
pub(crate) fn turn(begin: impl FnOnce()) {
    let _turn = Turn {
        outer: TURN.replace(Some(VecDeque::new())),
    };
    begin();
    while let Some((task, is_last)) = next() {
        match task {
            Task::GoOn(go_on) => go_on(),
            // Of several that wait at a time the others run beside this thread.
            Task::Run(batcher, request) if !is_last => submit(&batcher, request),
            Task::Run(batcher, request) => {
                if let Err((reason, request)) = batcher.run_here(request) {
                    request.refuse(batcher.name(), reason);
                }
            }
        }
    }
}

/// What is done next, and whether no other request waits behind it.
fn next() -> Option<(Task, bool)> {
    TURN.with_borrow_mut(|turn| {
        let turn = turn.as_mut()?;
        let task = turn.pop_front()?;
        let is_last = !turn.iter().any(|task| matches!(task, Task::Run(..)));
        Some((task, is_last))
    })
}

/// Hands a request to this thread's turn, or to its batcher where it has none.
pub(crate) fn hand_over(batcher: Arc<Batcher>, request: Request) {
    match has_turn() {
        true => push(Task::Run(batcher, request)),
        false => submit(&batcher, request),
    }
}

/// Goes on once the place is given back that this thread has: at once where it has no turn.
pub(crate) fn go_on(with: impl FnOnce() + 'static) {
    match has_turn() {
        true => push(Task::GoOn(Box::new(with))),
        false => with(),
    }
}

fn push(task: Task) {
    TURN.with_borrow_mut(|turn| turn.get_or_insert_default().push_back(task));
}
