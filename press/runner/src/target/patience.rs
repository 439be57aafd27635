//! A timer that is set once for many requests.
//!
//! When it fires for an earlier request it is set again, so a request that is answered in time costs no timer. Its
//! invariant: nothing is waited for past its deadline.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

pub(crate) struct Patience {
    span: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl Patience {
    /// Patience of `span` for every wait.
    pub(crate) fn new(span: Duration) -> Patience {
        Patience {
            span,
            sleep: Box::pin(sleep(span)),
        }
    }

    /// Waits for `future`; nothing when its time is over, and the future is then dropped.
    pub(crate) async fn wait<F: Future>(&mut self, future: F) -> Option<F::Output> {
        let deadline = Instant::now() + self.span;
        let mut future = pin!(future);
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            while self.sleep.as_mut().poll(context).is_ready() {
                if Instant::now() >= deadline {
                    return Poll::Ready(None);
                }
                self.sleep.as_mut().reset(deadline);
            }
            Poll::Pending
        })
        .await
    }

    /// The span in words.
    pub(crate) fn in_words(&self) -> String {
        format!("{} ms", self.span.as_millis())
    }
}
