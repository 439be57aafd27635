//! A server that runs: its threads from the first to the last.
//!
//! Its invariant: when a `Running` is gone, so are its threads, and the truth is on disk.

use crate::acceptor::{Acceptor, listen};
use crate::arguments::Arguments;
use crate::behaviour::Maker;
use crate::clock::Clock;
use crate::connections::Connections;
use crate::error::Error;
use crate::event_loop::{Door, EventLoop};
use crate::kind::Kind;
use crate::stop::Stop;
use crate::system::{EndSignals, Wake, raise_open_files};
use crate::truth::Truth;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

const BACKLOG: u16 = 4_096;
/// The shortest queue of connections that the system keeps.
const BACKLOG_SHORT: u16 = 1;

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
/// Call it before any other thread is started: the signals must reach this thread alone.
pub fn run(arguments: Arguments) -> Result<(), Error> {
    // Before any thread is started: they all inherit it.
    let signals = EndSignals::block()?;
    raise_open_files();
    let running = start(arguments)?;
    let mut out = io::stdout();
    writeln!(out, "practice server listens on {}", running.address())?;
    out.flush()?;
    signals.wait()?;
    running.finish()
}

/// Starts a server in this process and returns once it listens.
pub fn start(arguments: Arguments) -> Result<Running, Error> {
    let kind = Kind::of(&arguments)?;
    let pause = (kind == Kind::AcceptPause).then_some(arguments.accept_every);
    let backlog = arguments
        .backlog
        .unwrap_or(if pause.is_some() { BACKLOG_SHORT } else { BACKLOG });
    let listener = listen(arguments.listen, backlog)?;
    let mut running = Running {
        address: listener.local_addr()?,
        stop: Arc::default(),
        wakes: Vec::new(),
        threads: Vec::new(),
        truth: arguments.truth.clone().map(Truth::create).transpose()?,
    };
    let doors = running.serve(&arguments, kind)?;
    running.accept(listener, doors, pause)?;
    Ok(running)
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the server and tells whether it ran and ended well; dropping it only ends it.
    pub fn finish(mut self) -> Result<(), Error> {
        self.end()
    }

    /// Starts the serving threads.
    fn serve(&mut self, arguments: &Arguments, kind: Kind) -> Result<Vec<Arc<Door>>, Error> {
        let request_bytes = if kind.has_requests() {
            arguments.request_bytes as usize
        } else {
            1
        };
        // One beyond the queue must be read for its connection to be closed over it.
        let requests_max = match kind {
            Kind::Rate(_) => arguments.queue_max as usize + 1,
            _ => 1,
        };
        let clock = Clock::new();
        let mut maker = Maker::new(kind, arguments);
        let mut doors = Vec::new();
        for _ in 0..arguments.threads {
            let door = Arc::new(Door::new()?);
            let part = self.truth.as_mut().map(Truth::part);
            let behaviour = maker.make(&door.wake, part)?;
            let stop = Arc::clone(&self.stop);
            let connections = Connections::new(request_bytes, requests_max, clock, Arc::clone(&stop));
            let event_loop = EventLoop::new(Arc::clone(&door), connections, behaviour, stop)?;
            self.wakes.push(Arc::clone(&door.wake));
            doors.push(door);
            self.spawn("practice-serve", || event_loop.run())?;
        }
        Ok(doors)
    }

    fn accept(
        &mut self,
        listener: TcpListener,
        doors: Vec<Arc<Door>>,
        pause: Option<std::time::Duration>,
    ) -> Result<(), Error> {
        let wake = Arc::new(Wake::new()?);
        self.wakes.push(Arc::clone(&wake));
        let acceptor = Acceptor {
            listener,
            doors,
            wake,
            pause,
            stop: Arc::clone(&self.stop),
        };
        self.spawn("practice-accept", || acceptor.run())
    }

    fn spawn(
        &mut self,
        name: &str,
        body: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<(), Error> {
        let thread = Builder::new().name(name.to_owned()).spawn(body)?;
        self.threads.push(thread);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        self.stop.tell();
        for wake in &self.wakes {
            wake.wake();
        }
        let mut ended = Ok(());
        for thread in self.threads.drain(..) {
            let result = thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
            ended = ended.and(result);
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
