//! A connection that this side opened: how it becomes open, what its thread sends on it, and its end.
//!
//! Its invariants: nothing is written before the kernel says that it is connected; its session hears of its end once.

use super::{After, Connection, Phase};
use crate::net_thread::{Buffers, Net};
use crate::session::Local;
use std::io;

impl<L: Local> Connection<L> {
    /// Whether it is connected, as far as the kernel has said; where connecting failed it is broken.
    pub(super) fn is_connected(&mut self, local: &L) -> bool {
        if !self.link.is_connecting {
            return true;
        }
        // The first event is of the end of connecting, good or bad.
        if !self.link.is_writable {
            return false;
        }
        self.link.is_connecting = false;
        match rustix::net::sockopt::socket_error(&self.link.socket) {
            Ok(Ok(())) => {
                if let Some(layer) = &mut self.link.layer {
                    layer.begin(&mut self.link.out);
                }
                self.note_open(local);
                true
            }
            Ok(Err(error)) | Err(error) => {
                self.link.error = Some(error);
                self.link.phase = Phase::Broken;
                false
            }
        }
    }

    /// Its session hears that it is open, once that is so: what its layer begins with has been said.
    pub(super) fn note_open(&mut self, local: &L) {
        let is_open = self.link.phase == Phase::Open && !self.link.is_connecting && !self.link.is_shaking();
        if self.link.is_opening && is_open {
            self.link.is_opening = false;
            self.session.opened(local);
        }
    }

    /// What becomes of one that is not connected.
    pub(super) fn unconnected(&self) -> After {
        match self.link.phase {
            Phase::Broken => After::End,
            _ => After::Wait,
        }
    }

    /// Takes what its thread sends; true where it is to be sent now.
    pub(crate) fn put(&mut self, bytes: &[u8], net: &Net, buffers: &mut Buffers) -> bool {
        let link = &mut self.link;
        if link.phase == Phase::Open && link.has_place_for(net, buffers, bytes.len()) {
            link.borrow_out(buffers);
            link.take(bytes, None);
        }
        !link.is_connecting || link.phase != Phase::Open
    }

    /// Its session hears that it is over.
    pub(crate) fn end_session(&mut self, local: &L) {
        let error = self.link.error.take().map(io::Error::from);
        let of_layer = || self.link.layer.as_ref()?.failure().map(io::Error::other);
        let error = error.or_else(of_layer);
        self.session.ended(local, error);
    }
}
