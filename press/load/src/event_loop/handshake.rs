//! Connections whose bytes go through TLS: the handshake before the first request, and what is read after it.
//!
//! Its invariant: a connection counts as up when requests can be sent, hence after its handshake.

use millpond_press_recorder::ErrorKind;

use super::ClientThread;
use super::connection::Status;
use crate::protocol::Protocol;

impl<P: Protocol> ClientThread<P> {
    /// Begins the handshake of a connection that the kernel has made.
    pub(super) fn shake_hands(&mut self, number: usize, since: u64) {
        let plan = self.plan.clone();
        let Some(tls) = &plan.tls else { return };
        let connection = &mut self.connections[number];
        connection.status = Status::Shaking(since);
        match tls.begin() {
            Ok(session) => connection.tls = Some(Box::new(session)),
            Err(error) => return self.not_shaken(number, &error.to_string()),
        }
        self.shake_on(number);
    }

    /// Sends what the handshake has to say, as far as the kernel takes it.
    pub(super) fn shake_on(&mut self, number: usize) {
        if let Err(error) = self.connections[number].write() {
            self.not_shaken(number, &error.to_string());
        }
    }

    pub(super) fn not_shaken(&mut self, number: usize, why: &str) {
        self.connecting -= 1;
        self.not_connected(number, &format!("TLS: {why}"));
        self.connect_queued();
    }

    /// Takes what was read from a socket, through TLS where that is spoken; no bytes are the end. False when the connection
    /// has gone.
    pub(super) fn take_read(&mut self, number: usize, fresh: &[u8], now: u64, scratch: &mut Vec<u8>) -> bool {
        let connection = &mut self.connections[number];
        let was_shaking = matches!(connection.status, Status::Shaking(_));
        let Some(session) = &mut connection.tls else {
            return self.take_bytes(number, fresh, now, scratch);
        };
        if fresh.is_empty() && was_shaking {
            self.not_shaken(number, "the server closed the connection in the handshake");
            return false;
        }
        if fresh.is_empty() {
            return self.take_bytes(number, fresh, now, scratch);
        }
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let received = session.receive(fresh, &mut plain);
        let is_shaking = session.is_shaking();
        let goes_on = match received {
            Err(why) if was_shaking => {
                // The server is told why.
                let _ = connection.write();
                self.not_shaken(number, &why);
                false
            }
            Err(why) => {
                self.lose(number, ErrorKind::Garbage, &format!("TLS: {why}"), now);
                false
            }
            Ok(goes_on) => {
                if was_shaking {
                    self.shake_on(number);
                }
                if was_shaking && !is_shaking && matches!(self.connections[number].status, Status::Shaking(_))
                {
                    self.connecting -= 1;
                    self.connected(number, now);
                    self.connect_queued();
                }
                let is_up = self.connections[number].tls.is_some();
                is_up
                    && (plain.is_empty() || self.take_bytes(number, &plain, now, scratch))
                    && (goes_on || self.take_read(number, &[], now, scratch))
            }
        };
        self.plain = plain;
        goes_on
    }
}
