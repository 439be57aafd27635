//! The start of a net thread: its mailbox, its processor, its loop.
//!
//! Its invariant: a thread that could not be pinned runs no loop, and its start fails.

use super::{Loop, Net, NetThread, Newcomer, Order, uncount};
use crate::mailbox::{Mailbox, Message};
use crate::poller::{self, Poller};
use crate::session::{Local, Ports};
use crate::totals::Totals;
use crate::{Error, Options};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// Starts the net thread of that number, named `NAME-NUMBER`, pinned to `cpu` where one is given.
pub(crate) fn start<L: Local>(
    name: &str,
    number: usize,
    cpu: Option<usize>,
    local: L,
    ports: Ports<L>,
    options: Options,
    totals: &Arc<Totals>,
) -> Result<(NetThread, JoinHandle<()>), Error> {
    let name = format!("{name}-{number}");
    let thread_error = |source| Error::Thread {
        what: format!("net thread {name}"),
        source,
    };
    let mailbox = Arc::new(Mailbox::new(Arc::clone(totals), number).map_err(thread_error)?);
    totals.introduce(number, &mailbox);
    let epoll = poller::watch(&mailbox.pulse.wake_up).map_err(thread_error)?;
    let live = Arc::new(AtomicUsize::new(0));
    let (pinned, pin_result) = std::sync::mpsc::sync_channel(1);
    let end = End {
        mailbox: Arc::clone(&mailbox),
        live: Arc::clone(&live),
    };
    let hint = options.hints.cpus;
    let net = Net {
        options,
        counters: Arc::clone(&totals.counters),
        mailbox: Arc::clone(&mailbox),
    };
    let thread_live = Arc::clone(&live);
    let body = move || {
        let pin = cpu.map_or(Ok(()), pin_to);
        let failed = pin.is_err();
        let _ = pinned.send(pin);
        let _end = end;
        if !failed {
            Loop::new(net, local, ports, Poller::new(epoll), thread_live).run();
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
            hint,
        }),
        _ => Ok((NetThread { mailbox, live }, join)),
    }
}

/// The end of a net thread, by a panic too: its mailbox closes, and what lies in it is counted out and dropped, by which its
/// senders see that nothing will come.
struct End {
    mailbox: Arc<Mailbox>,
    live: Arc<AtomicUsize>,
}

impl Drop for End {
    fn drop(&mut self) {
        let (queues, totals) = (self.mailbox.close(), &self.mailbox.totals);
        for message in &queues.messages {
            if let Message::Delivery(delivery) = message {
                totals.take(delivery.bytes.len());
            }
        }
        for order in &queues.orders {
            if let Order::Adopt(Newcomer { kind, .. }) = order {
                uncount(&totals.counters, &self.live, *kind);
            }
        }
        if std::thread::panicking() {
            // What it was about to adopt went with it.
            let lost = self.live.swap(0, Ordering::Relaxed) as u64;
            totals.counters.live.fetch_sub(lost, Ordering::Relaxed);
        }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Counters;
    use crate::RemoteAddr;
    use crate::mailbox::{Delivery, Key, What};
    use crate::net_thread::{Kind, count};
    use crate::poller::WakeUp;

    #[test]
    fn what_nobody_takes_any_more_is_counted_out() {
        let counters = Arc::<Counters>::default();
        let totals = Arc::new(Totals::new(Arc::clone(&counters), 1, 1 << 20, ""));
        let mailbox = Arc::new(Mailbox::new(Arc::clone(&totals), 0).unwrap());
        let net_thread = NetThread {
            mailbox: Arc::clone(&mailbox),
            live: Arc::default(),
        };
        mailbox.post(Delivery {
            key: Key {
                slot: 0,
                generation: 1,
            },
            bytes: vec![0; 1000],
            what: What::Answer {
                close: false,
                ready: None,
            },
        });
        for kind in [Kind::Served, Kind::Refused] {
            count(&counters, &net_thread.live, kind);
            let order = Order::Adopt(Newcomer {
                socket: WakeUp::new().unwrap().into(),
                peer: RemoteAddr(None),
                kind,
                tls: None,
                port: 0,
                is_loopback: false,
            });
            mailbox.order(order).unwrap();
        }
        let counted = || {
            let of_all = [&counters.write_buffer_bytes, &counters.live, &counters.refusing];
            of_all.map(|counter| counter.load(Ordering::Relaxed))
        };
        assert_eq!(counted(), [1000, 1, 1]);
        drop(End {
            mailbox,
            live: Arc::clone(&net_thread.live),
        });
        assert_eq!(counted(), [0, 0, 0]);
        assert_eq!(net_thread.live.load(Ordering::Relaxed), 0);
    }
}
