//! How many calls may be worked on at a time, and until when.
//!
//! Calls answered on the net thread itself are not counted: they hold nothing. Its invariant: a permit is given back
//! when it is dropped, whichever way its call ends.

use millpond_wire_schema::{Code, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The count of calls in flight.
#[derive(Debug)]
pub struct Admission {
    in_flight: AtomicUsize,
    in_flight_max: usize,
    deadline_default: Duration,
}

/// The right to work on one call.
#[derive(Debug)]
pub struct Permit {
    admission: Arc<Admission>,
}

impl Admission {
    /// Admits up to `in_flight_max` calls; one that names no deadline gets `deadline_default`.
    pub fn new(in_flight_max: usize, deadline_default: Duration) -> Admission {
        Admission {
            in_flight: AtomicUsize::new(0),
            in_flight_max,
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
        };
        if before >= self.in_flight_max {
            let max = self.in_flight_max;
            let ex =
                format!("{max} calls are in flight already; try again later, or raise server.in_flight_max");
            return Err(Status::new(Code::Overloaded, ex));
        }
        Ok(permit)
    }

    /// Calls in flight now.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// When a call read at `received` becomes worthless.
    ///
    /// # Errors
    /// [`Code::DeadlinePassed`] when that has passed already.
    pub fn deadline(&self, received: Instant, budget_ms: Option<u64>) -> Result<Instant, Status> {
        let budget = budget_ms.map_or(self.deadline_default, Duration::from_millis);
        // A budget beyond what the clock can hold is no limit worth the name: a day stands for it.
        let deadline = received
            .checked_add(budget)
            .unwrap_or(received + Duration::from_secs(86_400));
        if Instant::now() >= deadline {
            let ex = format!(
                "the deadline of {} ms passed before the work began",
                budget.as_millis()
            );
            return Err(Status::new(Code::DeadlinePassed, ex));
        }
        Ok(deadline)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn full_is_refused_and_permits_come_back() {
        let admission = Arc::new(Admission::new(2, Duration::from_secs(1)));
        let (first, _second) = (admission.enter().unwrap(), admission.enter().unwrap());
        assert_eq!(admission.enter().unwrap_err().code, Code::Overloaded);
        assert_eq!(admission.in_flight(), 2);
        drop(first);
        let _third = admission.enter().unwrap();
    }

    #[test]
    fn deadlines_count_from_the_read() {
        let admission = Admission::new(1, Duration::from_secs(60));
        let now = Instant::now();
        assert_eq!(
            admission.deadline(now, Some(0)).unwrap_err().code,
            Code::DeadlinePassed
        );
        assert_eq!(
            admission.deadline(now, None).unwrap(),
            now + Duration::from_secs(60)
        );
        assert!(admission.deadline(now, Some(u64::MAX)).is_ok());
    }
}
