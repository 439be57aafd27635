//! The index against a map, with keys that come and go, that were chosen, and that are read meanwhile.
#![allow(clippy::unwrap_used)]
use super::super::seed::fixed;
use super::*;
use crate::hash::key_of;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

/// Bytes of a row: some words and a bit.
const ROW_BYTES: usize = 43;

/// Its row is of one number, so that one of two rows shows.
fn entry(key: u64, sequence: u64) -> Entry<Vec<u8>> {
    let bytes = sequence.to_le_bytes();
    let row = bytes.iter().cycle().take(ROW_BYTES).copied().collect();
    Entry {
        key,
        sequence,
        written_ms: sequence / 2,
        stamp: Stamp::default(),
        row: (!sequence.is_multiple_of(3)).then_some(row),
    }
}

/// The sequence of a key's entry, which is whole.
fn sequence_of(index: &Index, key: u64) -> Option<u64> {
    let mut row = Vec::new();
    let slots = index.pin();
    let found = slots.find_first::<true>(key, &mut row)?;
    let expected = entry(key, found.sequence);
    assert_eq!(found.row.map(|()| &row), expected.row.as_ref());
    assert_eq!((found.key, found.written_ms), (key, expected.written_ms));
    assert!(slots.filter().may_have(crate::hash::hash(key)));
    assert_eq!(slots.candidates(&mut [slots.sought(slots.hash(key))], 1), 1);
    Some(found.sequence)
}

fn all_keys(index: &Index, most: (usize, usize), cut: u32) -> Vec<u64> {
    let (mut keys, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        let (page, next) = index.pin().keys_from(at, most, cut, |_| true);
        keys.extend(page.iter().map(|found| found.1));
        assert!(next.is_none_or(|next| next > at));
        from = next;
    }
    keys
}

/// Keys for which that holds of their hashes by the first fixed seed.
fn keys_whose(is_so: impl Fn(u64) -> bool) -> Vec<u64> {
    let seed = fixed(0);
    let keys = (0..).filter(|key| is_so(seed.mix(crate::hash::hash(*key)).0));
    keys.take(300).collect()
}
static ANY: LazyLock<Vec<u64>> = LazyLock::new(|| keys_whose(|_| true));
static OF_ONE_HOME: LazyLock<Vec<u64>> = LazyLock::new(|| keys_whose(|hash| hash >> 54 == (1 << 10) - 1));
static OF_ONE_TAG: LazyLock<Vec<u64>> = LazyLock::new(|| keys_whose(|hash| hash & 0x7ff == 0x2ff));

proptest! {
    #[test]
    fn it_is_a_map(
        changes in prop::collection::vec((0..300_u64, 0..8_u8), 0..2000),
        // Some keys have one home, and some one tag or one eighth too.
        keys in prop::sample::select(vec![
            &*ANY,
            &*OF_ONE_HOME,
            &*OF_ONE_TAG,
        ]),
        stamped_from in prop::option::of(1..100_u64),
    ) {
        let stamp_of = |sequence: u64| match stamped_from {
            Some(from) if sequence >= from => Stamp { time: sequence, origin: !sequence },
            _ => Stamp::default(),
        };
        let key_of = |number: u64| keys[number as usize];
        let (index, mut writer) = Index::with_seed(fixed(0), ROW_BYTES);
        let mut model = BTreeMap::new();
        for (sequence, (number, kind)) in (1..).zip(changes) {
            if kind == 0 {
                let goes = |key: u64| key % 7 == key_of(number) % 7;
                let (count, next) = writer.take_away(0, usize::MAX, |entry| goes(entry.key));
                let before = model.len();
                model.retain(|key: &u64, _| !goes(*key));
                prop_assert_eq!((count as usize, next), (before - model.len(), None));
            } else {
                let stamp = stamp_of(sequence);
                writer.put(&Entry { stamp, ..entry(key_of(number), sequence) });
                model.insert(key_of(number), sequence);
            }
        }
        for key in (0..300).map(key_of) {
            prop_assert_eq!(sequence_of(&index, key), model.get(&key).copied());
            let found = writer.get(key).map(|entry| (entry.sequence, entry.stamp));
            prop_assert_eq!(found, model.get(&key).map(|sequence| (*sequence, stamp_of(*sequence))));
        }
        prop_assert_eq!(index.len(), model.len() as u64);
        prop_assert_eq!(index.bytes(), model.len() as u64 * index.entry_bytes());
        prop_assert!([9 * 8 + 15, 11 * 8 + 15].contains(&index.entry_bytes()));
        for cut in [0, 17, 50] {
            let mut keys = all_keys(&index, (5, 20), cut);
            keys.sort_unstable();
            prop_assert_eq!(keys, model.keys().copied().collect::<Vec<_>>());
        }
    }
}

#[test]
fn keys_that_are_not_there_have_no_candidate_but_for_few() {
    let (index, mut writer) = Index::with_seed(fixed(0), ROW_BYTES);
    (0..20_000).for_each(|key| writer.put(&entry(key, 1)));
    let slots = index.pin();
    let absent: Vec<u64> = (1_000_000..1_100_000).collect();
    let candidates = absent.chunks(64).map(|keys| {
        let mut sought = [Sought::default(); 64];
        let places = sought.iter_mut().zip(keys);
        places.for_each(|(place, key)| *place = slots.sought(slots.hash(*key)));
        let asked = u64::MAX >> (64 - keys.len());
        slots.candidates(&mut sought, asked).count_ones()
    });
    // A tag of one in 255, of seven places or a few more.
    assert!(candidates.sum::<u32>() < 4_000);
}

/// Groups from the homes of all keys to where they lie.
fn walked(writer: &Writer, keys: &[u64]) -> usize {
    let walked = keys.iter().map(|&key| {
        let hash = writer.slots.hash(key);
        match writer.slots.spot(key, hash) {
            Spot::There(place) => place / GROUP - writer.slots.home(hash),
            _ => panic!("key {key} is not there"),
        }
    });
    walked.sum()
}

#[test]
fn keys_that_were_chosen_by_the_formats_hash_lie_apart() {
    const KEYS: u64 = 5000;
    // By it alone all would lie behind one home, and the last of them behind 700 full groups.
    let chosen: [fn(u64) -> u64; 4] = [
        |number| key_of(u64::MAX - number),
        |number| key_of(number << 11),
        |number| key_of(0xabcd << 48 | number << 3),
        |number| number,
    ];
    for keys in chosen.map(|key| (0..KEYS).map(key).collect::<Vec<_>>()) {
        for seed in 0..4 {
            let (_, mut writer) = Index::with_seed(fixed(seed), ROW_BYTES);
            keys.iter().for_each(|key| writer.put(&entry(*key, 1)));
            let groups = walked(&writer, &keys);
            assert!(groups < keys.len(), "{groups} groups by seed {seed}");
        }
    }
}

#[test]
fn keys_that_were_chosen_by_the_seed_of_another_process_lie_apart() {
    let (_, mut writer) = Index::with_seed(fixed(0), ROW_BYTES);
    OF_ONE_HOME.iter().for_each(|key| writer.put(&entry(*key, 1)));
    assert!(walked(&writer, &OF_ONE_HOME) > 5 * OF_ONE_HOME.len());
    let (_, mut writer) = Index::with_seed(fixed(1), ROW_BYTES);
    OF_ONE_HOME.iter().for_each(|key| writer.put(&entry(*key, 1)));
    assert!(walked(&writer, &OF_ONE_HOME) < OF_ONE_HOME.len());
}

#[test]
fn what_was_left_is_used_again_and_given_back() {
    let (index, mut writer) = Index::with_seed(fixed(0), ROW_BYTES);
    for sequence in 1..50 {
        (0..5000).for_each(|key| writer.put(&entry(key, sequence)));
    }
    assert!(writer.cells <= 5000 + RESTING as u32 + 1, "{}", writer.cells);
    writer.take_away(0, usize::MAX, |entry| entry.key >= 1000);
    assert_eq!(writer.cells, 1000);
    assert!(index.pin().capacity() < 3000);
    // Keys that come and go leave places that others use.
    for turn in 0..100 {
        (0..500).for_each(|key| writer.put(&entry(5000 + turn * 500 + key, 1)));
        writer.take_away(0, usize::MAX, |entry| entry.key >= 5000);
    }
    assert!(index.pin().capacity() < 4000);
    assert_eq!(all_keys(&index, (100, 1000), 17).len(), 1000);
}

/// Readers find of each key one of its entries, never none and none older than before, while a writer replaces them, other
/// keys come and go, and the index grows and shrinks.
#[test]
fn readers_never_miss_what_is_there() {
    const KEYS: u64 = 50;
    let (index, mut writer) = Index::with_seed(fixed(0), ROW_BYTES);
    (0..KEYS).for_each(|key| writer.put(&entry(key, 1)));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = [0; KEYS as usize];
                while !done.load(Ordering::Relaxed) {
                    for (key, last) in (0..).zip(&mut last) {
                        let found = sequence_of(&index, key).unwrap();
                        assert!(found >= *last);
                        *last = found;
                    }
                    let scanned = all_keys(&index, (20, 100), 17);
                    assert_eq!(scanned.iter().filter(|key| **key < KEYS).count() as u64, KEYS);
                }
            });
        }
        for sequence in 2..1000 {
            (0..KEYS).for_each(|key| writer.put(&entry(key, sequence)));
            (0..20).for_each(|key| writer.put(&entry(1000 + sequence * 20 + key, sequence)));
            if sequence % 300 == 0 {
                writer.take_away(0, usize::MAX, |entry| entry.key >= KEYS);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
