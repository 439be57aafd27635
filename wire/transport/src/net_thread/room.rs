//! Room for answers when peers do not read theirs: what each connection of this thread keeps is counted, and the one that
//! keeps most is closed when all of them together keep too much.
//!
//! Its invariant: a connection whose turn sent everything costs this nothing; what a connection keeps is counted from the end of
//! its turn until it is gone.

use super::Loop;
use crate::mailbox::Key;
use crate::service::Service;
use crate::totals::{Level, NoPlace};

impl<S: Service> Loop<S> {
    /// Counts what a connection keeps after its turn, in the place of what was counted for it.
    pub(super) fn recount(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let (before, keeps) = connection.recount_kept();
        if before.is_nothing() && keeps == 0 {
            return;
        }
        let totals = self.net.mailbox.totals();
        self.keepers.change(slot, before.kept, keeps);
        totals.add(keeps);
        totals.take(before.kept + before.mailed);
        self.tell_largest();
        if totals.level() > Level::Low {
            self.make_room((keeps > before.kept).then_some(slot));
        }
    }

    /// A connection that is gone keeps nothing.
    pub(super) fn uncount(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        let before = connection.forget_kept();
        if !before.is_nothing() {
            self.keepers.change(slot, before.kept, 0);
            self.net.mailbox.totals().take(before.kept + before.mailed);
            self.tell_largest();
        }
    }

    fn tell_largest(&self) {
        let largest = self.keepers.largest().map_or(0, |(bytes, _)| bytes);
        let mailbox = &self.net.mailbox;
        mailbox.totals().tell_largest(mailbox.thread(), largest);
    }

    /// Closes connections, that which keeps most first, until little enough is kept, or another thread has a larger one: that
    /// thread is asked. Where more is kept than may be, `grown`, which came to keep more, does not wait for it.
    fn make_room(&mut self, grown: Option<usize>) {
        loop {
            let totals = self.net.mailbox.totals();
            let level = totals.level();
            let own = self.keepers.largest();
            if level == Level::Low {
                return;
            }
            let mut gives_way = own.map(|(_, slot)| slot);
            if let Some(thread) = totals.larger(own.map_or(0, |(bytes, _)| bytes)) {
                totals.ask(thread);
                gives_way = grown.filter(|slot| level == Level::Over && self.connections.contains(*slot));
            }
            let Some(slot) = gives_way else { return };
            if let Some(connection) = self.connections.get_mut(slot) {
                connection.give_way(&self.net);
            }
            self.forget(slot);
        }
    }

    /// Another thread has asked for room.
    pub(super) fn make_room_for_others(&mut self) {
        let mailbox = &self.net.mailbox;
        mailbox.totals().looks(mailbox.thread());
        self.make_room(None);
    }

    /// An answer found no place in the mailbox.
    pub(super) fn give_up(&mut self, answer: &NoPlace) {
        let Key { slot, .. } = answer.key;
        let found = self.connections.get_mut(slot);
        if let Some(connection) = found.filter(|found| found.key() == answer.key) {
            connection.miss_answer(&self.net, answer.bytes);
            self.forget(slot);
        }
    }
}
