//! A connection's bytes on their way from the kernel to where they are served.
//!
//! It decides nothing about them. Its invariants: one turn reads once; only a partial request is kept, and capacity far beyond
//! it is given back.

use super::{After, Connection, Phase};
use crate::layer::Opened;
use crate::net_thread::{Buffers, Net};
use rustix::io::Errno;

/// Capacity that is kept beyond twice the bytes in it.
const INPUT_SPARE_BYTES: usize = 64 << 10;

impl<L> Connection<L> {
    /// Reads once into the thread's buffer and serves from there; only a partial request is copied out.
    pub(super) fn read(&mut self, local: &L, net: &Net, buffers: &mut Buffers) {
        let layer = self.link.layer.as_ref();
        let most = layer.map_or(buffers.read.len(), |layer| {
            buffers.read.len().min(layer.read_bytes_max())
        });
        let count = match rustix::io::read(&self.link.socket, &mut buffers.read[..most]) {
            Ok(0) => return self.tell_end(),
            Ok(count) => count,
            Err(Errno::AGAIN) => {
                self.is_readable = false;
                self.is_drained = true;
                return;
            }
            Err(Errno::INTR) => return,
            Err(_) => {
                self.link.phase = Phase::Broken;
                return self.tell_gone();
            }
        };
        if count < most && !self.has_hung_up {
            // An event will come for what follows.
            self.is_readable = false;
            self.is_drained = true;
        }
        let bytes = &mut buffers.read[..count];
        if self.link.layer.is_some() {
            self.open(bytes);
        } else if self.input.is_empty() {
            self.link.waits_since = None;
            let used = self.serve(local, net, bytes, &mut buffers.scratch);
            return self.keep(&mut bytes[used..]);
        } else {
            self.reserve(count);
            self.input.extend_from_slice(bytes);
        }
        self.serve_input(local, net, buffers);
    }

    /// Keeps what was not served; behind the message that has brought a layer, it is what that layer opens.
    fn keep(&mut self, rest: &mut [u8]) {
        if std::mem::take(&mut self.link.has_new_layer) {
            self.open(rest);
        } else {
            self.input.extend_from_slice(rest);
        }
    }

    /// Takes sealed bytes; the input grows by what they hold.
    fn open(&mut self, bytes: &mut [u8]) {
        self.reserve(bytes.len());
        let link = &mut self.link;
        let Some(layer) = &mut link.layer else { return };
        match layer.open(bytes, &mut self.input, &mut link.out) {
            Opened::Open => {}
            // It is said of one direction alone (RFC 8446, 6.1).
            Opened::Ended if self.has_ended => {}
            Opened::Ended => self.tell_end(),
            Opened::Failed => {
                link.enter(Phase::Draining);
                self.input = Vec::new();
            }
        }
    }

    /// Serves what was read before and could not be served then.
    pub(super) fn serve_input(&mut self, local: &L, net: &Net, buffers: &mut Buffers) {
        if self.link.budget == 0 || !self.servable() {
            return;
        }
        let mut input = std::mem::take(&mut self.input);
        let used = self.serve(local, net, &input, &mut buffers.scratch);
        if std::mem::take(&mut self.link.has_new_layer) {
            return self.open(&mut input[used..]);
        }
        input.drain(..used);
        if input.capacity() > 2 * input.len() + INPUT_SPARE_BYTES {
            // What is left may be the beginning of a small request, and wait for long.
            input.shrink_to_fit();
        }
        if !input.is_empty() {
            self.input = input;
        }
    }

    /// Reads on, keeping nothing, as long as the peer sends.
    pub(super) fn discard(&mut self, buffers: &mut Buffers) -> After {
        match rustix::io::read(&self.link.socket, buffers.read.as_mut_slice()) {
            Ok(1..) => {
                self.is_due = true;
                After::Again
            }
            Err(Errno::AGAIN | Errno::INTR) => After::Wait,
            Ok(0) | Err(_) => After::End,
        }
    }

    /// The peer has sent its last byte.
    fn tell_end(&mut self) {
        self.has_ended = true;
        self.session.give_up();
        if self.session.has_last_word() {
            self.tell_gone();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::rig::{ONEWAY, Rig, message};
    use super::*;
    use std::io::Write as _;

    #[test]
    fn room_for_a_large_request_is_given_back_with_a_byte_of_the_next_behind_it() {
        const LARGE: usize = 6 << 20;
        let mut bytes = message(ONEWAY, &vec![0xc0; LARGE]);
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
