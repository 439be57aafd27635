//! A connection's answers on their way to the kernel.
//! Its invariants: it never waits; what the kernel does not take stays where it is, in its order; and nothing leaves a TLS
//! connection that is not encrypted yet.

use super::Connection;
use rustix::io::Errno;
use rustix::net::SendFlags;

impl Connection {
    /// Writes what may leave, without waiting; true if any byte did.
    pub(super) fn flush(&mut self) -> bool {
        let (mut sent, end) = (false, self.sendable());
        while self.flags.writable && self.sent < end {
            match rustix::net::send(&self.socket, &self.out[self.sent..end], SendFlags::NOSIGNAL) {
                Ok(count) => {
                    self.sent += count;
                    sent = true;
                }
                Err(Errno::AGAIN) => self.flags.writable = false,
                Err(Errno::INTR) => {}
                Err(_) => {
                    self.flags.broken = true;
                    return sent;
                }
            }
        }
        if self.sent == self.out.len() {
            self.forget_sealed(self.sent);
            self.sent = 0;
            self.out.clear();
        }
        sent
    }
}
