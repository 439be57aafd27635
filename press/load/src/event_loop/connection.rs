//! One connection: its socket, what waits to be sent, what waits for an answer.
//!
//! It decides nothing and counts nothing. Its invariant: the requests on their way are `sent`, in the order in which they
//! were written, and their numbers begin at `base`.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};

use millpond_press_workload::Order;
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use crate::counting::Sent;
use crate::tls::Session;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// Not connected; a timer decides when it is tried again, if at all.
    Down,
    /// Waiting for its turn to connect.
    Queued,
    /// Since then.
    Connecting(u64),
    /// Made by the kernel, and not done with the handshake of TLS; connecting since then.
    Shaking(u64),
    Up,
    /// It has nothing left to do.
    Over,
}

pub(super) struct Connection<S> {
    /// What its protocol remembers of it.
    pub(super) state: S,
    pub(super) socket: Option<TcpStream>,
    pub(super) status: Status,
    /// The beginning of an answer that is not whole.
    pub(super) inbox: Vec<u8>,
    /// How many bytes the inbox needs before another look is worth it.
    pub(super) needs: usize,
    pub(super) outbox: Vec<u8>,
    /// What its bytes go through, where they are encrypted.
    pub(super) tls: Option<Box<Session>>,
    pub(super) out_at: usize,
    pub(super) sent: VecDeque<Sent>,
    /// The number of the first request in `sent`.
    pub(super) base: u32,
    /// Requests in `sent` that are not over.
    pub(super) outstanding: usize,
    /// Requests at the end of `sent` that are not stamped yet.
    pub(super) unstamped: usize,
    pub(super) order: Order,
    /// Requests left of a fixed number.
    pub(super) left: u64,
    /// Failures in a row.
    pub(super) failures: u32,
    /// Requests given up whose answers may still come.
    pub(super) given_up: u64,
    /// Whether the server refused the whole connection.
    pub(super) refused: bool,
    /// Whether nothing is left of its fixed number.
    pub(super) is_done: bool,
    /// Whether it stands in the ring of connections that can take a request.
    pub(super) in_ring: bool,
    /// Whether it stands in the list of those with something to flush.
    pub(super) is_dirty: bool,
    /// Since when it could take another request.
    pub(super) free_since: u64,
}

impl<S: Default> Connection<S> {
    pub(super) fn new(order: Order) -> Connection<S> {
        Connection {
            state: S::default(),
            socket: None,
            status: Status::Down,
            inbox: Vec::new(),
            needs: 0,
            outbox: Vec::new(),
            tls: None,
            out_at: 0,
            sent: VecDeque::new(),
            base: 1,
            outstanding: 0,
            unstamped: 0,
            order,
            left: 0,
            failures: 0,
            given_up: 0,
            refused: false,
            is_done: false,
            in_ring: false,
            is_dirty: false,
            free_since: 0,
        }
    }

    /// Begins to connect; the poller tells when that is done.
    pub(super) fn open(&mut self, to: SocketAddr, from: Option<IpAddr>, now: u64) -> io::Result<&TcpStream> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        if let Some(from) = from {
            let named = |error| {
                let why = format!("cannot send from {from}, which load.source_addresses names: {error}");
                io::Error::other(why)
            };
            socket.bind(&SocketAddr::new(from, 0).into()).map_err(named)?;
        }
        match socket.connect(&to.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        self.status = Status::Connecting(now);
        Ok(self.socket.insert(socket.into()))
    }

    /// Reads what has come, as far as `buffer` goes; nothing when there is nothing, 0 at the end of the connection.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(socket) = &mut self.socket else {
            return Ok(None);
        };
        match socket.read(buffer) {
            Ok(count) => Ok(Some(count)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes what waits, as far as the kernel takes it.
    pub(super) fn write(&mut self) -> io::Result<()> {
        let Some(socket) = &mut self.socket else {
            return Ok(());
        };
        let Some(tls) = &mut self.tls else {
            return send(socket, &mut self.outbox, &mut self.out_at);
        };
        tls.seal(&mut self.outbox)?;
        send(socket, &mut tls.sealed, &mut tls.sealed_at)
    }

    /// Whether the kernel has not taken everything.
    pub(super) fn has_unsent(&self) -> bool {
        !self.outbox.is_empty() || self.tls.as_ref().is_some_and(|tls| !tls.sealed.is_empty())
    }

    /// Marks everything unstamped as handed to the kernel now.
    #[inline]
    pub(super) fn stamp(&mut self, now: u64) {
        let first = self.sent.len() - self.unstamped.min(self.sent.len());
        for sent in self.sent.range_mut(first..) {
            sent.at = now;
        }
        self.unstamped = 0;
    }

    /// Takes the oldest request, for protocols that answer in order.
    #[inline]
    pub(super) fn answered_in_order(&mut self) -> Option<Sent> {
        let sent = self.sent.pop_front()?;
        self.base = self.base.wrapping_add(1);
        self.outstanding -= 1;
        Some(sent)
    }

    /// Takes the request of that number, if it is on its way.
    #[inline]
    pub(super) fn answered_by_number(&mut self, serial: u32) -> Option<Sent> {
        let at = serial.wrapping_sub(self.base) as usize;
        let sent = self.sent.get_mut(at).filter(|sent| !sent.over && sent.at != 0)?;
        sent.over = true;
        let taken = *sent;
        self.outstanding -= 1;
        self.drop_front();
        Some(taken)
    }

    /// Gives the oldest request up if it was sent before `before`.
    pub(super) fn give_up_before(&mut self, before: u64) -> Option<Sent> {
        let sent = self.sent.iter_mut().find(|sent| !sent.over)?;
        if sent.at == 0 || sent.at >= before {
            return None;
        }
        sent.over = true;
        let taken = *sent;
        self.outstanding -= 1;
        self.given_up += 1;
        self.drop_front();
        Some(taken)
    }

    fn drop_front(&mut self) {
        while self.sent.front().is_some_and(|sent| sent.over) {
            self.sent.pop_front();
            self.base = self.base.wrapping_add(1);
        }
    }

    /// Closes the socket and forgets what was under way; gives the requests that will have no answer.
    pub(super) fn close(&mut self) -> Vec<Sent> {
        let lost = self.sent.drain(..).filter(|sent| !sent.over).collect();
        (self.socket, self.tls, self.status) = (None, None, Status::Down);
        self.state = S::default();
        (self.inbox, self.outbox) = (Vec::new(), Vec::new());
        (self.base, self.needs, self.out_at) = (1, 0, 0);
        (self.outstanding, self.unstamped, self.given_up) = (0, 0, 0);
        lost
    }
}

/// Writes `bytes` from `at` on, as far as the kernel takes them.
fn send(socket: &mut TcpStream, bytes: &mut Vec<u8>, at: &mut usize) -> io::Result<()> {
    while *at < bytes.len() {
        match socket.write(&bytes[*at..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => *at += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.clear();
    *at = 0;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn with(requests: u32) -> Connection<()> {
        let mut connection = Connection::new(Order::new(1, 0, 10));
        for index in 0..requests {
            connection.sent.push_back(Sent {
                due: 0,
                eligible: 0,
                at: 0,
                index,
                over: false,
            });
            connection.outstanding += 1;
            connection.unstamped += 1;
        }
        connection
    }

    #[test]
    fn answers_in_any_order_find_their_requests_once() {
        let mut connection = with(4);
        assert!(connection.answered_by_number(1).is_none(), "before it was sent");
        connection.stamp(7);
        connection.base = u32::MAX - 1;
        for (serial, index) in [(0u32, 2), (u32::MAX - 1, 0), (u32::MAX, 1), (1, 3)] {
            assert_eq!(connection.answered_by_number(serial).unwrap().index, index);
            assert!(connection.answered_by_number(serial).is_none(), "twice");
        }
        assert_eq!(
            (connection.outstanding, connection.sent.len(), connection.base),
            (0, 0, 2)
        );
    }

    #[test]
    fn only_requests_that_were_handed_over_are_given_up() {
        let mut connection = with(2);
        assert!(connection.give_up_before(100).is_none());
        connection.stamp(50);
        assert!(connection.give_up_before(50).is_none());
        assert_eq!(connection.give_up_before(51).unwrap().index, 0);
        assert_eq!(
            (connection.outstanding, connection.given_up, connection.base),
            (1, 1, 2)
        );
        assert_eq!(connection.close().len(), 1);
    }
}
