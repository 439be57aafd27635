//! Random work on a store and on a `BTreeMap` side by side, with closing and opening in between.
//!
//! Invariant under test: both answer the same, always.

use millpond_engines_ordered::{
    Batch, Durability, Effect, Operation, Options, Put, Scan, Store, Versioned, WriteError,
};
use proptest::prelude::*;

use crate::{Contents, contents};

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
        ttl_ms: None,
    });
    let by = prop_oneof![Just(i64::MAX), -5..5i64];
    prop_oneof![
        2 => key().prop_map(|key| Operation::Get { key }),
        3 => put,
        2 => (key(), if_version()).prop_map(|(key, if_version)| Operation::Remove { key, if_version }),
        1 => (key(), by).prop_map(|(key, by)| Operation::Increment { key, by, ttl_ms: None }),
        1 => key().prop_map(|key| Operation::Expire { key, ttl_ms: None }),
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
            ttl_ms: None,
        },
    );
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
        2 => (key(), value()).prop_map(|(key, value)| Step::PutAtItsVersion(key, value)),
        4 => prop::collection::vec(operation(), 1..8).prop_map(Step::Batch),
        2 => key().prop_map(Step::Get),
        4 => scan.prop_map(Step::Scan),
        1 => Just(Step::Reopen),
    ]
}

/// Entries visited, and the cursor.
type Scanned = (Vec<(Vec<u8>, Vec<u8>)>, Option<Vec<u8>>);

#[derive(Default)]
struct Model {
    map: Contents,
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
            if put.if_absent && found != 0 || put.if_version.is_some_and(|wanted| wanted != found) {
                return Err((key.clone(), found));
            }
        }
        let mut versions = vec![];
        for (key, value) in &put.entries {
            self.versions_given += 1;
            versions.push(self.versions_given);
            self.map.insert(key.clone(), (value.clone(), self.versions_given));
        }
        Ok(versions)
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> u64 {
        self.versions_given += 1;
        let versioned = (value.to_vec(), self.versions_given);
        self.map.insert(key.to_vec(), versioned);
        self.versions_given
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
                let versioned = self.map.get(key).cloned();
                let versioned = versioned.map(|(value, version)| Versioned {
                    value,
                    version,
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
                let value = self.map.get(key).map(|(value, _)| value.clone());
                if let Some(value) = &value {
                    self.set(key, value);
                }
                Some(Effect::WasThere(value.is_some()))
            }
            Operation::Increment { by, .. } => {
                let number = match self.map.get(key) {
                    None => 0,
                    Some((value, _)) => {
                        let number: i64 = String::from_utf8(value.clone()).ok()?.parse().ok()?;
                        (number.to_string().as_bytes() == value).then_some(number)?
                    }
                };
                let value = number.checked_add(*by)?;
                let version = self.set(key, value.to_string().as_bytes());
                Some(Effect::Incremented { value, version })
            }
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
            .map(|(key, (value, _))| (key.clone(), value.clone()));
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
        Err(other) => return Err(TestCaseError::fail(other.to_string())),
    };
    prop_assert_eq!(found, expected);
    Ok(())
}

fn same_batch(store: &Store, model: &mut Model, operations: Vec<Operation>) -> Result<(), TestCaseError> {
    let expected = model.batch(&operations);
    let found = match store.write_wait(Batch::of(operations)) {
        Ok(written) => Some(written.effects),
        Err(WriteError::Conflict { .. } | WriteError::NotANumber { .. } | WriteError::Overflow { .. }) => {
            None
        }
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
                    let put = Put { entries: vec![(key, value)], if_version, if_absent: false, ttl_ms: None };
                    same_put(&store, &mut model, put)?;
                }
                Step::Batch(operations) => same_batch(&store, &mut model, operations)?,
                Step::Get(key) => {
                    let found = store.get(&key).map(|found| (found.value.to_vec(), found.version));
                    prop_assert_eq!(found.as_ref(), model.map.get(&key));
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
        }
        prop_assert_eq!(contents(&store), model.map);
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
