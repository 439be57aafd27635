//! The keys in memory, in order, as the store uses them: whole writes, versions, and what they take.
//!
//! Not durable and not aware of conditions. Invariant: one write becomes visible to readers as a whole.

use std::iter::repeat;

use millpond_wal::Clock;

use crate::counter::Counter;
use crate::inspect::Looked;
use crate::list::Kind;
use crate::scan::{Entry, Range, Scan};
use crate::tree::{
    Before, Cell, Change, Content, Copied, Drawn, Near, Random, ReadMany, Span, Tree, content_bytes,
};

/// A value and the version at which it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned {
    /// The bytes as they were put; none of a list, whose items [`crate::Store::items`] has.
    pub value: Vec<u8>,
    /// What the key holds.
    pub kind: Kind,
    /// Counts up over the whole store, from 1.
    pub version: u64,
    /// When it expires, in milliseconds of Unix time by the store's clock, if it does.
    pub expires_ms: Option<u64>,
}

impl Versioned {
    /// Whether it has not expired by then.
    fn lasts(&self, now_ms: u64) -> bool {
        !is_over(now_ms, self.expires_ms.unwrap_or_default())
    }

    fn of(cell: &Cell<'_>) -> Versioned {
        Versioned {
            value: if cell.is_list { Vec::new() } else { cell.value() },
            kind: Kind::of(cell.is_list),
            version: cell.version,
            expires_ms: Some(cell.expires_ms).filter(|expires_ms| *expires_ms != 0),
        }
    }
}

/// What an entry takes at most beside its key's and value's bytes, on average: its place in a leaf that is two thirds full, and eight to
/// sixteen bytes before the key. What is longer than 512 bytes takes a sixteenth more at most, a list
/// up to a half; lists that grow leave as much again, which lists that grow behind them have next.
pub(crate) const ENTRY_OVERHEAD_BYTES: u64 = 48;
/// Entries of a scan that are one view, at least.
const SCAN_ENTRIES: usize = 1024;
/// Entries of a short scan that are one view where some may have expired.
const PASSED_AT_ONCE: usize = 64;
/// Entries that have expired and that one scan passes over: it ends there, with a cursor.
const PASSED_MAX: usize = 64 << 10;
/// Bytes of keys that have expired and are removed by one record.
const EXPIRED_BYTES_MAX: usize = 1 << 20;
/// Keys that are removed at one moment where they need not go together.
const REMOVED_AT_ONCE: usize = 256;

/// Leaves that are drawn at once, and entries that are looked at of each.
const DRAWN_LEAVES: usize = 4;
const DRAWN_ENTRIES: usize = 8;

/// Memory that an entry of these lengths takes.
pub(crate) fn entry_bytes(key: usize, value: usize, expires_ms: u64) -> u64 {
    taken_bytes(content_bytes(key, value, expires_ms))
}

/// The same of one with so many bytes of content.
pub(crate) fn taken_bytes(content: usize) -> u64 {
    content as u64 + ENTRY_OVERHEAD_BYTES
}

/// The values of several keys, as far as they may be copied.
struct Values {
    now_ms: u64,
    count: usize,
    bytes_max: usize,
    bytes: usize,
    found: Vec<Option<Versioned>>,
}

impl ReadMany for Values {
    fn begin(&mut self) {
        self.bytes = 0;
        self.found.clear();
        self.found.resize(self.count, None);
    }

    fn read(&mut self, at: usize, cell: Option<&Cell<'_>>) {
        let cell = cell.filter(|cell| !is_over(self.now_ms, cell.expires_ms));
        let (Some(place), Some(cell)) = (self.found.get_mut(at), cell) else {
            return;
        };
        self.bytes = self.bytes.saturating_add(value_bytes(cell));
        if self.bytes <= self.bytes_max {
            *place = Some(Versioned::of(cell));
        }
    }
}

/// Bytes that a read of an entry copies.
fn value_bytes(cell: &Cell<'_>) -> usize {
    if cell.is_list { 0 } else { cell.value_len }
}

fn looked(cell: &Cell<'_>) -> Looked {
    Looked {
        kind: Some(Kind::of(cell.is_list)),
        version: cell.version,
        expires_ms: cell.expires_ms,
        value_bytes: cell.value_len,
        count: if cell.is_list {
            cell.value_head() as usize
        } else {
            0
        },
    }
}

/// Whether an entry has expired by then.
pub(crate) fn is_over(now_ms: u64, expires_ms: u64) -> bool {
    expires_ms != 0 && expires_ms <= now_ms
}

pub(crate) struct Index {
    tree: Tree,
    /// The sum of what entries take.
    bytes: Counter,
    /// Entries that expire.
    expiring: Counter,
    clock: Clock,
}

impl Default for Index {
    fn default() -> Index {
        Index {
            tree: Tree::new(),
            bytes: Counter::default(),
            expiring: Counter::default(),
            clock: Clock::new(0),
        }
    }
}

impl Index {
    /// The same from here on by a clock that is no earlier than the log's last time.
    pub fn from(self, last_ms: u64) -> Index {
        Index {
            clock: Clock::new(last_ms),
            ..self
        }
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Entries that expire, those that have and are not removed yet among them.
    pub fn expiring(&self) -> u64 {
        self.expiring.sum()
    }

    pub fn get(&self, key: &[u8]) -> Option<Versioned> {
        let found = self.tree.get(key, Versioned::of)?;
        match found.expires_ms {
            None => Some(found),
            Some(_) => Some(found).filter(|found| found.lasts(self.clock.now_ms())),
        }
    }

    /// The same of several keys, all at one moment; how many bytes their values have where these are more than `bytes_max`.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        bytes_max: usize,
    ) -> Result<Vec<Option<Versioned>>, usize> {
        let mut values = Values {
            now_ms: self.clock.now_ms(),
            count: keys.len(),
            bytes_max,
            bytes: 0,
            found: Vec::new(),
        };
        self.tree.get_many(keys, &mut values);
        match values.bytes {
            bytes if bytes > bytes_max => Err(bytes),
            _ => Ok(values.found),
        }
    }

    /// Has the memory brought of a few keys that are looked at next, or written, and adds where each was found.
    pub fn bring<'t, 'k>(&'t self, keys: impl Iterator<Item = &'k [u8]>, found: &mut Vec<Near<'t>>) {
        self.tree.bring_many(keys, found);
    }

    /// What a key has at a moment; how many bytes its value has where these are more than `bytes_max`.
    pub fn get_at(
        &self,
        (key, near): (&[u8], Near<'_>),
        now_ms: u64,
        bytes_max: usize,
    ) -> Result<Option<Versioned>, usize> {
        let found = self.tree.get_near(near, key, |cell| match value_bytes(cell) {
            _ if is_over(now_ms, cell.expires_ms) => Ok(None),
            bytes if bytes > bytes_max => Err(bytes),
            _ => Ok(Some(Versioned::of(cell))),
        });
        found.unwrap_or(Ok(None))
    }

    /// The key's version at a moment, 0 if absent.
    pub fn version_at(&self, key: &[u8], now_ms: u64) -> u64 {
        let found = self.tree.get(key, |cell| (cell.version, cell.expires_ms));
        let found = found.filter(|(_, expires_ms)| !is_over(now_ms, *expires_ms));
        found.map_or(0, |(version, _)| version)
    }

    /// The key's version, whether it has expired or not; 0 if absent.
    pub fn version_of(&self, key: &[u8]) -> u64 {
        self.tree.get(key, |cell| cell.version).unwrap_or_default()
    }

    /// What a key is at a moment.
    pub fn look_at(&self, (key, near): (&[u8], Near<'_>), now_ms: u64) -> Looked {
        let found = self.tree.get_near(near, key, looked);
        found.filter(|found| !found.is_over(now_ms)).unwrap_or_default()
    }

    /// What a key holds, whatever it is, expired or not.
    pub fn held(&self, key: &[u8]) -> Option<(Vec<u8>, Looked)> {
        self.tree.get(key, |cell| (cell.value(), looked(cell)))
    }

    pub fn len(&self) -> usize {
        self.tree.len() as usize
    }

    /// Memory that the entries take.
    pub fn bytes(&self) -> u64 {
        self.bytes.sum()
    }

    /// Memory that the tree has taken.
    pub fn tree_bytes(&self) -> u64 {
        self.tree.bytes()
    }

    /// Memory that the key's entry takes, 0 if there is none.
    pub fn bytes_of(&self, key: &[u8]) -> u64 {
        let bytes = self.tree.get(key, |cell| {
            entry_bytes(cell.key_len, cell.value_len, cell.expires_ms)
        });
        bytes.unwrap_or_default()
    }

    /// The keys from one on whose entries have expired, as many as one record may remove: so many are looked at, and the key from which
    /// on there are more.
    pub fn expired(&self, from: &[u8], looked_at_max: usize) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
        let (mut found, mut bytes) = (Vec::new(), 0);
        let now_ms = self.clock.now_ms();
        let (_, next) = self.look_on(from, looked_at_max, |entry| {
            if bytes >= EXPIRED_BYTES_MAX {
                return false;
            }
            if is_over(now_ms, entry.expires_ms) {
                bytes += entry.key.len();
                found.push(entry.key.to_vec());
            }
            true
        });
        (found, next)
    }

    /// Looks at entries from a key on in order, at most so many, as long as `visit` wants another: how many there were, and the key from which on
    /// there are more, the one that `visit` did not want among them.
    pub fn look_on(
        &self,
        from: &[u8],
        looked_at_max: usize,
        mut visit: impl FnMut(&Content<'_>) -> bool,
    ) -> (usize, Option<Vec<u8>>) {
        let (mut looked_at, mut next) = (0, None);
        let span = Span {
            start: from,
            end: None,
            entries_max: looked_at_max.saturating_add(1),
            values: Copied::No,
        };
        self.tree.scan(span, |entry| {
            if looked_at == looked_at_max || !visit(&entry) {
                next = Some(entry.key.to_vec());
                return false;
            }
            looked_at += 1;
            true
        });
        (looked_at, next)
    }

    /// Draws entries at random, of which `rank` makes something; how many were looked at, at most.
    pub fn draw<R>(
        &self,
        random: &mut Random,
        rank: impl Fn(&Cell<'_>) -> Option<R>,
        drawn: &mut Vec<Drawn<R>>,
    ) -> usize {
        for _ in 0..DRAWN_LEAVES {
            self.tree.draw(random, DRAWN_ENTRIES, &rank, drawn);
        }
        DRAWN_LEAVES * DRAWN_ENTRIES
    }

    /// Visits entries of a range in order, or from its end, 1,024 or a MiB of large values at one moment, and at most as many, and bytes
    /// of keys and values, as the scan says; the key behind them, if it lies in the range.
    pub fn scan(&self, range: &Range, scan: &Scan, mut visit: impl FnMut(Entry<'_>)) -> Option<Vec<u8>> {
        let (mut visited, mut passed, mut bytes, mut next) = (0, 0, 0, None);
        let least = if self.expiring() > 0 { PASSED_AT_ONCE } else { 1 };
        let span = Span {
            start: &range.start,
            end: range.end.as_deref(),
            entries_max: scan.limit.saturating_add(1).clamp(least, SCAN_ENTRIES),
            values: if scan.keys_only { Copied::No } else { Copied::Bytes },
        };
        let now_ms = self.clock.now_ms();
        let mut visit = |entry: Content<'_>| {
            if is_over(now_ms, entry.expires_ms) {
                passed += 1;
                if passed == PASSED_MAX {
                    next = Some(entry.key.to_vec());
                }
                return passed < PASSED_MAX;
            }
            bytes += entry.key.len() + entry.value.len();
            // One entry is visited whatever it has.
            if visited == scan.limit || bytes > scan.bytes_max && visited > 0 {
                next = Some(entry.key.to_vec());
                return false;
            }
            visited += 1;
            visit(Entry {
                key: entry.key,
                value: entry.value,
                kind: Kind::of(entry.is_list),
            });
            true
        };
        match scan.reverse {
            false => self.tree.scan(span, &mut visit),
            true => self.tree.scan_back(span, &mut visit),
        }
        next
    }

    /// Visits all entries as they are, also those that have expired, some at one moment, until `visit` says that it is enough.
    pub fn each(&self, visit: &mut dyn FnMut(Content<'_>) -> bool) {
        let span = Span {
            start: &[],
            end: None,
            entries_max: SCAN_ENTRIES,
            values: Copied::All,
        };
        self.tree.scan(span, visit);
    }

    /// Puts an entry that was read; several threads may at once.
    pub fn load(&self, content: Content<'_>) {
        self.apply_one(&Change::Set(content), Near::default());
    }

    /// Takes memory for an entry, where there is so much.
    pub fn reserve(&self, bytes: u64, bytes_max: Option<u64>) -> bool {
        self.bytes.add(bytes.cast_signed());
        let fits = bytes_max.is_none_or(|max| self.bytes.sum() <= max);
        if !fits {
            self.bytes.add(-bytes.cast_signed());
        }
        fits
    }

    /// Puts an entry whose memory is taken; the version, which is asked for once nobody else can write the key.
    pub fn put_reserved(&self, content: Content<'_>, version: impl FnOnce() -> u64) -> u64 {
        let (version, before) = self.tree.put_next(content, version);
        let freed = before.map_or(0, |before| taken_bytes(before.bytes));
        self.bytes.add(-freed.cast_signed());
        self.count_expiring(content.expires_ms != 0, before);
        version
    }

    /// Makes the changes of one write, of which the later one of a key stays.
    pub fn apply<'c>(&self, mut changes: impl ExactSizeIterator<Item = Change<'c>>) {
        if changes.len() == 1 {
            let only = changes.next().into_iter();
            return only.for_each(|change| self.apply_one(&change, Near::default()));
        }
        let mut changes: Vec<Change<'_>> = changes.collect();
        changes.reverse();
        changes.sort_by(|one, other| one.key().cmp(other.key()));
        changes.dedup_by(|earlier, last| earlier.key() == last.key());
        self.tree
            .change_all(&changes, |change, before| self.count(change, before));
    }

    /// Makes changes one behind the other, whose memory is brought side by side, and leaves none.
    pub fn apply_in_turn(&self, changes: &mut Vec<Change<'_>>) {
        let mut found = Vec::with_capacity(changes.len());
        self.bring(changes.iter().map(Change::key), &mut found);
        let near = found.into_iter().chain(repeat(Near::default()));
        for (change, near) in changes.drain(..).zip(near) {
            self.apply_one(&change, near);
        }
    }

    /// Removes keys, some of them at one moment: nobody waits for so many leaves as all of them may lie in.
    pub fn remove_in_parts<'c>(&self, removals: impl Iterator<Item = Change<'c>>) {
        let mut removals = removals.peekable();
        while removals.peek().is_some() {
            let part: Vec<Change<'_>> = removals.by_ref().take(REMOVED_AT_ONCE).collect();
            self.apply(part.into_iter());
        }
    }

    /// Makes one change, of a key that is near.
    pub fn apply_one(&self, change: &Change<'_>, near: Near<'_>) {
        let before = match change {
            Change::Set(content) => self.tree.put(*content, near),
            Change::Remove(key) => self.tree.remove(key),
        };
        self.count(change, before);
    }

    /// Counts the memory that a change takes, and gives back.
    fn count(&self, change: &Change<'_>, before: Option<Before>) {
        let (taken, expires) = match change {
            Change::Set(content) => (taken_bytes(content.bytes()), content.expires_ms != 0),
            Change::Remove(_) => (0, false),
        };
        let freed = before.map_or(0, |before| taken_bytes(before.bytes));
        self.bytes.add(taken.cast_signed() - freed.cast_signed());
        self.count_expiring(expires, before);
    }

    fn count_expiring(&self, expires: bool, before: Option<Before>) {
        match (expires, before.is_some_and(|before| before.expires)) {
            (true, false) => self.expiring.add(1),
            (false, true) => self.expiring.add(-1),
            _ => {}
        }
    }
}
