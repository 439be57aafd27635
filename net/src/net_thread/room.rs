//! The bound of all write buffers: each connection's is counted, and the largest is closed when all of them hold too much.
//!
//! Its invariant: a connection whose turn sent everything costs nothing here; an unsent answer is counted from the end of its
//! turn until its connection is gone.

use super::Loop;
use crate::mailbox::Key;
use crate::session::Local;
use crate::totals::Level;

impl<L: Local> Loop<L> {
    /// Counts what a connection keeps after its turn, in the place of what was counted for it.
    pub(super) fn recount(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let (before, keeps) = connection.link.recount_kept();
        if before.is_nothing() && keeps == 0 {
            return;
        }
        let totals = &self.net.mailbox.totals;
        self.keepers.change(slot, before.kept, keeps);
        totals.change(before.kept + before.mailed, keeps);
        self.tell_kept();
        let level = totals.level();
        self.wants_room |= level > Level::Low;
        if level == Level::Over {
            self.make_room(Level::High, (keeps > before.kept).then_some(slot));
        }
    }

    /// A connection that is gone keeps nothing.
    pub(super) fn uncount(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let before = std::mem::take(&mut connection.link.kept);
        if !before.is_nothing() {
            self.keepers.change(slot, before.kept, 0);
            self.net.mailbox.totals.take(before.kept + before.mailed);
            self.tell_kept();
        }
    }

    fn tell_kept(&self) {
        let mailbox = &self.net.mailbox;
        mailbox.totals.tell_kept(mailbox.thread, &self.keepers);
    }

    /// Closes the connection with the largest buffer, and the next, until the level is `until`. It stops early
    /// - where another thread has a larger one: that thread is asked to close it;
    /// - where closing does not help, because the bytes lie in mailboxes.
    ///
    /// If the level is `Over` then, it closes `grown`, the connection whose buffer just grew.
    fn make_room(&mut self, until: Level, grown: Option<usize>) {
        loop {
            let totals = &self.net.mailbox.totals;
            let level = totals.level();
            if level <= until {
                return;
            }
            let (bytes, own) = self.keepers.largest().unzip();
            let bytes = bytes.unwrap_or_default();
            let larger = totals.larger(bytes);
            let helps = totals.helps(level, larger.map_or(bytes, |(bytes, _)| bytes));
            let gives_way = match larger {
                None if helps => own,
                _ => grown.filter(|slot| level == Level::Over && self.connections.contains(*slot)),
            };
            if let Some((_, thread)) = larger.filter(|_| helps) {
                totals.ask(thread);
            }
            let Some(slot) = gives_way else { return };
            if let Some(connection) = self.connections.get_mut(slot) {
                connection.link.give_way(&self.net, None);
            }
            self.forget(slot);
        }
    }

    /// Makes room if a turn or another thread has asked for it. At the end of a turn, buffers hold only what peers do not read.
    pub(super) fn make_wanted_room(&mut self) {
        if std::mem::take(&mut self.wants_room) {
            let mailbox = &self.net.mailbox;
            mailbox.totals.looks(mailbox.thread);
            self.make_room(Level::Low, None);
        }
    }

    /// An answer found no place in the mailbox.
    pub(super) fn give_up(&mut self, key: Key, bytes: usize) {
        let found = self.connections.get_mut(key.slot);
        if let Some(connection) = found.filter(|found| found.link.key == key) {
            connection.link.give_way(&self.net, Some(bytes));
            self.forget(key.slot);
        }
    }
}
