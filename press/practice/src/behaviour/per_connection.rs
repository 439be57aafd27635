//! What a behaviour remembers of each connection.
//!
//! Its invariant: a connection begins with the default, whatever stood in its slot before.

use crate::connections::Id;

/// One value a connection.
pub(crate) struct PerConnection<T>(Vec<(u32, T)>);

impl<T: Default> PerConnection<T> {
    pub(crate) fn new() -> PerConnection<T> {
        PerConnection(Vec::new())
    }

    /// The value of a connection.
    pub(crate) fn of(&mut self, id: Id) -> &mut T {
        let slot = id.slot as usize;
        if self.0.len() <= slot {
            self.0.resize_with(slot + 1, Default::default);
        }
        let (serial, value) = &mut self.0[slot];
        if *serial != id.serial {
            *serial = id.serial;
            *value = T::default();
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_connection_in_an_old_slot_begins_anew() {
        let mut values: PerConnection<u32> = PerConnection::new();
        let (old, new) = (Id { slot: 3, serial: 1 }, Id { slot: 3, serial: 2 });
        *values.of(old) = 9;
        assert_eq!(*values.of(old), 9);
        assert_eq!(*values.of(new), 0);
        assert_eq!(*values.of(Id { slot: 0, serial: 3 }), 0);
    }
}
