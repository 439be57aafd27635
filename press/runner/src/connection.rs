//! The life of one connection: connect, warm up, wait for the start, keep its requests outstanding, reconnect if it is lost.
//!
//! Its invariant: every request taken is counted once, and a connection that keeps failing neither ends the run nor
//! keeps it from ending.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use millpond_press_workload::Order;
use tokio::time::sleep;

use crate::client_thread::ClientThread;
use crate::scenario::Amount;
use crate::target::{Failure, Lane, Target};

/// Waits before a connection is made again: the first, and the longest they double up to.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// A connection with a fixed number of requests is given up after so many failures in a row.
const FAILURES_MAX: u32 = 5;

/// What one connection has left to do.
struct Work {
    order: RefCell<Order>,
    /// Requests left of a fixed number.
    left: Cell<u64>,
    /// When no more may be started.
    until: Option<Instant>,
    /// Whether anything was answered since the connection was made.
    answered: Cell<bool>,
}

/// Why a connection stopped sending; the worst of its lanes decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Done,
    /// The server closed it after an answer, as it may.
    Closed,
    Lost,
    Refused,
}

/// Lives the life of connection `number`.
pub(crate) async fn live<T: Target>(thread: Rc<ClientThread<T>>, number: usize) {
    let plan = &thread.plan;
    let mut order = Order::new(plan.seed, number as u64, plan.set_len);
    let mut lanes = connect(&thread).await;
    let mut refused = false;
    if let Some(first) = lanes.as_mut().and_then(|lanes| lanes.first_mut()) {
        refused = warm_up(&thread, &mut order, first).await;
    }
    thread.arrive();
    let Some(start) = thread.start().await else { return };
    if refused {
        thread.tally.borrow_mut().counters.connections_refused += 1;
        lanes = None;
    }
    let work = Rc::new(Work {
        order: RefCell::new(order),
        left: Cell::new(match plan.amount {
            Amount::Requests(each) => each,
            Amount::For(_) => 0,
        }),
        until: match plan.amount {
            Amount::Requests(_) => None,
            Amount::For(span) => Some(start + span),
        },
        answered: Cell::new(false),
    });
    // A refused connection is not tried again where its requests are counted out.
    let is_counted_out = work.until.is_none();
    let mut failures = u32::from(lanes.is_none());
    while !(refused && is_counted_out) {
        if let Some(open) = lanes.take() {
            work.answered.set(false);
            let end = send(&thread, &work, open).await;
            if work.answered.get() {
                failures = 0;
            }
            match end {
                End::Done => return,
                End::Closed => {}
                End::Lost => failures += 1,
                End::Refused => {
                    thread.tally.borrow_mut().counters.connections_refused += 1;
                    refused = true;
                    failures += 1;
                }
            }
        }
        let is_given_up = is_counted_out && (refused || failures >= FAILURES_MAX);
        if is_given_up || !pause(&work, failures).await {
            return;
        }
        lanes = connect(&thread).await;
        failures += u32::from(lanes.is_none());
    }
}

/// Waits as long as so many failures ask for; false when there is nothing left to do then.
async fn pause(work: &Work, failures: u32) -> bool {
    if failures > 0 {
        let wait = BACKOFF_MIN
            .saturating_mul(1 << (failures - 1).min(10))
            .min(BACKOFF_MAX);
        let left = work
            .until
            .map(|until| until.saturating_duration_since(Instant::now()));
        sleep(left.map_or(wait, |left| left.min(wait))).await;
    }
    work.has_more(Instant::now())
}

async fn connect<T: Target>(thread: &ClientThread<T>) -> Option<Vec<T::Lane>> {
    // The semaphore is never closed; if it were, connecting without a permit would do no harm.
    let permit = thread.connecting.acquire().await;
    let connected = thread.plan.target.clone().connect(thread.plan.in_flight).await;
    drop(permit);
    let counters = &mut thread.tally.borrow_mut().counters;
    match connected {
        Ok(lanes) => {
            counters.connections_opened += 1;
            Some(lanes)
        }
        Err(reason) => {
            counters.connections_failed += 1;
            counters.note("not_connected", || reason);
            None
        }
    }
}

/// Sends the warm-up requests, which are counted nowhere else. True if the server refused the connection.
async fn warm_up<T: Target>(thread: &ClientThread<T>, order: &mut Order, lane: &mut T::Lane) -> bool {
    for _ in 0..thread.plan.warmup_requests {
        let index = order.next();
        thread.tally.borrow_mut().counters.warm_up.sent += 1;
        let outcome = lane.exchange(index).await;
        let is_refused = matches!(outcome, Err(Failure::Refused { .. }));
        let is_right = outcome.is_ok_and(|answer| thread.is_right(index, answer));
        thread.tally.borrow_mut().counters.warm_up.ok += u64::from(is_right);
        if !lane.is_open() {
            return is_refused;
        }
    }
    false
}

/// Keeps every lane busy until the work is done or the connection is.
async fn send<T: Target>(thread: &Rc<ClientThread<T>>, work: &Rc<Work>, lanes: Vec<T::Lane>) -> End {
    let mut lanes = lanes.into_iter();
    let Some(first) = lanes.next() else {
        return End::Lost;
    };
    // The others run beside; with one request in flight there are none, and nothing is spawned.
    let others: Vec<_> = lanes
        .map(|lane| tokio::task::spawn_local(send_on_lane(thread.clone(), work.clone(), lane)))
        .collect();
    let mut worst = send_on_lane(thread.clone(), work.clone(), first).await;
    for other in others {
        worst = worst.max(other.await.unwrap_or(End::Lost));
    }
    worst
}

async fn send_on_lane<T: Target, L: Lane>(thread: Rc<ClientThread<T>>, work: Rc<Work>, mut lane: L) -> End {
    loop {
        let begin = Instant::now();
        // A lane whose connection another lane lost must not take a request that it cannot send.
        if !lane.is_open() {
            return if work.has_more(begin) {
                End::Lost
            } else {
                End::Done
            };
        }
        let Some(index) = work.take(begin) else {
            return End::Done;
        };
        thread.taken.set(thread.taken.get() + 1);
        thread.outstanding.set(thread.outstanding.get() + 1);
        let outcome = lane.exchange(index).await;
        let end = Instant::now();
        let took = end - begin;
        thread.outstanding.set(thread.outstanding.get() - 1);
        thread.last_end.set(Some(end));
        let if_closed = match outcome {
            Ok(answer) => {
                work.answered.set(true);
                thread.answered(index, answer, took);
                End::Closed
            }
            Err(Failure::Refused { code }) => {
                thread.refused(code, took);
                End::Refused
            }
            Err(Failure::Error { kind, code, why }) => {
                thread.failed(index, kind, code, &why);
                End::Lost
            }
        };
        if !lane.is_open() {
            return if if_closed == End::Closed && !work.has_more(end) {
                End::Done
            } else {
                if_closed
            };
        }
    }
}

impl Work {
    fn has_more(&self, now: Instant) -> bool {
        match self.until {
            Some(until) => now < until,
            None => self.left.get() > 0,
        }
    }

    /// The next request, if there is one.
    fn take(&self, now: Instant) -> Option<usize> {
        if !self.has_more(now) {
            return None;
        }
        self.left.set(self.left.get().saturating_sub(1));
        Some(self.order.borrow_mut().next())
    }
}
