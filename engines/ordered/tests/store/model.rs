//! Random work on a store and on a `BTreeMap` side by side, with closing and opening in between.
//!
//! Invariant under test: both answer the same, always.

use millpond_engines_ordered::{
    Batch, Durability, Effect, Inspected, Kind, Operation, Options, Put, Scan, Store, Versioned, WriteError,
};
use proptest::prelude::*;

use crate::held::{Held, between, held};
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
enum Step {
    Put(Put),
    /// A put whose `if_version` is the key's true one, so that such puts succeed often.
    PutAtItsVersion(Vec<u8>, Vec<u8>),
    Batch(Vec<Operation>),
    Get(Vec<u8>),
    Scan(Scan),
    Reopen,
}

/// Short keys of few bytes, the highest among them: they collide, nest, and try the ends of ranges.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0), Just(b'a'), Just(b'b'), Just(0xff)], 0..4)
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..20)
}

fn operation() -> impl Strategy<Value = Operation> {
    // Most batches are to take effect.
    let if_version = || prop::option::weighted(0.1, 0..40u64);
    let number = any::<i8>().prop_map(|number| number.to_string().into_bytes());
    let put = (
        key(),
        prop_oneof![2 => value(), 1 => number],
        if_version(),
        prop::bool::weighted(0.1),
    );
    let put = put.prop_map(|(key, value, if_version, if_absent)| Operation::Put {
        key,
        value,
        if_version,
        if_absent,
        if_present: false,
        ttl_ms: None,
        keep_ttl: false,
    });
    let by = prop_oneof![Just(i64::MAX), -5..5i64];
    prop_oneof![
        2 => key().prop_map(|key| Operation::Get { key }),
        3 => put,
        2 => (key(), if_version()).prop_map(|(key, if_version)| Operation::Remove { key, if_version }),
        1 => (key(), by).prop_map(|(key, by)| Operation::Increment { key, by, ttl_ms: None }),
        1 => (key(), -5..5i64).prop_map(|(key, by)| Operation::IncrementDecimal { key, by: format!("{by}.25").into_bytes() }),
        1 => key().prop_map(|key| Operation::Expire { key, ttl_ms: None }),
        1 => key().prop_map(|key| Operation::Inspect { key }),
        1 => (key(), value()).prop_map(|(key, value)| Operation::Concatenate { key, value }),
        4 => list_operation(),
    ]
}

/// Of keys that are seldom bytes, so that most of them take effect.
fn list_operation() -> impl Strategy<Value = Operation> {
    let key = || prop_oneof![8 => prop_oneof![Just(b"list".to_vec()), Just(b"mist".to_vec())], 1 => key()];
    let items = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..5), 1..4);
    let append = (key(), items, prop::option::of(1..6u32));
    let span = || (-6..6i64, -6..6i64);
    prop_oneof![
        4 => append.prop_map(|(key, items, keep)| Operation::Append { key, items, keep, ttl_ms: None }),
        2 => (key(), span()).prop_map(|(key, (start, stop))| Operation::Items { key, start, stop }),
        2 => (key(), span()).prop_map(|(key, (start, stop))| Operation::Trim { key, start, stop }),
        1 => key().prop_map(|key| Operation::Remove { key, if_version: None }),
        1 => key().prop_map(|key| Operation::Expire { key, ttl_ms: None }),
        1 => key().prop_map(|key| Operation::Inspect { key }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let entries = || prop::collection::vec((key(), value()), 1..5);
    let plain = entries().prop_map(|entries| Put {
        entries,
        ..Put::default()
    });
    let condition = (entries(), prop::option::of(0..40u64), any::<bool>()).prop_map(
        |(entries, if_version, if_absent)| Put {
            entries,
            if_version,
            if_absent,
            ..Put::default()
        },
    );
    let present = (entries(), any::<bool>()).prop_map(|(entries, keep_ttl)| Put {
        entries,
        if_present: true,
        keep_ttl,
        ..Put::default()
    });
    let scan = (
        prop::option::of(key()),
        prop::option::of(key()),
        prop::option::of(key()),
        0..12usize,
        any::<bool>(),
    )
        .prop_map(|(start, end, prefix, limit, reverse)| Scan {
            start,
            end,
            prefix,
            limit,
            reverse,
            ..Scan::default()
        });
    prop_oneof![
        4 => plain.prop_map(Step::Put),
        2 => condition.prop_map(Step::Put),
        1 => present.prop_map(Step::Put),
        2 => (key(), value()).prop_map(|(key, value)| Step::PutAtItsVersion(key, value)),
        4 => prop::collection::vec(operation(), 1..8).prop_map(Step::Batch),
        2 => key().prop_map(Step::Get),
        4 => scan.prop_map(Step::Scan),
        1 => Just(Step::Reopen),
    ]
}

fn keys(store: &Store) -> Vec<Vec<u8>> {
    let all = Scan {
        limit: usize::MAX,
        ..Scan::default()
    };
    scan_store(store, &all)
        .0
        .into_iter()
        .map(|(key, _)| key)
        .collect()
}

/// Entries visited, and the cursor.
type Scanned = (Vec<(Vec<u8>, Vec<u8>)>, Option<Vec<u8>>);

#[derive(Default)]
struct Model {
    map: BTreeMap<Vec<u8>, (Held, u64)>,
    versions_given: u64,
}

impl Model {
    fn version(&self, key: &[u8]) -> u64 {
        self.map.get(key).map_or(0, |(_, version)| *version)
    }

    /// Versions given, or the key and version that stand against it.
    fn put(&mut self, put: &Put) -> Result<Vec<u64>, (Vec<u8>, u64)> {
        for (key, _) in &put.entries {
            let found = self.version(key);
            let is_absent = put.if_present && found == 0;
            if is_absent
                || put.if_absent && found != 0
                || put.if_version.is_some_and(|wanted| wanted != found)
            {
                return Err((key.clone(), found));
            }
        }
        let mut versions = vec![];
        for (key, value) in &put.entries {
            self.versions_given += 1;
            versions.push(self.versions_given);
            self.map
                .insert(key.clone(), (Held::Bytes(value.clone()), self.versions_given));
        }
        Ok(versions)
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> u64 {
        self.hold(key, Held::Bytes(value.to_vec()))
    }

    fn hold(&mut self, key: &[u8], held: Held) -> u64 {
        self.versions_given += 1;
        self.map.insert(key.to_vec(), (held, self.versions_given));
        self.versions_given
    }

    /// What the entries take by the documentation: 48 bytes beside key and value, and of a list 4 for its number and each item's length.
    fn memory_bytes(&self) -> u64 {
        let value = |held: &Held| match held {
            Held::Bytes(value) => value.len(),
            Held::List(items) => 4 + items.iter().map(|item| 4 + item.len()).sum::<usize>(),
        };
        let entries = self.map.iter();
        entries
            .map(|(key, (held, _))| (key.len() + value(held) + 48) as u64)
            .sum()
    }

    /// The bytes of a key; `None` where it holds a list.
    fn bytes(&self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        match self.map.get(key) {
            None => Some(None),
            Some((Held::Bytes(value), _)) => Some(Some(value.clone())),
            Some((Held::List(_), _)) => None,
        }
    }

    /// The items of a key, the newest first; `None` where it holds bytes.
    fn list(&self, key: &[u8]) -> Option<Vec<Vec<u8>>> {
        match self.map.get(key) {
            None => Some(vec![]),
            Some((Held::List(items), _)) => Some(items.clone()),
            Some((Held::Bytes(_), _)) => None,
        }
    }

    fn inspect(&self, key: &[u8]) -> Inspected {
        let Some((held, version)) = self.map.get(key) else {
            return Inspected::default();
        };
        let (kind, bytes, count) = match held {
            Held::Bytes(value) => (Kind::Bytes, value.len(), None),
            Held::List(items) => (Kind::List, items.concat().len(), Some(items.len())),
        };
        Inspected {
            kind: Some(kind),
            version: *version,
            ttl_ms: None,
            bytes,
            count,
        }
    }

    /// `None` where an operation stands against it; then nothing has changed.
    fn batch(&mut self, operations: &[Operation]) -> Option<Vec<Effect>> {
        let before = (self.map.clone(), self.versions_given);
        let effects = operations
            .iter()
            .map(|operation| self.operate(operation))
            .collect();
        if Option::is_none(&effects) {
            (self.map, self.versions_given) = before;
        }
        effects
    }

    fn operate(&mut self, operation: &Operation) -> Option<Effect> {
        let key = operation.key();
        let found = self.version(key);
        let fits = |if_version: &Option<u64>| if_version.is_none_or(|wanted| wanted == found);
        match operation {
            Operation::Get { .. } => {
                let versioned = self.bytes(key)?.map(|value| Versioned {
                    value,
                    kind: Kind::Bytes,
                    version: found,
                    expires_ms: None,
                });
                Some(Effect::Found(versioned))
            }
            Operation::Put {
                value,
                if_version,
                if_absent,
                ..
            } => {
                let fits = fits(if_version) && !(*if_absent && found != 0);
                fits.then(|| Effect::Put(self.set(key, value)))
            }
            Operation::Remove { if_version, .. } => fits(if_version).then(|| {
                self.versions_given += u64::from(found != 0);
                Effect::WasThere(self.map.remove(key).is_some())
            }),
            // No time passes here: the key lasts for good, as it did.
            Operation::Expire { .. } => {
                let held = self.map.get(key).map(|(held, _)| held.clone());
                if let Some(held) = held.clone() {
                    self.hold(key, held);
                }
                Some(Effect::WasThere(held.is_some()))
            }
            Operation::Increment { by, .. } => {
                let number = match self.bytes(key)? {
                    None => 0,
                    Some(value) => {
                        let number: i64 = String::from_utf8(value.clone()).ok()?.parse().ok()?;
                        (number.to_string().as_bytes() == value).then_some(number)?
                    }
                };
                let value = number.checked_add(*by)?;
                let version = self.set(key, value.to_string().as_bytes());
                Some(Effect::Incremented { value, version })
            }
            Operation::IncrementDecimal { by, .. } => {
                let held = self.bytes(key)?.unwrap_or_else(|| b"0".to_vec());
                let value = sum_of_decimals(&held, by)?;
                let version = self.set(key, &value);
                Some(Effect::IncrementedDecimal { value, version })
            }
            Operation::Concatenate { value, .. } => {
                let whole = [self.bytes(key)?.unwrap_or_default(), value.clone()].concat();
                let version = self.set(key, &whole);
                let bytes = whole.len();
                Some(Effect::Concatenated { bytes, version })
            }
            Operation::Inspect { .. } => Some(Effect::Inspected(self.inspect(key))),
            _ => self.operate_list(operation),
        }
    }

    fn operate_list(&mut self, operation: &Operation) -> Option<Effect> {
        let key = operation.key();
        let list = self.list(key)?;
        match operation {
            Operation::Append { items, keep, .. } => {
                let mut left: Vec<_> = items.iter().rev().cloned().chain(list).collect();
                left.truncate(keep.map_or(usize::MAX, |keep| keep as usize));
                let count = left.len();
                let version = self.hold(key, Held::List(left));
                Some(Effect::Listed { count, version })
            }
            Operation::Items { start, stop, .. } => Some(Effect::Items(between(&list, *start, *stop))),
            Operation::Trim { start, stop, .. } => {
                let left = between(&list, *start, *stop);
                let count = left.len();
                let version = match count {
                    _ if left == list => self.version(key),
                    0 => {
                        self.versions_given += 1;
                        self.map.remove(key);
                        0
                    }
                    _ => self.hold(key, Held::List(left)),
                };
                Some(Effect::Listed { count, version })
            }
            other => panic!("no operation of lists: {other:?}"),
        }
    }

    /// The plainest reading of what a scan means.
    fn scan(&self, scan: &Scan) -> Scanned {
        let mut all: Vec<_> = self.map.iter().collect();
        if scan.reverse {
            all.reverse();
        }
        let mut matching = all.into_iter().filter(|(key, _)| {
            scan.start.as_ref().is_none_or(|start| *key >= start)
                && scan.end.as_ref().is_none_or(|end| *key < end)
                && scan.prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix))
        });
        let entries = matching
            .by_ref()
            .take(scan.limit)
            .map(|(key, (held, _))| (key.clone(), held.scanned()));
        let entries = entries.collect();
        (entries, matching.next().map(|(key, _)| key.clone()))
    }
}

fn scan_store(store: &Store, scan: &Scan) -> Scanned {
    let mut found = vec![];
    let cursor = store.scan(scan, &mut |key, value| found.push((key.to_vec(), value.to_vec())));
    (found, cursor)
}

fn same_put(store: &Store, model: &mut Model, put: Put) -> Result<(), TestCaseError> {
    let expected = model.put(&put);
    let found = match store.write_wait(put) {
        Ok(outcome) => Ok(outcome.versions),
        Err(WriteError::Conflict { key, found, .. }) => Err((key, found)),
        Err(WriteError::Absent { key }) => Err((key, 0)),
        Err(other) => return Err(TestCaseError::fail(other.to_string())),
    };
    prop_assert_eq!(found, expected);
    Ok(())
}

/// The sum of two numbers as the shortest text; exact, as floats are not.
fn sum_of_decimals(one: &[u8], other: &[u8]) -> Option<Vec<u8>> {
    const UNITS: i128 = 10_i128.pow(17);
    let units = |text: &[u8]| {
        let text = str::from_utf8(text).ok()?;
        text.parse::<f64>().ok().filter(|number| number.is_finite())?;
        let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
        format!("{whole}{rest:0<17}").parse::<i128>().ok()
    };
    let sum = units(one)? + units(other)?;
    let sign = if sum < 0 { "-" } else { "" };
    let text = format!("{sign}{}.{:017}", sum.abs() / UNITS, sum.abs() % UNITS);
    Some(
        text.trim_end_matches('0')
            .trim_end_matches('.')
            .as_bytes()
            .to_vec(),
    )
}

fn same_batch(store: &Store, model: &mut Model, operations: Vec<Operation>) -> Result<(), TestCaseError> {
    let expected = model.batch(&operations);
    let found = match store.write_wait(Batch::of(operations)) {
        Ok(written) => Some(written.effects),
        Err(
            WriteError::Conflict { .. }
            | WriteError::NotANumber { .. }
            | WriteError::Overflow { .. }
            | WriteError::NotADecimal { .. }
            | WriteError::DecimalOverflow { .. }
            | WriteError::WrongKind(_),
        ) => None,
        Err(other) => return Err(TestCaseError::fail(other.to_string())),
    };
    prop_assert_eq!(found, expected);
    Ok(())
}

fn same_scan(store: &Store, model: &Model, scan: Scan) -> Result<(), TestCaseError> {
    let (found, cursor) = scan_store(store, &scan);
    prop_assert_eq!((found.clone(), cursor.clone()), model.scan(&scan));
    // Page by page, the cursor leads to the same as one scan without a limit.
    let whole = scan_store(
        store,
        &Scan {
            limit: usize::MAX,
            ..scan.clone()
        },
    )
    .0;
    let (mut pages, mut next) = (found, cursor);
    while let Some(cursor) = next {
        let mut page = Scan {
            limit: scan.limit.max(1),
            ..scan.clone()
        };
        match scan.reverse {
            true => page.end = Some(Scan::end_behind(&cursor)),
            false => page.start = Some(cursor),
        }
        let (found, cursor) = scan_store(store, &page);
        pages.extend(found);
        next = cursor;
    }
    prop_assert_eq!(pages, whole);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn store_and_map_agree(
        steps in prop::collection::vec(step(), 1..60),
        synced: bool,
        segment_bytes_max in 0..1000u64,
    ) {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("store");
        let durability = if synced { Durability::Synced } else { Durability::Logged };
        let options = Options { durability, segment_bytes_max, ..Options::default() };
        let mut store = Store::open(&dir, options.clone()).unwrap().0;
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Put(put) => same_put(&store, &mut model, put)?,
                Step::PutAtItsVersion(key, value) => {
                    let if_version = Some(model.version(&key));
                    let put = Put { entries: vec![(key, value)], if_version, ..Put::default() };
                    same_put(&store, &mut model, put)?;
                }
                Step::Batch(operations) => same_batch(&store, &mut model, operations)?,
                Step::Get(key) => {
                    prop_assert_eq!(held(&store, &key), model.map.get(&key).cloned());
                    prop_assert_eq!(store.inspect(&[&key]), [model.inspect(&key)]);
                }
                Step::Scan(scan) => same_scan(&store, &model, scan)?,
                Step::Reopen => {
                    store.close().unwrap();
                    let (opened, recovery) = Store::open(&dir, options.clone()).unwrap();
                    prop_assert_eq!(recovery.entries, model.versions_given);
                    prop_assert_eq!(recovery.torn_tail, None);
                    store = opened;
                }
            }
            prop_assert_eq!(store.len(), model.map.len());
            prop_assert_eq!(store.entry_bytes(), model.memory_bytes());
        }
        let all: BTreeMap<_, _> = keys(&store).into_iter().map(|key| (key.clone(), held(&store, &key).unwrap())).collect();
        prop_assert_eq!(all, model.map);
    }
}

#[test]
fn a_long_scan_crosses_its_chunks_without_a_seam() {
    let store = Store::in_memory(Options::default());
    let keys: Vec<Vec<u8>> = (0..5000u32).map(|i| i.to_be_bytes().to_vec()).collect();
    let entries = keys.iter().map(|key| (key.clone(), key.clone())).collect();
    store
        .write_wait(Put {
            entries,
            ..Put::default()
        })
        .unwrap();
    for limit in [0, 1, 1023, 1024, 1025, 2048, 4999, 5000, 5001, usize::MAX] {
        let (found, cursor) = scan_store(
            &store,
            &Scan {
                limit,
                ..Scan::default()
            },
        );
        let found: Vec<Vec<u8>> = found.into_iter().map(|(key, _)| key).collect();
        assert_eq!(found, keys[..limit.min(5000)], "limit {limit}");
        assert_eq!(cursor.as_ref(), keys.get(limit), "limit {limit}");
    }
}
