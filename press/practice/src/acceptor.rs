//! The acceptor: a thread that hands every connection to the next serving thread in turn.
//!
//! Its invariant: it reads and writes nothing, and sleeps where there is nobody to accept.

use crate::error::Error;
use crate::event_loop::Door;
use crate::stop::Stop;
use crate::system::{Poller, Wake};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

/// The longest wait: nothing depends on it.
const WAIT_NS_MAX: u64 = 1_000_000_000;
/// What a system that is out of descriptors is given to find some.
const REFUSED_PAUSE: Duration = Duration::from_millis(10);

/// Listens, with so many connections kept ready to be accepted.
pub(crate) fn listen(address: SocketAddr, backlog: u16) -> Result<TcpListener, Error> {
    let bound = || -> io::Result<TcpListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(i32::from(backlog))?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    bound().map_err(|source| Error::Listen { address, source })
}

/// The accepting thread's all.
pub(crate) struct Acceptor {
    pub(crate) listener: TcpListener,
    pub(crate) doors: Vec<Arc<Door>>,
    pub(crate) wake: Arc<Wake>,
    /// How long one accepted connection is after the other.
    pub(crate) pause: Option<Duration>,
    pub(crate) stop: Arc<Stop>,
}

impl Acceptor {
    /// Accepts until the server is to end.
    pub(crate) fn run(self) -> io::Result<()> {
        let mut poller = Poller::new()?;
        poller.add(&self.listener, 0)?;
        poller.add(&*self.wake, 1)?;
        let mut next = self.doors.iter().cycle();
        while !self.stop.told() {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if let Some(door) = next.next() {
                        door.leave(stream);
                    }
                    if let Some(pause) = self.pause {
                        self.stop.sleep(pause);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    poller.wait(WAIT_NS_MAX)?;
                }
                Err(_) => self.stop.sleep(REFUSED_PAUSE),
            }
        }
        Ok(())
    }
}
