//! A net thread: a tokio `current_thread` runtime, the connections that live on it, and its mailbox.
//!
//! It is not the acceptor. Its invariant: nothing on it blocks, and nothing of its connections is touched elsewhere.

use crate::connection::{self, Connection, State};
use crate::mailbox::{Delivery, Key, Mailbox};
use crate::peer::Peer;
use crate::service::{Origin, Service};
use crate::{Counters, Error, Options};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::LocalSet;

/// One read's worth of bytes, shared by all connections of the thread.
const SCRATCH_BYTES: usize = 64 << 10;

/// Connections that may wait to be taken over; beyond it they are closed.
const ORDERS_MAX: usize = 4096;

/// How often a stop looks again whether everything is answered.
const RECHECK: Duration = Duration::from_millis(5);

/// The next connection's number in this process.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// What a net thread is told.
pub(crate) enum Order {
    /// Serve (or refuse) this connection.
    Adopt {
        stream: TcpStream,
        peer: Peer,
        kind: Kind,
    },
    /// Send what is owed, for this long at most, then close everything and end.
    Close {
        grace: Duration,
        done: oneshot::Sender<()>,
    },
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Calls.
    Served,
    /// Over the connection limit: its first request is answered `Overloaded`, and that is all.
    Refused,
    /// The process calls itself before it is ready; counted nowhere.
    Rehearsal,
}

/// The outside's handle to a net thread.
pub(crate) struct NetThread {
    pub(crate) orders: mpsc::Sender<Order>,
    /// Connections served on it now.
    pub(crate) live: Arc<AtomicUsize>,
    pub(crate) join: std::thread::JoinHandle<()>,
}

impl NetThread {
    /// Counts a connection in before its order is given, so that the next one sees it.
    pub(crate) fn count(&self, counters: &Counters, kind: Kind) {
        match kind {
            Kind::Served => {
                self.live.fetch_add(1, Ordering::Relaxed);
                counters.live.fetch_add(1, Ordering::Relaxed);
            }
            Kind::Refused => {
                counters.refusing.fetch_add(1, Ordering::Relaxed);
            }
            Kind::Rehearsal => {}
        }
    }

    /// Counts it out again.
    pub(crate) fn uncount(&self, counters: &Counters, kind: Kind) {
        uncount(counters, &self.live, kind);
    }
}

fn uncount(counters: &Counters, live: &AtomicUsize, kind: Kind) {
    match kind {
        Kind::Served => {
            live.fetch_sub(1, Ordering::Relaxed);
            counters.live.fetch_sub(1, Ordering::Relaxed);
        }
        Kind::Refused => {
            counters.refusing.fetch_sub(1, Ordering::Relaxed);
        }
        Kind::Rehearsal => {}
    }
}

/// What all tasks of one net thread share.
pub(crate) struct Net<S> {
    pub(crate) service: S,
    pub(crate) options: Options,
    pub(crate) counters: Arc<Counters>,
    pub(crate) scratch: RefCell<Box<[u8]>>,
    connections: RefCell<Slab<Rc<Connection>>>,
    mailbox: Arc<Mailbox>,
    live: Arc<AtomicUsize>,
    /// Rung when a connection ends, for the close that waits for them.
    quieter: Notify,
}

/// Starts a net thread named `name`, pinned to `cpu` where one is given.
pub(crate) fn start<S: Service>(
    name: String,
    cpu: Option<usize>,
    service: S,
    options: Options,
    counters: Arc<Counters>,
) -> Result<NetThread, Error> {
    let thread_error = |source| Error::Thread {
        what: format!("net thread {name}"),
        source,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(thread_error)?;
    let (orders, inbox) = mpsc::channel(ORDERS_MAX);
    let live = Arc::new(AtomicUsize::new(0));
    let (pinned, pin_result) = std::sync::mpsc::sync_channel(1);
    let thread_live = Arc::clone(&live);
    let body = move || {
        let pin = cpu.map_or(Ok(()), pin_to);
        let failed = pin.is_err();
        let _ = pinned.send(pin);
        if !failed {
            LocalSet::new().block_on(&runtime, thread(service, options, counters, thread_live, inbox));
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
        _ => Ok(NetThread { orders, live, join }),
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

async fn thread<S: Service>(
    service: S,
    options: Options,
    counters: Arc<Counters>,
    live: Arc<AtomicUsize>,
    mut inbox: mpsc::Receiver<Order>,
) {
    let net = Rc::new(Net {
        service,
        options,
        counters,
        scratch: RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice()),
        connections: RefCell::new(Slab::new()),
        mailbox: Arc::new(Mailbox::default()),
        live,
        quieter: Notify::new(),
    });
    let delivering = tokio::task::spawn_local(deliver(Rc::clone(&net)));
    while let Some(order) = inbox.recv().await {
        match order {
            Order::Adopt { stream, peer, kind } => adopt(&net, stream, peer, kind),
            Order::Close { grace, done } => {
                let _ = tokio::time::timeout(grace, net.quiet()).await;
                delivering.abort();
                let _ = done.send(());
                return;
            }
        }
    }
}

fn adopt<S: Service>(net: &Rc<Net<S>>, stream: TcpStream, peer: Peer, kind: Kind) {
    let stream = match tokio::net::TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => {
            tracing::warn!(%peer, %error, "connection dropped: it cannot be watched");
            net.uncount(kind);
            return;
        }
    };
    let (reader, writer) = stream.into_split();
    let mut connections = net.connections.borrow_mut();
    let entry = connections.vacant_entry();
    let key = Key {
        slot: entry.key(),
        generation: GENERATION.fetch_add(1, Ordering::Relaxed),
    };
    let origin = Origin {
        key,
        mailbox: Arc::clone(&net.mailbox),
        gone: Arc::new(AtomicBool::new(false)),
    };
    let connection = Rc::new(Connection {
        writer,
        peer,
        origin,
        kind,
        state: RefCell::new(State::default()),
        drained: Cell::new(false),
        resume: Notify::new(),
    });
    entry.insert(Rc::clone(&connection));
    drop(connections);
    tokio::task::spawn_local(connection::run(Rc::clone(net), connection, reader));
}

/// Takes the mailbox's answers to their connections, one flush a connection and batch.
async fn deliver<S: Service>(net: Rc<Net<S>>) {
    let mut batch: Vec<Delivery> = Vec::new();
    let mut touched: Vec<Rc<Connection>> = Vec::new();
    loop {
        net.mailbox.rung().await;
        net.mailbox.take(&mut batch);
        for delivery in batch.drain(..) {
            match net.find(delivery.key) {
                Some(connection) => {
                    connection.deliver(&delivery);
                    if touched.last().is_none_or(|last| !Rc::ptr_eq(last, &connection)) {
                        touched.push(connection);
                    }
                }
                None => {
                    net.counters.undelivered.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        for connection in touched.drain(..) {
            connection.flush_and_resume(&net);
        }
        net.quieter.notify_waiters();
    }
}

impl<S> Net<S> {
    fn find(&self, key: Key) -> Option<Rc<Connection>> {
        let connections = self.connections.borrow();
        connections
            .get(key.slot)
            .filter(|connection| connection.origin.key == key)
            .cloned()
    }

    /// Takes an ended connection out of the slab and the counts.
    pub(crate) fn forget(&self, connection: &Connection) {
        self.connections
            .borrow_mut()
            .try_remove(connection.origin.key.slot);
        self.uncount(connection.kind);
        self.quieter.notify_waiters();
    }

    fn uncount(&self, kind: Kind) {
        uncount(&self.counters, &self.live, kind);
    }

    /// Waits until no connection is owed anything.
    async fn quiet(&self) {
        loop {
            let changed = self.quieter.notified();
            if self
                .connections
                .borrow()
                .iter()
                .all(|(_, connection)| connection.is_quiet())
            {
                return;
            }
            // What waits in a socket is read by its connection's task, which tells nobody here.
            let _ = tokio::time::timeout(RECHECK, changed).await;
        }
    }
}
