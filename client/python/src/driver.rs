//! The one thread that all clients of a process share: a tokio runtime that runs what callers hand it.
//!
//! It knows no calls, only futures. Its invariants: it never touches Python; and a process that was forked gets one of its
//! own, and never looks at its parent's. Nothing bounds what is handed over but its callers, each of whom waits for the one
//! thing that he handed over.

use pyo3::Python;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use tokio::runtime::Builder;
use tokio::sync::{Notify, oneshot};

/// What callers have done.
pub(crate) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What callers hand over.
pub(crate) enum Order {
    /// Begin a job.
    Begin(Job),
    /// Let go of this, on which a job waits to be told that nobody waits for it any more.
    Stop(oneshot::Sender<()>),
}

/// Where callers leave their orders for the thread.
pub(crate) struct Driver {
    /// The process that its thread runs in.
    pid: u32,
    /// Handed over and not looked at.
    orders: Mutex<Vec<Order>>,
    /// Notified by the caller that finds no other order there: one wake-up for all orders that arrive before the thread takes them.
    more: Notify,
}

/// The process's driver, or the parent's that a fork left behind.
static DRIVER: Mutex<Option<Arc<Driver>>> = Mutex::new(None);

/// The driver of this process, started by the first caller.
///
/// It is locked by attached threads only, and they stay attached meanwhile; Python forks in an attached thread, so a fork
/// never finds it locked.
pub(crate) fn driver(_attached: Python<'_>) -> io::Result<Arc<Driver>> {
    let mut shared = lock(&DRIVER);
    if let Some(driver) = shared.as_ref().filter(|driver| driver.pid == process::id()) {
        return Ok(driver.clone());
    }
    let driver = start()?;
    *shared = Some(driver.clone());
    Ok(driver)
}

fn start() -> io::Result<Arc<Driver>> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let driver = Arc::new(Driver {
        pid: process::id(),
        orders: Mutex::default(),
        more: Notify::new(),
    });
    let of_thread = driver.clone();
    thread::Builder::new()
        .name("millpond-client".to_owned())
        .spawn(move || runtime.block_on(of_thread.run()))?;
    Ok(driver)
}

impl Driver {
    /// Hands over an order. Jobs begin in the order they were handed over, and whatever was stopped before one begins is
    /// gone by then: what it took up is free.
    pub(crate) fn submit(&self, order: Order) {
        let is_first = {
            let mut orders = lock(&self.orders);
            orders.push(order);
            orders.len() == 1
        };
        if is_first {
            self.more.notify_one();
        }
    }

    async fn run(&self) {
        let mut taken = Vec::new();
        loop {
            self.more.notified().await;
            std::mem::swap(&mut *lock(&self.orders), &mut taken);
            for order in taken.drain(..) {
                // Here both put a task at the end of the runtime's queue.
                match order {
                    Order::Begin(job) => drop(tokio::spawn(job)),
                    Order::Stop(asker) => drop(asker),
                }
            }
        }
    }
}

/// What another thread left behind when it panicked is whole: nothing here is changed in two steps.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
