//! Accepts connections and hands each to the net thread with the fewest connections.
//!
//! It runs on a thread of its own, so that no work starves it. Its invariant: a connection over the limit is still
//! accepted and refused with an answer, as long as no more than [`beside_max`] are refused at once.

use crate::RemoteAddr;
use crate::listener::Bound;
use crate::mailbox::ORDERS_MAX;
use crate::net_thread::{self, Kind, NetThread, Newcomer, Order, PARTING};
use crate::pulse::{Pulse, Pulses};
use crate::quiet::{self, limited};
use crate::session::{Local, Ports};
use crate::totals::Totals;
use crate::{Counters, Error, Listener, Options};
use millpond_threads::join_by;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags, acceptfrom_with, sockopt};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most connections that may be refused at a time.
const BESIDE_MAX: u64 = 2048;
/// And at least.
const BESIDE_MIN: u64 = 32;
/// Pause after a failed accept (no file descriptor left, mostly), instead of a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// Connections accepted from one socket before the others are looked at.
const ACCEPTS_IN_A_ROW: usize = 256;

/// How long net threads keep their connections for an acceptor that has not ended: what it accepted last is theirs.
const ACCEPTOR_END: Duration = Duration::from_millis(50);
/// How long a net thread may take to end, beside its unsent answers and the parting.
const NET_THREAD_END: Duration = Duration::from_millis(100);

/// Running listeners with their threads.
pub struct Transport {
    bounds: Vec<Bound>,
    counters: Arc<Counters>,
    threads: Arc<Vec<NetThread>>,
    /// Beside the threads, of which the acceptor has a share.
    joins: Vec<JoinHandle<()>>,
    name: String,
    stop: Arc<Stop>,
    /// What the thread that accepts begins with, until it does.
    accept: Option<Box<Accept>>,
    acceptor: Option<JoinHandle<()>>,
}

/// Tells the acceptor to end, and asks whether it turns.
struct Stop {
    asked: AtomicBool,
    pulse: Arc<Pulse>,
}

impl Transport {
    /// Starts net threads named `NAME-0…`; nothing is accepted before [`Transport::accept`].
    ///
    /// # Errors
    /// [`Error`] when a thread cannot be made or pinned.
    pub fn prepare<L: Local>(
        listeners: Vec<Listener>,
        name: &str,
        options: Options,
        ports: Ports<L>,
        local: L,
    ) -> Result<Transport, Error> {
        let counters = Arc::new(Counters::default());
        let count = options.threads.max(1);
        let totals = Arc::new(Totals::new(
            Arc::clone(&counters),
            count,
            options.write_buffers_total_bytes_max,
            options.hints.write_buffers_total_key,
        ));
        let mut threads = Vec::with_capacity(count);
        let mut joins = Vec::with_capacity(count);
        for number in 0..count {
            let cpu = options.cpus.get(number % options.cpus.len().max(1)).copied();
            let (thread, join) = net_thread::start(
                name,
                number,
                cpu,
                local.clone(),
                Arc::clone(&ports),
                options.clone(),
                &totals,
            )?;
            threads.push(thread);
            joins.push(join);
        }
        let threads = Arc::new(threads);
        let stop = Arc::new(Stop {
            asked: AtomicBool::new(false),
            pulse: Pulse::new().map_err(|source| thread_error(name, source))?,
        });
        let bounds = listeners
            .iter()
            .map(|listener| listener.bound().clone())
            .collect();
        let accept = Accept {
            listeners,
            connections_max: options.connections_max as u64,
            idlest_gives_way: options.idlest_gives_way,
            counters: Arc::clone(&counters),
            threads: Arc::clone(&threads),
            stop: Arc::clone(&stop),
        };
        Ok(Transport {
            bounds,
            counters,
            threads,
            joins,
            name: name.to_owned(),
            stop,
            accept: Some(Box::new(accept)),
            acceptor: None,
        })
    }

    /// Listens where that was put off ([`Listener::bind_shared`]), and begins to accept; nothing where it has begun.
    ///
    /// # Errors
    /// [`Error::Bind`] and [`Error::Thread`]; the transport will not accept then.
    pub fn accept(&mut self) -> Result<(), Error> {
        let Some(mut accept) = self.accept.take() else {
            return Ok(());
        };
        accept.listeners.iter_mut().try_for_each(Listener::listen)?;
        let acceptor = std::thread::Builder::new()
            .name(format!("{}-accept", self.name))
            .spawn(move || accept.run())
            .map_err(|source| thread_error(&self.name, source))?;
        self.acceptor = Some(acceptor);
        Ok(())
    }

    /// Where the first listener with an IP address listens; 0.0.0.0:0 where all are Unix sockets.
    pub fn local_addr(&self) -> SocketAddr {
        let first = self.bounds.iter().find_map(Bound::addr);
        first.unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, 0).into())
    }

    /// Where all of them listen.
    pub fn bounds(&self) -> &[Bound] {
        &self.bounds
    }

    /// Its totals.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Closes the listening sockets; connections go on.
    pub fn stop_accepting(&self) {
        self.stop.asked.store(true, Ordering::Relaxed);
        self.stop.pulse.wake_up.send();
    }

    /// Its threads, to be asked whether they turn.
    pub fn pulses(&self) -> Pulses {
        let net = self.threads.iter().enumerate().map(|(number, thread)| {
            let pulse = Arc::clone(&thread.mailbox.pulse);
            (format!("{}-{number}", self.name), pulse)
        });
        let acceptor = (format!("{}-accept", self.name), Arc::clone(&self.stop.pulse));
        Pulses(net.chain([acceptor]).collect())
    }

    /// Sends all answers, for at most `grace`, closes every connection and waits for the threads, for less than half a second more.
    /// Returns the names of those that have not ended by then: they are left to themselves, and end when they come back.
    pub fn close(self, grace: Duration) -> Vec<String> {
        Transport::close_all(vec![self], grace)
    }

    /// Does that with several at the same time.
    pub fn close_all(transports: Vec<Transport>, grace: Duration) -> Vec<String> {
        transports.iter().for_each(Transport::stop_accepting);
        let mut running = Vec::new();
        let accepted = Instant::now() + ACCEPTOR_END;
        for transport in transports {
            // One that is late, as on a machine that is busy, has as long as the others: here it holds them up no longer.
            if let Some(acceptor) = transport.acceptor
                && let Err(late) = join_by(acceptor, accepted)
            {
                running.push((format!("{}-accept", transport.name), late));
            }
            for (number, join) in transport.joins.into_iter().enumerate() {
                running.push((format!("{}-{number}", transport.name), join));
            }
            for thread in transport.threads.iter() {
                // One that has ended needs no word.
                let _ = thread.mailbox.order(Order::Close { grace });
            }
        }
        let until = Instant::now() + grace + PARTING + NET_THREAD_END;
        let ended = running
            .into_iter()
            .map(|(name, join)| (name, join_by(join, until).is_ok()));
        ended.filter(|(_, ended)| !ended).map(|(name, _)| name).collect()
    }
}

fn thread_error(name: &str, source: std::io::Error) -> Error {
    let what = format!("{name} acceptor");
    Error::Thread { what, source }
}

struct Accept {
    listeners: Vec<Listener>,
    connections_max: u64,
    /// The net thread finds a place for one over the limit, or counts it as refused.
    idlest_gives_way: bool,
    counters: Arc<Counters>,
    threads: Arc<Vec<NetThread>>,
    stop: Arc<Stop>,
}

impl Accept {
    fn run(self) {
        self.stop.pulse.begin();
        loop {
            let wake_up = PollFd::new(&self.stop.pulse.wake_up, PollFlags::IN);
            let sockets = self.listeners.iter();
            let mut watched: Vec<PollFd<'_>> = sockets
                .map(|listener| PollFd::new(&listener.socket, PollFlags::IN))
                .chain([wake_up])
                .collect();
            let waited = poll(&mut watched, None);
            self.stop.pulse.turned();
            self.stop.pulse.wake_up.clear();
            if self.stop.asked.load(Ordering::Relaxed) {
                return self.stop.pulse.end();
            }
            if let Err(error) = waited
                && error != Errno::INTR
            {
                self.pause("the listening sockets cannot be watched", error);
            }
            for (listener, watched) in self.listeners.iter().zip(&watched) {
                if !watched.revents().is_empty() {
                    self.accept(listener);
                }
            }
        }
    }

    /// Takes what waits at one socket.
    fn accept(&self, listener: &Listener) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..ACCEPTS_IN_A_ROW {
            match acceptfrom_with(&listener.socket, flags) {
                Ok((socket, address)) => self.place(socket, peer(address), listener),
                Err(Errno::AGAIN) => return,
                // The peer has left, or a signal came.
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => return self.pause("a connection could not be accepted", error),
            }
        }
    }

    fn pause(&self, what: &str, error: Errno) {
        limited!(warn, self.counters.quiet, quiet::NOT_ACCEPTED, [%error], "{what}");
        std::thread::sleep(ACCEPT_PAUSE);
    }

    fn place(&self, socket: OwnedFd, peer: RemoteAddr, listener: &Listener) {
        let counters = &self.counters;
        counters.accepted.fetch_add(1, Ordering::Relaxed);
        if peer.0.is_some() {
            let _ = sockopt::set_tcp_nodelay(&socket, true);
        }
        let refused = counters.live.load(Ordering::Relaxed) >= self.connections_max;
        let kind = if refused { Kind::Refused } else { Kind::Served };
        if refused {
            let untold = counters.refusing.load(Ordering::Relaxed) >= beside_max(self.connections_max);
            if untold || !self.idlest_gives_way {
                counters.refused.fetch_add(1, Ordering::Relaxed);
                let limit = self.connections_max;
                limited!(warn, counters.quiet, quiet::OVER_LIMIT, [%peer, limit], "connection refused: as many as may be are served");
            }
            if untold {
                return;
            }
        }
        // One that does not turn gets connections only where all do not.
        let fewest = |thread: &&NetThread| {
            let is_stuck = thread.mailbox.pulse.is_stuck();
            (is_stuck, thread.live.load(Ordering::Relaxed))
        };
        let Some(thread) = self.threads.iter().min_by_key(fewest) else {
            return;
        };
        net_thread::count(counters, &thread.live, kind);
        let order = Order::Adopt(Newcomer {
            is_loopback: listener.is_loopback(&socket),
            socket,
            peer,
            kind,
            tls: listener.tls.clone(),
            port: listener.port,
        });
        if thread.mailbox.order(order).is_err() {
            // The thread has ended, or is that far behind: the connection closes with the order that cannot be given.
            net_thread::uncount(counters, &thread.live, kind);
            counters.refused.fetch_add(1, Ordering::Relaxed);
            let waiting = ORDERS_MAX;
            limited!(warn, counters.quiet, quiet::NOT_TAKEN, [%peer, waiting], "connection closed: every net thread is that far behind with new ones");
        }
    }
}

/// Who was accepted; a Unix socket's peer has no address.
fn peer(address: Option<SocketAddrAny>) -> RemoteAddr {
    RemoteAddr(address.and_then(|address| SocketAddr::try_from(address).ok()))
}

/// Connections that may be refused at a time beside as many as may be served; and as many again may linger.
pub(crate) fn beside_max(connections_max: u64) -> u64 {
    connections_max.saturating_mul(2).clamp(BESIDE_MIN, BESIDE_MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::connection::rig::{Nothing, options};
    use crate::raise_file_limit;
    use crate::session::{Front, Match, Received, Session, Turn};
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    /// Keeps its net thread with the first bytes, until the test lets go.
    #[derive(Clone)]
    struct Blocking {
        entered: SyncSender<()>,
        gate: Arc<Mutex<Receiver<()>>>,
    }

    impl<L> Session<L> for Blocking {
        fn receive(&mut self, _: &L, _: &mut Turn<'_>, input: &[u8]) -> Received<L> {
            self.entered.send(()).unwrap();
            let _ = self.gate.lock().unwrap().recv();
            Received::Served(input.len())
        }

        fn is_full(&self, _: usize) -> bool {
            false
        }

        fn refuse(&mut self, _: &mut Turn<'_>, _: &[u8], _: &str) {}
    }

    fn transport(front: Front<Nothing>) -> Transport {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), "server.listen").unwrap();
        let ports = Arc::new([Arc::new([front]) as _]);
        Transport::prepare(vec![listener], "net", options(), ports, Nothing).unwrap()
    }

    /// As on a machine that is busy: it has as long as the net threads.
    #[test]
    fn an_acceptor_that_ends_late_has_ended() {
        let mut transport = transport(Box::new(|_| Match::No));
        let late = || std::thread::sleep(ACCEPTOR_END * 4);
        transport.acceptor = Some(std::thread::spawn(late));
        assert!(transport.close(Duration::from_secs(60)).is_empty());
        let (end, ended) = sync_channel::<()>(1);
        let mut transport = self::transport(Box::new(|_| Match::No));
        transport.acceptor = Some(std::thread::spawn(move || {
            let _ = ended.recv();
        }));
        let left = transport.close(Duration::ZERO);
        assert!(left.contains(&"net-accept".to_owned()), "{left:?}");
        drop(end);
    }

    #[test]
    fn a_full_queue_of_orders_holds_up_neither_the_acceptor_nor_a_stop() {
        raise_file_limit();
        let ((entered, inside), (go, gate)) = (sync_channel(8), sync_channel::<()>(8));
        let gate = Arc::new(Mutex::new(gate));
        let session = Blocking { entered, gate };
        let mut transport = transport(Box::new(move |_| Match::Yes(Box::new(session.clone()))));
        transport.accept().unwrap();
        let mut first = TcpStream::connect(transport.local_addr()).unwrap();
        first.write_all(b"any").unwrap();
        inside.recv().unwrap();
        let (ours, _) = UnixStream::pair().unwrap();
        let mut waiting = 0;
        loop {
            net_thread::count(&transport.counters, &transport.threads[0].live, Kind::Refused);
            let order = Order::Adopt(Newcomer {
                socket: ours.try_clone().unwrap().into(),
                peer: RemoteAddr(None),
                kind: Kind::Refused,
                tls: None,
                port: 0,
                is_loopback: true,
            });
            if transport.threads[0].mailbox.order(order).is_err() {
                break;
            }
            waiting += 1;
        }
        assert_eq!(waiting, 4096);
        for _ in 0..3 {
            let mut further = TcpStream::connect(transport.local_addr()).unwrap();
            further.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            // It closes, by an end or by a reset, and does not hang.
            assert_eq!(further.read(&mut [0]).unwrap_or(0), 0);
        }
        // Each of them is counted, once it was closed.
        let counted = || transport.counters().refused.load(Ordering::Relaxed) == 3;
        assert!(millpond_threads::ends_by(
            Instant::now() + Duration::from_secs(60),
            counted
        ));
        assert_eq!(transport.close(Duration::ZERO), ["net-0"]);
        // It had its order among all the others, and carries it out when it comes back.
        drop(go);
        while inside.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
