//! Fresh rows of bytes: of a length of their own, and of a fixed one among numbers.

use super::*;

fn column(name: &str, numbers: Numbers, dim: usize) -> Column {
    Column {
        name: name.to_owned(),
        numbers,
        dim,
    }
}

/// A table without a row, and its overlay.
fn bed(columns: Vec<Column>, default_row: &[u8]) -> Bed {
    let schema = Schema {
        columns,
        default_row: Some(default_row.iter().copied().map(f32::from).collect()),
        ..Schema::floats(1)
    };
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("films");
    let writer = Writer::create(&dir, "films", 1, schema, 1).unwrap();
    writer.finish().unwrap();
    let section = OverlaySection {
        path: Some(parent.path().join("log")),
        durability: Durability::Logged,
        segment_bytes_max: 20_000,
        ..OverlaySection::default()
    };
    let table = opened(&dir, &section, Arc::new(RealDisk)).unwrap();
    Bed {
        parent,
        section,
        table,
    }
}

fn of_any_length() -> Bed {
    bed(vec![column("doc", Numbers::VaryingBytes, 0)], b"{}")
}

fn upsert(bed: &Bed, rows: &[(u64, Vec<u8>)], remove: &[u64]) -> Result<Upserted, UpsertError> {
    let keys = rows.iter().map(|row| row.0).collect();
    let bytes: Vec<u8> = rows.iter().flat_map(|row| row.1.clone()).collect();
    let ends = rows.iter().scan(0, |end, row| {
        *end += row.1.len() as u32;
        Some(*end)
    });
    let offsets: Vec<u32> = std::iter::once(0).chain(ends).collect();
    let given = (&*bytes, Some(&*offsets));
    let upsert = Upsert::of_bytes(&bed.table, keys, &[] as &[&str], given, remove.to_vec());
    bed.overlay().upsert_wait(upsert.unwrap())
}

/// The rows of keys and which are there, as lookups answer them.
fn rows_of(bed: &Bed, keys: &[u64]) -> Vec<Option<Vec<u8>>> {
    let mut found = vec![0; keys.len().div_ceil(8)];
    let rows = bed.table.find_rows(keys, &mut found, u64::MAX);
    let mut offsets = vec![0; (keys.len() + 1) * 4];
    let mut values = vec![0; rows.bytes() as usize];
    rows.write(&mut offsets, &mut values);
    let mut only_found = vec![0; found.len()];
    assert_eq!(bed.table.find(keys, &mut only_found), rows.hits());
    assert_eq!(only_found, found);
    let ends: Vec<usize> = offsets
        .as_chunks()
        .0
        .iter()
        .map(|end| u32::from_le_bytes(*end) as usize)
        .collect();
    let rows = ends.windows(2).enumerate().map(|(at, ends)| {
        let row = values[ends[0]..ends[1]].to_vec();
        let is_found = found[at / 8] >> (at % 8) & 1 == 1;
        assert!(is_found || row == b"{}", "the default row");
        is_found.then_some(row)
    });
    rows.collect()
}

#[derive(Debug, Clone)]
enum Step {
    Upsert(Vec<(u64, Vec<u8>)>, Vec<u64>),
    Reopen,
    Fold,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn rows_of_any_length_are_as_they_were_written_last(steps in prop::collection::vec(
        prop_oneof![
            8 => (
                prop::collection::vec((0..30_u64, prop_oneof![0..20_usize, 0..3000_usize]), 0..12),
                prop::collection::vec(0..30_u64, 0..3),
            ).prop_map(|(rows, remove)| {
                let rows = rows.into_iter().map(|(key, length)| {
                    (key, (0..length).map(|at| (at as u8) ^ (length as u8)).collect())
                });
                Step::Upsert(rows.collect(), remove)
            }),
            1 => Just(Step::Reopen),
            1 => Just(Step::Fold),
        ],
        1..25,
    )) {
        let mut bed = of_any_length();
        let mut model = BTreeMap::new();
        for step in steps {
            match step {
                Step::Upsert(rows, remove) if !rows.is_empty() || !remove.is_empty() => {
                    upsert(&bed, &rows, &remove).unwrap();
                    model.extend(rows);
                    model.retain(|key, _| !remove.contains(key));
                }
                Step::Upsert(..) => {}
                Step::Reopen => bed.reopen(),
                Step::Fold if bed.table.chain().len() < crate::LAYERS_MAX => drop(bed.fold()),
                Step::Fold => {}
            }
            let keys: Vec<u64> = (0..30).collect();
            let expected: Vec<_> = keys.iter().map(|key| model.get(key).cloned()).collect();
            prop_assert_eq!(rows_of(&bed, &keys), expected);
        }
        let (mut keys, mut position) = (Vec::new(), Some(0));
        while let Some(at) = position {
            position = bed.table.scan(at, 3, &mut keys);
        }
        keys.sort_unstable();
        prop_assert_eq!(keys, model.keys().copied().collect::<Vec<_>>());
    }
}

#[test]
fn what_was_replaced_takes_no_more_than_as_much_again() {
    let bed = of_any_length();
    for turn in 0..200_u8 {
        let rows: Vec<_> = (0..20).map(|key| (key, vec![turn; 2001])).collect();
        upsert(&bed, &rows, &[]).unwrap();
    }
    assert_eq!(bed.overlay().bytes(), 20 * (4 * 8 + 15 + 2008));
    assert_eq!(rows_of(&bed, &[7, 99]), [Some(vec![199; 2001]), None]);
    upsert(&bed, &[(1, vec![])], &(2..20).collect::<Vec<_>>()).unwrap();
    assert_eq!(bed.overlay().bytes(), 20 * (4 * 8 + 15) + 2008);
    assert_eq!(rows_of(&bed, &[1, 2]), [Some(vec![]), None]);
}

#[test]
fn a_full_overlay_counts_the_bytes_of_rows() {
    let mut bed = of_any_length();
    bed.section.bytes_max = 1000;
    bed.reopen();
    upsert(&bed, &[(1, vec![1; 900])], &[]).unwrap();
    let refused = upsert(&bed, &[(2, vec![2; 100])], &[]).unwrap_err();
    let UpsertError::Full { bytes, more, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!((bytes, more), (47 + 904, 47 + 104));
    upsert(&bed, &[(1, vec![3; 890])], &[]).unwrap();
    upsert(&bed, &[], &[1]).unwrap();
    assert_eq!(bed.overlay().bytes(), 47);
    upsert(&bed, &[(2, vec![2; 100])], &[]).unwrap();
}

/// Readers find whole rows while they are written anew and their memory moves.
#[test]
fn readers_beside_a_writer_find_whole_rows() {
    let bed = of_any_length();
    let row = |key: u64, turn: usize| (key, vec![turn as u8; 10 + turn * 7 % 400]);
    upsert(&bed, &(0..20).map(|key| row(key, 1)).collect::<Vec<_>>(), &[]).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for row in rows_of(&bed, &(0..20).collect::<Vec<_>>()) {
                        let row = row.unwrap();
                        assert!(row.iter().all(|byte| *byte == row[0]));
                        let is_long = (1..300).any(|turn| row == self::row_of(turn));
                        assert!(is_long, "{} bytes of {}", row.len(), row[0]);
                    }
                }
            });
        }
        for turn in 2..300 {
            let rows: Vec<_> = (0..20).map(|key| row(key, turn)).collect();
            upsert(&bed, &rows, &[]).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}

fn row_of(turn: usize) -> Vec<u8> {
    vec![turn as u8; 10 + turn * 7 % 400]
}

#[test]
fn bytes_of_a_fixed_length_are_part_of_the_row() {
    let columns = vec![column("price", Numbers::F32, 1), column("raw", Numbers::Bytes, 3)];
    let mut bed = bed(columns, &[9, 1, 2, 3]);
    let write = |bed: &Bed, columns: &[&str], rows: &[u8]| {
        let upsert = Upsert::of_bytes(&bed.table, vec![5], columns, (rows, None), vec![]);
        bed.overlay().upsert_wait(upsert.unwrap()).unwrap();
    };
    let looked_up = |bed: &Bed| {
        let (mut values, mut found) = ([0.0; 4], [0; 1]);
        bed.table.lookup(&[5], &mut values, &mut found);
        values
    };
    write(&bed, &["raw"], b"\0\r\xff");
    assert_eq!(looked_up(&bed), [9.0, 0.0, 13.0, 255.0]);
    write(&bed, &[], &[&2.5_f32.to_le_bytes()[..], b"abc"].concat());
    let numbers = Upsert::new(&bed.table, vec![5], &["price"], &[0.5], vec![]);
    bed.overlay().upsert_wait(numbers.unwrap()).unwrap();
    bed.reopen();
    assert_eq!(looked_up(&bed), [0.5, 97.0, 98.0, 99.0]);
}

#[test]
fn bytes_that_are_no_rows_are_refused_by_name() {
    let varying = of_any_length();
    let columns = vec![column("price", Numbers::F32, 1), column("raw", Numbers::Bytes, 3)];
    let fixed = bed(columns, &[9, 1, 2, 3]);
    let check = |bed: &Bed, keys: &[u64], rows: &[u8], offsets: Option<&[u32]>, expected: &str| {
        let made = Upsert::of_bytes(&bed.table, keys.to_vec(), &[] as &[&str], (rows, offsets), vec![]);
        let refused = made.unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
    };
    check(&varying, &[], b"", None, "keys: expected at least one key");
    check(&varying, &[1], b"ab", None, "offsets: expected 2");
    check(&varying, &[1, 2], b"ab", Some(&[0, 2]), "offsets: expected 3");
    check(
        &varying,
        &[1],
        b"ab",
        Some(&[0, 1]),
        "offsets: expected 0 first and 2",
    );
    check(
        &varying,
        &[1],
        b"ab",
        Some(&[1, 2]),
        "offsets: expected 0 first and 2",
    );
    check(
        &varying,
        &[1, 2],
        b"ab",
        Some(&[0, 5, 2]),
        "offsets: expected ascending",
    );
    let long = vec![0; crate::ROW_BYTES_MAX + 1];
    check(
        &varying,
        &[1],
        &long,
        Some(&[0, long.len() as u32]),
        "at most 262144 bytes a row",
    );
    check(&fixed, &[1], b"1234567", Some(&[0, 7]), "offsets: expected none");
    check(
        &fixed,
        &[1],
        b"123456",
        None,
        "rows: expected 7 bytes for each of 1 keys, found 6 bytes",
    );
    let infinite = [&f32::INFINITY.to_le_bytes()[..], b"abc"].concat();
    check(&fixed, &[77], &infinite, None, "77");
    for bed in [&varying, &fixed] {
        let refused = Upsert::new(&bed.table, vec![1], &[] as &[&str], &[1.0; 4], vec![]).unwrap_err();
        assert!(
            refused.to_string().contains("holds bytes; send `rows`"),
            "{refused}"
        );
    }
}

#[test]
fn replicas_take_rows_of_any_length_from_each_other_in_pages_of_so_many_bytes() {
    const BYTES_MAX: usize = 600;
    let (one, mut other) = (of_any_length(), of_any_length());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let stamp = |time: u64| Stamp {
        time: ((now.clone().unwrap().as_millis() as u64) << 16) + time,
        origin: 1,
    };
    let write = |bed: &Bed, key: u64, row: &[u8], time: u64| {
        let offsets = [0, row.len() as u32];
        let given = (row, Some(&offsets[..]));
        let upsert = Upsert::of_bytes(&bed.table, vec![key], &[] as &[&str], given, vec![]);
        let upsert = upsert.unwrap().stamped(stamp(time));
        bed.overlay().upsert_wait(upsert).unwrap()
    };
    for key in 0..40 {
        write(&one, key, &vec![key as u8; (key as usize * 37) % 900], key);
    }
    let remove = Upsert::of_stored(&one.table, one.overlay().layout(), vec![7], vec![], stamp(50));
    one.overlay().upsert_wait(remove.unwrap()).unwrap();
    // One is newer there, and stays.
    write(&other, 9, b"newer", 60);
    assert_eq!(write(&other, 9, b"older", 9).newer, stamp(60));
    let (mut position, mut pages) = (Some(0), 0);
    while let Some(at) = position {
        let page = one.overlay().fresh_page(0, at, (40, BYTES_MAX), |_| true);
        let stored = page.stored(one.table.schema());
        let lying = stored_rows(one.table.schema(), &stored).unwrap();
        let before_last = lying.split_last().map_or(&[][..], |(_, before)| before);
        let bytes: usize = before_last.iter().map(|row| row.len() - 4).sum();
        assert!(bytes < BYTES_MAX, "{bytes} before the last row");
        let mut lying = lying.into_iter();
        for fresh in &page.rows {
            let row = fresh.row.as_ref().and_then(|_| lying.next()).unwrap_or_default();
            let layout = one.overlay().layout();
            let upsert = Upsert::of_stored(&other.table, layout, vec![fresh.key], row.to_vec(), fresh.stamp);
            other.overlay().upsert_wait(upsert.unwrap()).unwrap();
        }
        (position, pages) = (page.next, pages + 1);
    }
    assert!(pages > 10, "{pages} pages");
    let keys: Vec<u64> = (0..41).collect();
    let mut expected = rows_of(&one, &keys);
    assert_eq!((&expected[7], &expected[40]), (&None, &None));
    expected[9] = Some(b"newer".to_vec());
    assert_eq!(rows_of(&other, &keys), expected);
    other.reopen();
    assert_eq!(rows_of(&other, &keys), expected);
}

#[test]
fn a_repeated_fold_knows_rows_of_any_length_again() {
    let bed = of_any_length();
    upsert(&bed, &[(1, b"one".to_vec()), (2, vec![])], &[3]).unwrap();
    upsert(&bed, &[(4, vec![7; 5000])], &[]).unwrap();
    let folds = |version| {
        let base = Arc::new(Table::open_version(&bed.dir(), Some(1)).unwrap());
        fold(base, &bed.dir(), version, &bed.wanted(), &|_| true).unwrap()
    };
    assert!(folds(2).written().is_some());
    assert!(matches!(folds(3), FoldVersion::Had(2)));
}
