//! Room for answers when peers do not read theirs: what each connection of this thread keeps is counted, and the one that
//! keeps most is closed when all of them together keep too much.
//!
//! Its invariant: a connection whose turn sent everything costs this nothing; what a connection keeps is counted from the end of
//! its turn until it is gone.

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

    /// Closes connections, that which keeps most first, until no more is kept than `until` says, another thread has a larger one
    /// (that thread is asked), or closing would not help. Where more is kept than may be, and another thread must free the memory or
    /// nobody can, `grown`, the connection that just came to keep more, is closed at once.
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

    /// Makes room where a turn or another thread has asked for it: by now everything that could leave has left, and only what
    /// its peer does not read is kept.
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
