//! Requests are worked on by threads of their own, which take them from one queue.
//!
//! The queue is bounded by what is held of each connection. Its invariant: a connection's answers leave in the order of its
//! requests, whichever worker is done first.

use super::Behaviour;
use super::per_connection::PerConnection;
use crate::connections::{Connections, Id};
use crate::poller::{Wake, wake_precisely};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// What a worker does for a request: it returns when the request may be answered, and an error closes its connection.
pub(super) type Task = dyn Fn(&[u8]) -> io::Result<()> + Send + Sync;

/// One request in the hands of the workers.
struct Job {
    id: Id,
    /// Which request of its connection it is.
    number: u64,
    request: Box<[u8]>,
}

/// A request that was worked on.
struct Done {
    id: Id,
    number: u64,
    well: bool,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// What the serving thread and the workers share.
struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
    done: Mutex<Vec<Done>>,
    wake: Arc<Wake>,
    task: Arc<Task>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// The next job, once there is one; none when the server ends.
    fn take(&self) -> Option<Job> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.closed {
                return None;
            }
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn work(&self) {
        wake_precisely();
        while let Some(job) = self.take() {
            let worked = (self.task)(&job.request);
            if let Err(error) = &worked {
                eprintln!(
                    "practice server: a request could not be worked on, its connection is closed: {error}"
                );
            }
            lock(&self.done).push(Done {
                id: job.id,
                number: job.number,
                well: worked.is_ok(),
            });
            self.wake.wake();
        }
    }
}

/// Which of a connection's requests are done.
#[derive(Default)]
struct Order {
    /// The number of the first request that is not answered.
    first: u64,
    /// Whether it and those behind it are done.
    done: VecDeque<bool>,
}

impl Order {
    /// The number of a new request.
    fn add(&mut self) -> u64 {
        self.done.push_back(false);
        self.first + self.done.len() as u64 - 1
    }

    /// Marks one done and gives how many may be answered now.
    fn finish(&mut self, number: u64) -> usize {
        if let Some(done) = self.done.get_mut(number.wrapping_sub(self.first) as usize) {
            *done = true;
        }
        let ready = self.done.iter().take_while(|done| **done).count();
        self.done.drain(..ready);
        self.first += ready as u64;
        ready
    }
}

pub(crate) struct Pooled {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    orders: PerConnection<Order>,
}

impl Pooled {
    /// Starts the workers.
    pub(crate) fn start(workers: u16, task: Arc<Task>, wake: &Arc<Wake>) -> io::Result<Pooled> {
        let mut pooled = Pooled {
            shared: Arc::new(Shared {
                queue: Mutex::default(),
                filled: Condvar::new(),
                done: Mutex::default(),
                wake: Arc::clone(wake),
                task,
            }),
            workers: Vec::new(),
            orders: PerConnection::new(),
        };
        for _ in 0..workers {
            let shared = Arc::clone(&pooled.shared);
            let worker = Builder::new().name("practice-work".to_owned());
            pooled.workers.push(worker.spawn(move || shared.work())?);
        }
        Ok(pooled)
    }
}

impl Behaviour for Pooled {
    fn arrived(&mut self, id: Id, requests: &[u8], _at_ns: u64, connections: &mut Connections) {
        connections.hold(id, requests);
        let order = self.orders.of(id);
        let mut queue = lock(&self.shared.queue);
        for request in requests.chunks_exact(connections.request_bytes()) {
            queue.jobs.push_back(Job {
                id,
                number: order.add(),
                request: request.into(),
            });
            self.shared.filled.notify_one();
        }
    }

    fn due(&mut self, connections: &mut Connections) {
        let all_done = std::mem::take(&mut *lock(&self.shared.done));
        for done in all_done {
            if !connections.is_open(done.id) {
                continue;
            }
            if !done.well {
                connections.close(done.id);
                continue;
            }
            for _ in 0..self.orders.of(done.id).finish(done.number) {
                connections.answer(done.id);
            }
        }
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.filled.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has said so itself.
            let _panicked = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_early_waits_for_what_came_before() {
        let mut order = Order::default();
        assert_eq!([order.add(), order.add(), order.add()], [0, 1, 2]);
        assert_eq!(order.finish(1), 0);
        assert_eq!(order.finish(0), 2);
        assert_eq!(order.add(), 3);
        assert_eq!(order.finish(3), 0);
        assert_eq!(order.finish(2), 2);
    }
}
