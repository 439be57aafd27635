//! How many calls may be worked on at a time, and until when.
//!
//! Calls answered on the net thread itself are not counted: they hold nothing. Calls that wait for their callers' answers are
//! counted apart, and bounded by what each connection may have waiting: nobody works on them. Calls that no queue of a model
//! counts say how many bytes they hold, which are bounded too. Its invariant: a permit is given back when it is dropped,
//! whichever way its call ends.

use crate::Arrival;
use millpond_wire_schema::{Code, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

millpond_metrics::counters! {
    /// The counts of calls in flight.
    #[derive(Debug)]
    pub struct Admission {
        /// What a page and `*infos` have of it.
        METRICS {
            in_flight: AtomicUsize = gauge("millpond_in_flight", "Calls being worked on.").info("in_flight"),
            held_bytes: AtomicUsize = gauge("millpond_in_flight_bytes",
                "Bytes that they hold, beside those that wait for models."),
            awaiting_callers: AtomicUsize = gauge("millpond_awaiting_callers",
                "Calls that wait for their callers to answer what they were asked.").info("awaiting_callers"),
        }
    }
    and {
        in_flight_max: usize,
        held_bytes_max: usize,
        deadline_default: Duration,
    }
}

/// The right to work on one call, or to wait for its caller.
#[derive(Debug)]
pub struct Permit {
    admission: Arc<Admission>,
    waits_for_caller: bool,
    held_bytes: usize,
}

impl Admission {
    /// Admits up to `in_flight_max` calls, which hold up to `held_bytes_max` bytes; one that names no deadline gets
    /// `deadline_default`.
    pub fn new(in_flight_max: usize, held_bytes_max: usize, deadline_default: Duration) -> Admission {
        Admission {
            in_flight: AtomicUsize::new(0),
            in_flight_max,
            held_bytes: AtomicUsize::new(0),
            held_bytes_max,
            awaiting_callers: AtomicUsize::new(0),
            deadline_default,
        }
    }

    /// Admits a call.
    ///
    /// # Errors
    /// [`Code::Overloaded`] at once when as many as may are in flight.
    pub fn enter(self: &Arc<Self>) -> Result<Permit, Status> {
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let permit = Permit {
            admission: Arc::clone(self),
            waits_for_caller: false,
            held_bytes: 0,
        };
        if before >= self.in_flight_max {
            let max = self.in_flight_max;
            let ex =
                format!("{max} calls are in flight already; try again later, or raise server.in_flight_max");
            return Err(Status::new(Code::Overloaded, ex));
        }
        Ok(permit)
    }

    /// Admits a call that holds so many bytes until it is answered.
    ///
    /// # Errors
    /// As [`Admission::enter`], also where too many bytes are held; [`Code::TooLarge`] where the call alone would hold too many.
    pub fn enter_holding(self: &Arc<Self>, bytes: usize) -> Result<Permit, Status> {
        let max = self.held_bytes_max;
        if bytes > max {
            let ex = format!(
                "the call would hold {bytes} bytes until it is answered; the limit is {max} (send less at once, or raise \
                 server.in_flight_bytes_max)"
            );
            return Err(Status::new(Code::TooLarge, ex));
        }
        let mut permit = self.enter()?;
        let before = self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        permit.held_bytes = bytes;
        if before.saturating_add(bytes) > max {
            let ex = format!(
                "calls in flight hold {before} bytes already, and this one {bytes}; try again later, or raise server.in_flight_bytes_max"
            );
            return Err(Status::new(Code::Overloaded, ex));
        }
        Ok(permit)
    }

    /// Counts a call that waits for its caller's answer. It is worked on by nobody, so it takes nobody's place; how many one
    /// connection may have waiting is the transport's to say.
    pub fn await_caller(self: &Arc<Self>) -> Permit {
        self.awaiting_callers.fetch_add(1, Ordering::Relaxed);
        Permit {
            admission: Arc::clone(self),
            waits_for_caller: true,
            held_bytes: 0,
        }
    }

    /// Calls that are not answered yet, for whomever they wait: what a stop waits for.
    pub fn unfinished(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed) + self.awaiting_callers.load(Ordering::Relaxed)
    }

    /// When a call becomes worthless, counted from its read.
    ///
    /// # Errors
    /// [`Code::DeadlinePassed`] when that has passed already.
    #[inline]
    pub fn deadline(&self, arrival: &Arrival, budget_ms: Option<u64>) -> Result<Instant, Status> {
        let budget = budget_ms.map_or(self.deadline_default, Duration::from_millis);
        // A budget beyond what the clock can hold is no limit worth the name: a day stands for it.
        let deadline = arrival
            .received
            .checked_add(budget)
            .unwrap_or_else(|| arrival.received + Duration::from_secs(86_400));
        // The clock was read when the call came in, or not long before; what lies between is decoding, and a few short calls.
        match arrival.entered < deadline {
            true => Ok(deadline),
            false => Err(passed(budget)),
        }
    }
}

#[cold]
fn passed(budget: Duration) -> Status {
    let ms = budget.as_millis();
    let ex = format!("the deadline of {ms} ms passed before the work began");
    Status::new(Code::DeadlinePassed, ex)
}

impl Drop for Permit {
    fn drop(&mut self) {
        let count = match self.waits_for_caller {
            true => &self.admission.awaiting_callers,
            false => &self.admission.in_flight,
        };
        count.fetch_sub(1, Ordering::Relaxed);
        if self.held_bytes > 0 {
            self.admission
                .held_bytes
                .fetch_sub(self.held_bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::method;

    #[test]
    fn full_is_refused_and_permits_come_back() {
        let admission = Arc::new(Admission::new(2, 0, Duration::from_secs(1)));
        let (first, _second) = (admission.enter().unwrap(), admission.enter().unwrap());
        assert_eq!(admission.enter().unwrap_err().code, Code::Overloaded);
        assert_eq!(admission.in_flight.load(Ordering::Relaxed), 2);
        drop(first);
        let _third = admission.enter().unwrap();
    }

    #[test]
    fn what_calls_hold_is_bounded_and_comes_back() {
        let admission = Arc::new(Admission::new(9, 100, Duration::from_secs(1)));
        let refused = |bytes| admission.enter_holding(bytes).unwrap_err();
        assert_eq!(refused(101).code, Code::TooLarge);
        let first = admission.enter_holding(60).unwrap();
        let full = refused(41);
        assert!(
            full.code == Code::Overloaded && full.ex.contains("in_flight_bytes_max"),
            "{full}"
        );
        let held = || {
            (
                admission.held_bytes.load(Ordering::Relaxed),
                admission.in_flight.load(Ordering::Relaxed),
            )
        };
        assert_eq!(held(), (60, 1));
        let _second = admission.enter_holding(40).unwrap();
        drop(first);
        assert_eq!(held(), (40, 1));
        let _third = admission.enter_holding(60).unwrap();
    }

    #[test]
    fn who_waits_for_a_caller_takes_nobodys_place() {
        let admission = Arc::new(Admission::new(1, 0, Duration::from_secs(1)));
        let waiting: Vec<Permit> = (0..3).map(|_| admission.await_caller()).collect();
        let worked_on = admission.enter().unwrap();
        assert_eq!(admission.in_flight.load(Ordering::Relaxed), 1);
        assert_eq!(admission.awaiting_callers.load(Ordering::Relaxed), 3);
        assert_eq!(admission.unfinished(), 4);
        drop(worked_on);
        assert_eq!(admission.unfinished(), 3);
        drop(waiting);
        assert_eq!(admission.unfinished(), 0);
    }

    #[test]
    fn deadlines_count_from_the_read() {
        let admission = Admission::new(1, 0, Duration::from_secs(60));
        let methods = method::tests::methods();
        let now = Instant::now();
        let arrival = Arrival {
            method: methods.named("rank").unwrap(),
            received: now,
            entered: now + Duration::from_millis(1),
            is_internal: false,
        };
        for passed in [0, 1] {
            let refused = admission.deadline(&arrival, Some(passed)).unwrap_err();
            assert_eq!(refused.code, Code::DeadlinePassed);
        }
        assert_eq!(
            admission.deadline(&arrival, None).unwrap(),
            now + Duration::from_secs(60)
        );
        assert!(admission.deadline(&arrival, Some(u64::MAX)).is_ok());
    }
}
