//! Upserts, removals, restarts and folds in any order against a naive model.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Upsert(Vec<(u64, i8)>),
    Column(u64, i8),
    Remove(Vec<u64>),
    Skip(u64),
    Reopen,
    Fold,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..20_u64;
    let step = prop_oneof![
        4 => prop::collection::vec((key.clone(), any::<i8>()), 1..5).prop_map(Step::Upsert),
        2 => (key.clone(), any::<i8>()).prop_map(|(key, value)| Step::Column(key, value)),
        2 => prop::collection::vec(key, 1..4).prop_map(Step::Remove),
        1 => (0..1500_u64).prop_map(Step::Skip),
        1 => Just(Step::Reopen),
        1 => Just(Step::Fold),
    ];
    prop::collection::vec(step, 1..25)
}

/// What a key has: in the versions, and, with the time of its writing, in the overlay.
#[derive(Default)]
struct Model {
    base: BTreeMap<u64, [f32; 3]>,
    fresh: BTreeMap<u64, (u64, u64, Option<[f32; 3]>)>,
    now: u64,
    sequence: u64,
}

impl Model {
    fn row(&self, key: u64, ttl: Option<u64>) -> Option<[f32; 3]> {
        match self.fresh.get(&key) {
            Some((written, _, row)) if ttl.is_none_or(|ttl| written + ttl >= self.now) => *row,
            _ => self.base.get(&key).copied(),
        }
    }

    fn write(&mut self, key: u64, row: Option<[f32; 3]>) {
        self.fresh.insert(key, (self.now, self.sequence, row));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Time is the model's own, in steps far longer than the test takes.
    #[test]
    fn lookups_see_what_a_naive_model_says(steps in steps(), is_mortal: bool, is_small: bool) {
        const UNIT_MS: u64 = 1_000_000;
        let ttl = is_mortal.then_some(1000);
        let mut bed = Bed::new(|section| {
            section.ttl_ms = ttl.map(|ttl| ttl * UNIT_MS + UNIT_MS / 2);
            // So small a log is gone through all the time.
            section.segment_bytes_max = if is_small { 300 } else { 1 << 20 };
        });
        let mut model = Model { base: (0..10).map(|key| (key, base_row(key))).collect(), ..Model::default() };
        for step in steps {
            match step {
                Step::Upsert(rows) => {
                    model.sequence += 1;
                    let keys: Vec<u64> = rows.iter().map(|row| row.0).collect();
                    let values: Vec<f32> = rows.iter().flat_map(|row| [f32::from(row.1); 3]).collect();
                    prop_assert_eq!(bed.upsert(&keys, &values).unwrap().sequence >= model.sequence, true);
                    rows.iter().for_each(|(key, value)| model.write(*key, Some([f32::from(*value); 3])));
                }
                Step::Column(key, value) => {
                    model.sequence += 1;
                    let upsert = Upsert::new(&bed.table, vec![key], &["b"], &[value.into()], vec![]).unwrap();
                    bed.overlay().upsert_wait(upsert).unwrap();
                    let mut row = model.row(key, ttl).unwrap_or([-1.0, -2.0, -3.0]);
                    row[2] = value.into();
                    model.write(key, Some(row));
                }
                Step::Remove(keys) => {
                    model.sequence += 1;
                    bed.remove(&keys).unwrap();
                    keys.iter().for_each(|key| model.write(*key, None));
                }
                Step::Skip(units) if is_mortal => {
                    bed.overlay().skip_ms(units * UNIT_MS);
                    model.now += units;
                }
                Step::Skip(_) => {}
                // The clock of a new overlay is not ahead, as if the system's had been set back.
                Step::Reopen if is_mortal => {}
                Step::Reopen => bed.reopen(),
                Step::Fold if is_mortal => {}
                Step::Fold => {
                    if bed.table.chain().len() < crate::LAYERS_MAX && bed.fold().is_some() {
                        // All but the last group, which was one upsert; what each wrote shows either way.
                        let last = model.fresh.values().map(|fresh| fresh.1).max().unwrap_or_default();
                        for (key, (_, sequence, row)) in std::mem::take(&mut model.fresh) {
                            if sequence == last {
                                model.fresh.insert(key, (0, sequence, row));
                            } else {
                                match row {
                                    Some(row) => drop(model.base.insert(key, row)),
                                    None => drop(model.base.remove(&key)),
                                }
                            }
                        }
                    }
                }
            }
            for key in 0..20 {
                prop_assert_eq!(looked_up(&bed.table, key), model.row(key, ttl), "key {}", key);
            }
            let (mut keys, mut position) = (Vec::new(), Some(0));
            while let Some(at) = position {
                position = bed.table.scan(at, 3, &mut keys);
            }
            keys.sort_unstable();
            let expected: Vec<u64> = (0..20).filter(|key| model.row(*key, ttl).is_some()).collect();
            prop_assert_eq!(keys, expected);
        }
    }
}
