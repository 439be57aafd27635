//! Plain echo: bytes go back as they came, at once.
//!
//! Its invariant: it holds nothing back.

use super::Behaviour;
use crate::connections::{Connections, Id};

pub(crate) struct Plain;

impl Behaviour for Plain {
    fn arrived(&mut self, id: Id, requests: &[u8], _at_ns: u64, connections: &mut Connections) {
        connections.send(id, requests);
    }
}
