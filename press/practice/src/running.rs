//! A server that runs: its threads from the first to the last.
//!
//! Its invariant: when a `Running` is gone, so are its threads, and the truth is on disk.

use crate::arguments::Arguments;
use crate::behaviour::{Behaviour, Maker};
use crate::connections::Connections;
use crate::error::Error;
use crate::event_loop::{EventLoop, WAIT_NS_MAX};
use crate::kind::Kind;
use crate::poller::{Poller, Wake};
use crate::truth::Truth;
use rustix::event::epoll::EventFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, Instant};

const BACKLOG: u16 = 4_096;
/// The shortest queue of connections that the system keeps.
const BACKLOG_SHORT: u16 = 1;
/// So many connections wait for a serving thread that does not turn; the acceptor waits with the next.
const ARRIVALS_MAX: usize = 4_096;
/// What a system that is out of descriptors is given to find some.
const REFUSED_PAUSE: Duration = Duration::from_millis(10);

/// Whether the server is to end; its threads are woken and unparked once it is.
#[derive(Default)]
pub(crate) struct Stop(AtomicBool);

impl Stop {
    pub(crate) fn is_told(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Sleeps that long, less if the server is to end.
    pub(crate) fn sleep(&self, length: Duration) {
        let until = Instant::now() + length;
        while !self.is_told() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::park_timeout(left);
        }
    }
}

/// A practice server that serves until this is dropped.
pub struct Running {
    address: SocketAddr,
    stop: Arc<Stop>,
    wakes: Vec<Arc<Wake>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// Written once, at the end.
    truth: Option<Truth>,
}

/// Serves until SIGTERM or SIGINT comes; says on standard output where it listens.
///
/// # Errors
/// It cannot listen, or a file or thread cannot be made.
pub fn run(arguments: Arguments) -> Result<(), Error> {
    use tokio::signal::unix::{SignalKind, signal};
    raise_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let running = start(arguments)?;
        let mut out = io::stdout();
        writeln!(out, "practice server listens on {}", running.address())?;
        out.flush()?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        running.finish()
    })
}

/// Raises the soft limit of open files to the hard one; where that is refused, fewer connections are taken.
fn raise_open_files() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = maximum;
    let _refused = setrlimit(Resource::Nofile, Rlimit { current, maximum });
}

/// Starts a server in this process and returns once it listens.
///
/// # Errors
/// It cannot listen, or a file or thread cannot be made.
pub fn start(arguments: Arguments) -> Result<Running, Error> {
    let kind = Kind::of(&arguments)?;
    let pause = (kind == Kind::AcceptPause).then_some(arguments.accept_every);
    let backlog = match pause {
        Some(_) => BACKLOG_SHORT,
        None => BACKLOG,
    };
    let address = arguments.listen;
    let listener = listen(address, arguments.backlog.unwrap_or(backlog))
        .map_err(|source| Error::Listen { address, source })?;
    let mut running = Running {
        address: listener.local_addr()?,
        stop: Arc::default(),
        wakes: Vec::new(),
        threads: Vec::new(),
        truth: arguments.truth.clone().map(Truth::create).transpose()?,
    };
    let loops = running.serve(&arguments, kind)?;
    let acceptor = Acceptor {
        listener,
        loops,
        wake: running.wake()?,
        pause,
        stop: Arc::clone(&running.stop),
    };
    running.spawn("practice-accept", || acceptor.run())?;
    Ok(running)
}

/// Listens, with so many connections kept ready to be accepted.
fn listen(address: SocketAddr, backlog: u16) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::from(backlog))?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the server and tells whether it ran and ended well; dropping it only ends it.
    ///
    /// # Errors
    /// A thread ended early, or the truth cannot be written.
    pub fn finish(mut self) -> Result<(), Error> {
        self.end()
    }

    /// Starts the serving threads, and gives the ways to hand them connections.
    fn serve(&mut self, arguments: &Arguments, kind: Kind) -> Result<Vec<Door>, Error> {
        let request_bytes = match kind.has_requests() {
            true => arguments.request_bytes as usize,
            false => 1,
        };
        // One beyond the queue must be read for its connection to be closed over it.
        let requests_max = match kind {
            Kind::Rate(_) => arguments.queue_max as usize + 1,
            _ => 1,
        };
        let origin = Instant::now();
        let mut maker = Maker::new(kind, arguments);
        let mut doors = Vec::new();
        for _ in 0..arguments.threads {
            let (sender, arrivals) = sync_channel(ARRIVALS_MAX);
            let wake = self.wake()?;
            let behaviour: Box<dyn Behaviour> = maker.make(&wake, self.truth.as_mut().map(Truth::part))?;
            let event_loop = EventLoop {
                arrivals,
                wake: Arc::clone(&wake),
                connections: Connections::new(request_bytes, requests_max, origin, &self.stop)?,
                behaviour,
            };
            doors.push((sender, wake));
            self.spawn("practice-serve", || event_loop.run())?;
        }
        Ok(doors)
    }

    /// A wake-up that comes when the server is to end, and whenever else it is told.
    fn wake(&mut self) -> io::Result<Arc<Wake>> {
        let wake = Arc::new(Wake::new()?);
        self.wakes.push(Arc::clone(&wake));
        Ok(wake)
    }

    fn spawn(
        &mut self,
        name: &str,
        body: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        self.threads
            .push(Builder::new().name(name.to_owned()).spawn(body)?);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        self.stop.0.store(true, Ordering::Release);
        self.wakes.iter().for_each(|wake| wake.wake());
        self.threads.iter().for_each(|thread| thread.thread().unpark());
        let mut ended = Ok(());
        for thread in self.threads.drain(..) {
            let panicked = |_| Err(io::Error::other("a thread panicked"));
            ended = ended.and(thread.join().unwrap_or_else(panicked));
        }
        if let Some(truth) = self.truth.take() {
            truth.write()?;
        }
        Ok(ended?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("practice server: {error}");
        }
    }
}

/// The way to hand a serving thread its connections.
type Door = (SyncSender<TcpStream>, Arc<Wake>);

/// The thread that hands every connection to the next serving thread in turn, and sleeps where there is nobody to accept.
struct Acceptor {
    listener: TcpListener,
    loops: Vec<Door>,
    wake: Arc<Wake>,
    /// How long one accepted connection is after the other.
    pause: Option<Duration>,
    stop: Arc<Stop>,
}

impl Acceptor {
    /// Accepts until the server is to end.
    fn run(self) -> io::Result<()> {
        let poller = Poller::new()?;
        poller.add(&self.listener, 0, EventFlags::IN)?;
        poller.add(&*self.wake, 1, EventFlags::IN)?;
        let mut next = self.loops.iter().cycle();
        let mut events = Vec::new();
        while !self.stop.is_told() {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if let Some((arrivals, wake)) = next.next() {
                        // A thread that has ended is told of when the server ends.
                        let _ended = arrivals.send(stream);
                        wake.wake();
                    }
                    self.pause.into_iter().for_each(|pause| self.stop.sleep(pause));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    poller.wait(WAIT_NS_MAX, &mut events)?
                }
                Err(_) => self.stop.sleep(REFUSED_PAUSE),
            }
        }
        Ok(())
    }
}
