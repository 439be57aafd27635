//! What all connections of a transport hold together of answers and pushes, and which of them gives way when that is too much.
//!
//! Bytes are counted while they lie in a mailbox, and while a connection keeps them because its peer does not read; what
//! leaves in the turn in which it was made is counted nowhere. Its invariant: past the bound no byte is kept for long: the
//! connection that keeps most is closed before it is reached, by its own net thread, and what would pass it takes its own
//! connection with it.

use crate::Counters;
use crate::mailbox::Mailbox;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// A connection that keeps less is not closed while most of what is counted is on its way to peers that read.
const SPARED_BYTES: usize = 256 << 10;

/// The bounds of one transport, and where its net threads stand.
#[derive(Debug)]
pub(crate) struct Totals {
    pub(crate) counters: Arc<Counters>,
    pub(crate) write_bytes_max: usize,
    /// The configuration key of that.
    pub(crate) write_bytes_key: &'static str,
    threads: Vec<Share>,
}

/// What the other net threads see of one.
#[derive(Debug, Default)]
struct Share {
    /// Bytes of the connection on it that keeps most.
    largest: AtomicUsize,
    /// Bytes of all connections on it.
    kept: AtomicUsize,
    /// It was asked to make room, and has not looked yet.
    asked: AtomicBool,
    mailbox: OnceLock<Weak<Mailbox>>,
}

impl Share {
    /// Whether room can be had of it: a thread that has ended or does not turn closes nothing.
    fn turns(&self) -> bool {
        let mailbox = self.mailbox.get().and_then(Weak::upgrade);
        mailbox.is_some_and(|mailbox| !mailbox.pulse.is_stuck())
    }
}

/// How much is held, beside what may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// There is room.
    Low,
    /// Little is left: the connection that keeps most is closed.
    High,
    /// More than may be.
    Over,
}

impl Totals {
    pub(crate) fn new(
        counters: Arc<Counters>,
        threads: usize,
        write_bytes_max: usize,
        write_bytes_key: &'static str,
    ) -> Totals {
        Totals {
            counters,
            write_bytes_max,
            write_bytes_key,
            threads: std::iter::repeat_with(Share::default).take(threads).collect(),
        }
    }

    /// Where the net thread of that number is reached.
    pub(crate) fn introduce(&self, thread: usize, mailbox: &Arc<Mailbox>) {
        if let Some(share) = self.threads.get(thread) {
            let _ = share.mailbox.set(Arc::downgrade(mailbox));
        }
    }

    /// Counts bytes.
    pub(crate) fn add(&self, bytes: usize) -> Level {
        let before = self
            .counters
            .write_buffer_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
        self.level_of(before.saturating_add(bytes as u64))
    }

    /// Counts them out again.
    pub(crate) fn take(&self, bytes: usize) {
        self.counters
            .write_buffer_bytes
            .fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes in the place of others. At no moment are both counted: another thread would close a connection for that.
    pub(crate) fn change(&self, before: usize, bytes: usize) {
        match bytes.checked_sub(before) {
            Some(more) => {
                self.add(more);
            }
            None => self.take(before - bytes),
        }
    }

    pub(crate) fn level(&self) -> Level {
        self.level_of(self.counters.write_buffer_bytes.load(Ordering::Relaxed))
    }

    /// The last eighth is what comes while room is being made.
    fn level_of(&self, bytes: u64) -> Level {
        match bytes {
            _ if bytes > self.most_at(Level::High) => Level::Over,
            _ if bytes > self.most_at(Level::Low) => Level::High,
            _ => Level::Low,
        }
    }

    fn most_at(&self, level: Level) -> u64 {
        let most = self.write_bytes_max as u64;
        match level {
            Level::Low => most - most / 8,
            Level::High | Level::Over => most,
        }
    }

    /// Says how much the connections of this thread keep.
    pub(crate) fn tell_kept(&self, thread: usize, keepers: &Keepers) {
        if let Some(share) = self.threads.get(thread) {
            let largest = keepers.largest().map_or(0, |(bytes, _)| bytes);
            share.largest.store(largest, Ordering::Relaxed);
            share.kept.store(keepers.bytes, Ordering::Relaxed);
        }
    }

    /// The thread whose largest connection keeps most, and how much, if that is more than `bytes`.
    pub(crate) fn larger(&self, bytes: usize) -> Option<(usize, usize)> {
        let shares = self.threads.iter().zip(0..).filter(|(share, _)| share.turns());
        let largest = shares
            .map(|(share, thread)| (share.largest.load(Ordering::Relaxed), thread))
            .max()?;
        (largest.0 > bytes).then_some(largest)
    }

    /// Whether it helps to close the connection that keeps most, which is so many bytes. What lies in mailboxes, or leaves with
    /// its connection's next turn, is counted too, and no closing makes that less.
    pub(crate) fn helps(&self, level: Level, bytes: usize) -> bool {
        let shares = self.threads.iter().filter(|share| share.turns());
        let kept: usize = shares.map(|share| share.kept.load(Ordering::Relaxed)).sum();
        let is_spared = level < Level::Over && bytes < SPARED_BYTES && kept < self.write_bytes_max / 2;
        let most = match level {
            Level::Over => self.most_at(Level::High),
            _ => self.most_at(Level::Low),
        };
        let counted = self.counters.write_buffer_bytes.load(Ordering::Relaxed);
        !is_spared && kept as u64 >= counted.saturating_sub(most)
    }

    /// Has that thread make room, unless it was asked already.
    pub(crate) fn ask(&self, thread: usize) {
        let Some(share) = self.threads.get(thread) else {
            return;
        };
        let mailbox = share.mailbox.get().and_then(Weak::upgrade);
        if let Some(mailbox) = mailbox
            && !share.asked.swap(true, Ordering::Relaxed)
        {
            mailbox.ask_for_room();
        }
    }

    /// It looks now.
    pub(crate) fn looks(&self, thread: usize) {
        if let Some(share) = self.threads.get(thread) {
            share.asked.store(false, Ordering::Relaxed);
        }
    }

    /// Counts what is left in a mailbox; false where there is no place for it.
    pub(crate) fn admit(&self, bytes: usize) -> bool {
        let level = self.add(bytes);
        if level > Level::Low
            && let Some((_, thread)) = self.larger(0)
        {
            self.ask(thread);
        }
        if level == Level::Over {
            self.take(bytes);
        }
        level < Level::Over
    }
}

/// The connections of one net thread that keep bytes for their peers, by how many.
#[derive(Debug, Default)]
pub(crate) struct Keepers {
    by_bytes: BTreeSet<(usize, usize)>,
    /// Of all of them.
    bytes: usize,
}

impl Keepers {
    /// The connection at `slot` keeps so many bytes now.
    pub(crate) fn change(&mut self, slot: usize, before: usize, bytes: usize) {
        if before > 0 && self.by_bytes.remove(&(before, slot)) {
            self.bytes -= before;
        }
        if bytes > 0 && self.by_bytes.insert((bytes, slot)) {
            self.bytes += bytes;
        }
    }

    /// Bytes and place of the one that keeps most.
    pub(crate) fn largest(&self) -> Option<(usize, usize)> {
        self.by_bytes.last().copied()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The totals of two net threads, and their mailboxes.
    fn introduced(write_bytes_max: usize) -> (Arc<Totals>, [Arc<Mailbox>; 2]) {
        let totals = Arc::new(Totals::new(Arc::default(), 2, write_bytes_max, ""));
        let mailboxes = [0, 1].map(|thread| Arc::new(Mailbox::new(Arc::clone(&totals), thread).unwrap()));
        for (thread, mailbox) in mailboxes.iter().enumerate() {
            totals.introduce(thread, mailbox);
        }
        (totals, mailboxes)
    }

    #[test]
    fn the_thread_with_the_largest_is_asked_once_until_it_looks() {
        let (totals, mailboxes) = introduced(800);
        let asked = |thread: usize| {
            let mut left = crate::mailbox::Queues::default();
            mailboxes[thread].take(&mut left);
            left.messages.len()
        };
        assert!(totals.admit(700) && asked(0) + asked(1) == 0);
        totals.tell_kept(0, &keeping(&[10]));
        totals.tell_kept(1, &keeping(&[11, 3]));
        assert_eq!((totals.larger(10), totals.larger(11)), (Some((11, 1)), None));
        for _ in 0..3 {
            assert!(totals.admit(1));
        }
        assert_eq!((asked(0), asked(1)), (0, 1));
        totals.looks(1);
        assert!(!totals.admit(98), "past the bound");
        assert_eq!((asked(0), asked(1)), (0, 1));
        assert_eq!(totals.level(), Level::High);
        totals.take(3);
        assert_eq!(totals.level(), Level::Low);
    }

    fn keeping(bytes: &[usize]) -> Keepers {
        let mut keepers = Keepers::default();
        for (slot, bytes) in bytes.iter().enumerate() {
            keepers.change(slot, 0, *bytes);
        }
        keepers
    }

    #[test]
    fn bytes_in_the_place_of_others_are_never_counted_beside_them() {
        let (totals, _mailboxes) = introduced(800);
        totals.add(700);
        for (before, bytes) in [(700, 750), (750, 750), (750, 20), (20, 0)] {
            totals.change(before, bytes);
            let counted = totals.counters.write_buffer_bytes.load(Ordering::Relaxed);
            assert_eq!(counted, bytes as u64);
        }
    }

    #[test]
    fn nobody_waits_for_a_thread_that_does_not_turn() {
        let (totals, mailboxes) = introduced(800);
        totals.tell_kept(0, &keeping(&[10]));
        totals.tell_kept(1, &keeping(&[500]));
        totals.add(750);
        assert_eq!(totals.larger(10), Some((500, 1)));
        let pulse = &mailboxes[1].pulse;
        pulse.begin();
        while !pulse.is_stuck() {
            pulse.ask();
        }
        assert_eq!((totals.larger(0), totals.larger(10)), (Some((10, 0)), None));
        assert!(!totals.helps(Level::High, 10), "what it keeps cannot be had");
        pulse.turned();
        assert_eq!(totals.larger(10), Some((500, 1)), "it turns again");
        drop(mailboxes);
        assert_eq!(totals.larger(0), None);
    }

    /// `kept` by one connection, the rest in mailboxes.
    fn helps(kept: usize, counted: usize) -> bool {
        let (totals, _mailboxes) = introduced(64 << 20);
        totals.tell_kept(0, &keeping(&[kept]));
        totals.add(counted);
        totals.helps(totals.level(), kept)
    }

    #[test]
    fn nothing_is_closed_for_what_no_connection_keeps() {
        const MIB: usize = 1 << 20;
        assert!(!helps(MIB, 58 * MIB), "too little to bring it down");
        assert!(helps(2 * MIB, 58 * MIB));
        assert!(!helps(SPARED_BYTES - 1, (56 * MIB) + 1), "a few bytes");
        assert!(helps(SPARED_BYTES, (56 * MIB) + 1));
        assert!(helps(SPARED_BYTES - 1, (64 * MIB) + 1), "past the bound");
        let (many, _mailboxes) = introduced(64 << 20);
        many.tell_kept(0, &keeping(&[SPARED_BYTES / 2; 256]));
        many.add(57 * MIB);
        assert!(many.helps(many.level(), SPARED_BYTES / 2), "small ones keep most");
    }

    #[test]
    fn keepers_are_ordered_by_what_they_keep() {
        let mut keepers = Keepers::default();
        assert_eq!(keepers.largest(), None);
        keepers.change(1, 0, 50);
        keepers.change(2, 0, 70);
        assert_eq!(keepers.largest(), Some((70, 2)));
        keepers.change(2, 70, 0);
        keepers.change(1, 50, 60);
        assert_eq!((keepers.largest(), keepers.bytes), (Some((60, 1)), 60));
    }
}
