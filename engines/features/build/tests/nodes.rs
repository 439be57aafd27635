//! Versions that have the keys of one node: those of all nodes together have every row, as often as it has replicas.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use millpond_engines_features::Table;
use millpond_engines_features_build::{
    Base, BuildOptions, ColumnOptions, Held, Keys, NodeShare, Numbers, Source, build, compact, export,
    inspect,
};

fn share(name: &str, map_version: u64) -> NodeShare {
    NodeShare {
        name: name.to_owned(),
        map_version,
        buckets: 2,
        held: "1".to_owned(),
    }
}

/// Holds the keys with that remainder.
fn held(name: &str, remainder: u64) -> Held {
    Held::new(share(name, 5), move |key| key % 2 == remainder)
}

fn options(dir: &Path, text: &str, held: Option<Held>) -> BuildOptions {
    fs::write(dir.join("rows.csv"), text).unwrap();
    BuildOptions {
        inputs: vec![dir.join("rows.csv").display().to_string()],
        held,
        ..BuildOptions::new(dir, "t")
    }
}

fn keys(dir: &Path) -> BTreeSet<u64> {
    let output = dir.join(format!("{}.csv", fs::read_dir(dir).unwrap().count()));
    export(&dir.join("t"), None, &output).unwrap();
    let text = fs::read_to_string(output).unwrap();
    let keys = text.lines().skip(1).map(|line| line.split(',').next().unwrap());
    keys.map(|key| key.parse().unwrap()).collect()
}

#[test]
fn a_node_has_its_keys_alone_through_deltas_and_folds() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut text = "key,x\n".to_owned();
    (0..100).for_each(|key| writeln!(text, "{key},{key}").unwrap());
    build(&options(dir, &text, Some(held("a", 1))), &mut |_| {}).unwrap();
    let odd = |end: u64| (0..end).filter(|key| key % 2 == 1).collect::<BTreeSet<_>>();
    assert_eq!(keys(dir), odd(100));
    let shown = inspect(&dir.join("t")).unwrap();
    assert_eq!(shown.node, Some(share("a", 5)));
    assert!(
        shown.to_string().contains("node      a of map 5, buckets 1 of 2"),
        "{shown}"
    );

    fs::write(dir.join("gone.csv"), "key\n0\n1\n2\n3\n").unwrap();
    let delta = |held| BuildOptions {
        base: Some(Base::Newest),
        remove: vec![dir.join("gone.csv").display().to_string()],
        ..options(dir, "key,x\n100,1\n101,1\n", held)
    };
    build(&delta(Some(held("a", 1))), &mut |_| {}).unwrap();
    let mut expected = odd(102);
    expected.retain(|key| *key > 3);
    assert_eq!(keys(dir), expected);
    for other in [None, Some(held("b", 1)), Some(Held::new(share("a", 6), |_| true))] {
        let error = build(&delta(other), &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("it is for node a of map 5"), "{error}");
    }
    compact(&dir.join("t"), None, None, 1, 1 << 20).unwrap();
    assert_eq!(keys(dir), expected);
    let folded = Table::open_version(&dir.join("t"), None).unwrap();
    assert_eq!((folded.version(), folded.node()), (3, Some(&share("a", 5))));
    // What another node does not fit into is not a part of a whole table.
    let whole = tempfile::tempdir().unwrap();
    build(&options(whole.path(), &text, None), &mut |_| {}).unwrap();
    let delta = BuildOptions {
        base: Some(Base::Newest),
        ..options(whole.path(), &text, Some(held("a", 1)))
    };
    let error = build(&delta, &mut |_| {}).unwrap_err().to_string();
    assert!(
        error.contains("it is for all nodes, the delta for node a"),
        "{error}"
    );
}

#[test]
fn a_node_may_hold_none_of_the_keys_and_texts_go_by_their_hash() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    build(
        &options(dir, "key,x\n2,1\n4,1\n", Some(held("a", 1))),
        &mut |_| {},
    )
    .unwrap();
    assert_eq!(Table::open_version(&dir.join("t"), None).unwrap().rows(), 0);

    let column = |name: &str, numbers, width| ColumnOptions {
        name: name.to_owned(),
        source: Source::Columns(vec![name.to_owned()]),
        numbers: Some(numbers),
        width,
    };
    let columns = BuildOptions {
        columns: vec![
            column("x", Numbers::F32, None),
            column("y", Numbers::Bytes, Some(1)),
        ],
        out_dir: dir.join("bytes"),
        ..options(dir, "key,x,y\n1,1,a\n2,1,b\n3,1,c\n", Some(held("a", 1)))
    };
    assert_eq!(build(&columns, &mut |_| {}).unwrap().rows, 2);

    let texts = ["drama", "comedy", "noir", "western"];
    let slot = Keys::Text {
        slot: "genre".to_owned(),
    };
    let mut rows = 0;
    for remainder in 0..2 {
        let options = BuildOptions {
            keys: Some(slot.clone()),
            out_dir: dir.join(format!("texts{remainder}")),
            ..options(
                dir,
                &format!("key,x\n{}", texts.map(|text| format!("{text},1\n")).concat()),
                Some(held("a", remainder)),
            )
        };
        rows += build(&options, &mut |_| {}).unwrap().rows;
        let table = Table::open_version(&dir.join(format!("texts{remainder}/t")), None).unwrap();
        for text in texts {
            let key = slot.of_text(text).unwrap();
            assert_eq!(table.contains(key), key % 2 == remainder, "{text}");
        }
    }
    assert_eq!(rows, 4);
}
