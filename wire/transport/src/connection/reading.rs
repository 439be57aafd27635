//! A connection's bytes on their way from the kernel to where they are served.
//!
//! It decides nothing about them. Its invariants: one turn reads once; only the beginning of an unfinished request is kept,
//! and room for much more than that is given back.

use super::{Connection, tls};
use crate::net_thread::{Net, Room};
use crate::service::Service;
use rustix::io::Errno;

/// Room that is kept beyond twice what lies in it.
const INPUT_SPARE_BYTES: usize = 64 << 10;

impl Connection {
    /// Reads once into the thread's buffer and serves from there; only an unfinished request is copied out.
    pub(super) fn read<S: Service>(&mut self, net: &Net<S>, room: &mut Room, budget: &mut usize) {
        let most = self.tls.as_ref().map_or(room.read.len(), |_| tls::READ_BYTES);
        let count = match rustix::io::read(&self.socket, &mut room.read[..most]) {
            Ok(0) => return self.tell_end(),
            Ok(count) => count,
            Err(Errno::AGAIN) => {
                self.flags.readable = false;
                self.flags.drained = true;
                return;
            }
            Err(Errno::INTR) => return,
            Err(_) => {
                self.flags.broken = true;
                return self.tell_gone();
            }
        };
        if count < most && !self.flags.hung_up {
            // The kernel tells of what comes after.
            self.flags.readable = false;
            self.flags.drained = true;
        }
        let bytes = &mut room.read[..count];
        if self.tls.is_some() {
            self.receive_tls(net, bytes);
            self.serve_input(net, &mut room.message, budget);
        } else if self.secure.is_some() {
            self.receive(net, bytes);
            self.serve_input(net, &mut room.message, budget);
        } else if self.input.is_empty() {
            let used = self.serve(net, bytes, &mut room.message, budget);
            self.input.extend_from_slice(&bytes[used..]);
        } else {
            self.make_room(count);
            self.input.extend_from_slice(bytes);
            self.serve_input(net, &mut room.message, budget);
        }
    }

    /// Serves what was read before and could not be served then.
    pub(super) fn serve_input<S: Service>(
        &mut self,
        net: &Net<S>,
        message: &mut Vec<u8>,
        budget: &mut usize,
    ) {
        if self.servable(net.options.in_flight_max) {
            let mut input = std::mem::take(&mut self.input);
            let used = self.serve(net, &input, message, budget);
            input.drain(..used);
            if input.capacity() > 2 * input.len() + INPUT_SPARE_BYTES {
                // What is left may be the beginning of a small request, and wait for long.
                input.shrink_to_fit();
            }
            if !input.is_empty() {
                self.input = input;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::rig::Rig;
    use super::*;
    use millpond_wire_frame::{Encoding, FrameKind, write_frame};
    use std::io::Write as _;

    #[test]
    fn room_for_a_large_request_is_given_back_with_a_byte_of_the_next_behind_it() {
        const LARGE: usize = 6 << 20;
        let (mut bytes, kind) = (Vec::new(), FrameKind::Oneway { method: "any" });
        write_frame(&mut bytes, Encoding::Msgpack, kind, &vec![0xc0; LARGE]).unwrap();
        // The first byte of the next.
        bytes.push(bytes[0]);
        let mut rig = Rig::connected();
        let mut held = 0;
        for piece in bytes.chunks(50_000) {
            rig.theirs.write_all(piece).unwrap();
            rig.turns(0);
            held = held.max(rig.connection.input.capacity());
        }
        assert!(held > LARGE, "the request was never held: {held} bytes");
        assert_eq!(rig.connection.input.len(), 1);
        let kept = rig.connection.input.capacity();
        assert!(kept <= 2 + INPUT_SPARE_BYTES, "one byte keeps {kept}");
    }
}
