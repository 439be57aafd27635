//! The start of a net thread: its mailbox, its processor, its loop.
//!
//! Its invariant: a thread that could not be pinned runs no loop, and whoever starts it hears why.

use super::{Loop, Net, NetThread};
use crate::lull::Tally;
use crate::mailbox::Mailbox;
use crate::poller::{self, Poller};
use crate::service::Service;
use crate::totals::Totals;
use crate::{Counters, Error, Options};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// Starts the net thread of that number, named `NAME-NUMBER`, pinned to `cpu` where one is given.
pub(crate) fn start<S: Service>(
    name: &str,
    number: usize,
    cpu: Option<usize>,
    service: S,
    options: Options,
    counters: Arc<Counters>,
    totals: &Arc<Totals>,
) -> Result<(NetThread, JoinHandle<()>), Error> {
    let name = format!("{name}-{number}");
    let thread_error = |source| Error::Thread {
        what: format!("net thread {name}"),
        source,
    };
    let mailbox = Arc::new(Mailbox::new(Arc::clone(totals), number).map_err(thread_error)?);
    totals.introduce(number, &mailbox);
    let epoll = poller::watch(mailbox.bell()).map_err(thread_error)?;
    let live = Arc::new(AtomicUsize::new(0));
    let (pinned, pin_result) = std::sync::mpsc::sync_channel(1);
    let end = End {
        mailbox: Arc::clone(&mailbox),
        live: Arc::clone(&live),
        counters: Arc::clone(&counters),
    };
    let (net, thread_live) = (
        Net {
            service,
            options,
            counters,
            mailbox: Arc::clone(&mailbox),
            tally: Tally::default(),
        },
        Arc::clone(&live),
    );
    let body = move || {
        let pin = cpu.map_or(Ok(()), pin_to);
        let failed = pin.is_err();
        let _ = pinned.send(pin);
        let _end = end;
        if !failed {
            Loop::new(net, Poller::new(epoll), thread_live).run();
        }
    };
    let join = std::thread::Builder::new()
        .name(name.clone())
        .spawn(body)
        .map_err(thread_error)?;
    match (pin_result.recv(), cpu) {
        (Ok(Err(source)), Some(cpu)) => Err(Error::Pin {
            what: name,
            cpu,
            source,
        }),
        _ => Ok((NetThread { mailbox, live }, join)),
    }
}

/// The end of a net thread, however it comes: nothing is left in its mailbox any more, so whoever waits for something of it hears
/// that there will be nothing.
struct End {
    mailbox: Arc<Mailbox>,
    live: Arc<AtomicUsize>,
    counters: Arc<Counters>,
}

impl Drop for End {
    fn drop(&mut self) {
        let left = self.mailbox.close();
        if std::thread::panicking() {
            // The sockets are closed, and none of them was counted out.
            let lost = self.live.swap(0, Ordering::Relaxed) as u64;
            self.counters.live.fetch_sub(lost, Ordering::Relaxed);
        }
        drop(left);
    }
}

fn pin_to(cpu: usize) -> std::io::Result<()> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    if cpu >= CpuSet::MAX_CPU {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}
