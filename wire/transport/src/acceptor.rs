//! Accepts connections and gives each to the net thread that has the fewest.
//!
//! It runs on a thread of its own, so that no work starves it. Its invariant: a connection over the limit is still
//! accepted and told so, as long as no more than [`REFUSING_MAX`] are being told at once.

use crate::net_thread::{self, Kind, NetThread, Order};
use crate::peer::Peer;
use crate::service::Service;
use crate::{Counters, Error, Listener, Options};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// Refused connections that may be waiting for their answer; beyond it they are closed untold.
const REFUSING_MAX: u64 = 4096;
/// Pause after a failed accept (no file descriptor left, mostly), instead of a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A running listener with its threads.
pub struct Transport {
    addr: SocketAddr,
    counters: Arc<Counters>,
    threads: Arc<Vec<NetThread>>,
    accepting: watch::Sender<bool>,
    acceptor: std::thread::JoinHandle<()>,
}

impl Transport {
    /// Starts net threads named `NAME-0…` and begins to accept.
    ///
    /// # Errors
    /// [`Error`] when a thread cannot be made or pinned.
    pub fn start<S: Service>(
        listener: Listener,
        name: &str,
        options: Options,
        service: S,
    ) -> Result<Transport, Error> {
        let counters = Arc::new(Counters::default());
        let mut threads = Vec::with_capacity(options.threads.max(1));
        for number in 0..options.threads.max(1) {
            let cpu = options.cpus.get(number % options.cpus.len().max(1)).copied();
            let counters = Arc::clone(&counters);
            threads.push(net_thread::start(
                format!("{name}-{number}"),
                cpu,
                service.clone(),
                options.clone(),
                counters,
            )?);
        }
        let threads = Arc::new(threads);
        let addr = listener.local_addr();
        let (accepting, stop) = watch::channel(true);
        let thread_error = |source| Error::Thread {
            what: format!("{name} acceptor"),
            source,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(thread_error)?;
        let accept = Accept {
            listener,
            connections_max: options.connections_max as u64,
            counters: Arc::clone(&counters),
            threads: Arc::clone(&threads),
        };
        let acceptor = std::thread::Builder::new()
            .name(format!("{name}-accept"))
            .spawn(move || runtime.block_on(accept.run(stop)))
            .map_err(thread_error)?;
        Ok(Transport {
            addr,
            counters,
            threads,
            accepting,
            acceptor,
        })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its totals.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// A blocking connection to each net thread, for the process to call itself before others do: its requests say that
    /// they are a [`rehearsal`](crate::Request::rehearsal), and it is counted nowhere.
    ///
    /// # Errors
    /// What the sockets say; a loopback address is needed.
    pub fn rehearse(&self) -> std::io::Result<Vec<TcpStream>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let connect = |thread: &NetThread| {
            let own = TcpStream::connect(listener.local_addr()?)?;
            own.set_nodelay(true)?;
            // Anybody on this machine could have come first; only the own end is taken.
            let (stream, peer) = loop {
                let (stream, peer) = listener.accept()?;
                if peer == own.local_addr()? {
                    break (stream, peer);
                }
            };
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let kind = Kind::Rehearsal;
            let peer = Peer::Inet(peer);
            let order = Order::Adopt { stream, peer, kind };
            let ended = |_| std::io::Error::other("a net thread has ended");
            thread.orders.blocking_send(order).map_err(ended)?;
            Ok(own)
        };
        self.threads.iter().map(connect).collect()
    }

    /// Closes the listening socket; connections go on.
    pub fn stop_accepting(&self) {
        let _ = self.accepting.send(false);
    }

    /// Sends what is owed, for at most `grace`, closes every connection and joins the threads.
    pub fn close(self, grace: Duration) {
        self.stop_accepting();
        let _ = self.acceptor.join();
        let mut pending = Vec::new();
        for thread in self.threads.iter() {
            let (done, closed) = oneshot::channel();
            if thread.orders.blocking_send(Order::Close { grace, done }).is_ok() {
                pending.push(closed);
            }
        }
        for closed in pending {
            let _ = closed.blocking_recv();
        }
        if let Ok(threads) = Arc::try_unwrap(self.threads) {
            for thread in threads {
                let _ = thread.join.join();
            }
        }
    }
}

struct Accept {
    listener: Listener,
    connections_max: u64,
    counters: Arc<Counters>,
    threads: Arc<Vec<NetThread>>,
}

impl Accept {
    async fn run(self, mut stop: watch::Receiver<bool>) {
        let listener = match tokio::net::TcpListener::from_std(self.listener.socket) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "the listening socket cannot be watched"),
        };
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.changed() => return,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let _ = stream.set_nodelay(true);
                    if let Ok(stream) = stream.into_std() {
                        place(
                            &self.counters,
                            &self.threads,
                            self.connections_max,
                            stream,
                            Peer::Inet(peer),
                        );
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

fn place(counters: &Counters, threads: &[NetThread], connections_max: u64, stream: TcpStream, peer: Peer) {
    counters.accepted.fetch_add(1, Ordering::Relaxed);
    let refused = counters.live.load(Ordering::Relaxed) >= connections_max;
    let kind = if refused { Kind::Refused } else { Kind::Served };
    if refused {
        counters.refused.fetch_add(1, Ordering::Relaxed);
        if counters.refusing.load(Ordering::Relaxed) >= REFUSING_MAX {
            return;
        }
    }
    let Some(thread) = threads
        .iter()
        .min_by_key(|thread| thread.live.load(Ordering::Relaxed))
    else {
        return;
    };
    thread.count(counters, kind);
    // A thread that has ended, or that is that far behind: the connection closes with the order that cannot be given.
    if thread
        .orders
        .try_send(Order::Adopt { stream, peer, kind })
        .is_err()
    {
        thread.uncount(counters, kind);
    }
}
