//! Changes of a catalog that serves: what a call sees, what it keeps alive, and what a change that fails leaves.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_catalog::{Catalog, Handle, ModelSection, Resources, Sections};
use millpond_engines_batcher::Request;
use millpond_engines_features::{self as features, Schema, write::Writer};
use millpond_tensor::Tensor;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

const DIM: usize = 4;
const ROWS: u64 = 500;

/// Every value of a version is its number.
fn write(dir: &Path, version: u64) {
    let mut writer = Writer::create(dir, "films", version, Schema::floats(DIM), 2).unwrap();
    for key in 0..ROWS {
        writer.push(key, &[version as f32; DIM]).unwrap();
    }
    writer.finish().unwrap();
}

/// A catalog with that version of the table of that folder.
fn films(dir: &Path, version: Option<u64>) -> Handle {
    films_that_hold(dir, version, 2)
}

/// The same with another number of versions that stay.
fn films_that_hold(dir: &Path, version: Option<u64>, versions_held: usize) -> Handle {
    let section = features::Section {
        version,
        versions_held,
        ..features::Section::of(dir.to_owned())
    };
    let sections = Sections {
        features: BTreeMap::from([("films".to_owned(), section)]),
        ..Sections::default()
    };
    Handle::open(sections, Resources::default()).unwrap()
}

fn version(catalog: &Catalog) -> u64 {
    catalog.tables["films"].version()
}

#[test]
fn a_damaged_version_is_not_activated() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1);
    write(dir.path(), 2);
    let handle = films(dir.path(), Some(1));
    let path = dir.path().join("00000002/shard-00001.mpf");
    let mut bytes = fs::read(&path).unwrap();
    bytes[200] ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = handle.activate("films", 2).unwrap_err().to_string();
    assert!(error.contains("shard-00001.mpf is damaged"), "{error}");
    assert!(handle.activate("films", 3).is_err());
    assert!(handle.activate("actors", 1).is_err());
    assert_eq!(version(&handle.pin()), 1);
}

#[test]
fn readers_see_one_version_in_one_lookup_while_it_is_switched() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1);
    write(dir.path(), 2);
    let handle = Arc::new(films(dir.path(), Some(1)));
    let stop = Arc::new(AtomicBool::new(false));
    let table = Arc::clone(&handle.pin().tables["films"]);
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (handle, stop) = (Arc::clone(&handle), Arc::clone(&stop));
            thread::spawn(move || read_until(&handle, &stop))
        })
        .collect();
    for round in 0..100 {
        let next = 2 - round % 2;
        handle.activate("films", next).unwrap();
        assert_eq!(version(&handle.pin()), next);
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.join().unwrap() > 0);
    }
    // A version outlives its folder while someone holds it.
    handle.activate("films", 2).unwrap();
    fs::remove_dir_all(dir.path().join("00000001")).unwrap();
    assert_eq!(table.version(), 1);
    table.verify().unwrap();
    assert_eq!(features::versions(dir.path()).unwrap(), [2]);
}

#[test]
fn a_change_outlasts_those_who_hold_what_it_replaced() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1);
    write(dir.path(), 2);
    let handle = films_that_hold(dir.path(), Some(1), 0);
    let pinned = handle.pin();
    let table = Arc::downgrade(&pinned.tables["films"]);
    thread::scope(|scope| {
        let change = scope.spawn(|| handle.activate("films", 2));
        while version(&handle.pin()) == 1 {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(50));
        assert!(!change.is_finished(), "its thread is to unmap the table");
        drop(pinned);
        change.join().unwrap().unwrap();
    });
    assert!(table.upgrade().is_none());
}

/// The versions that are open, the one that serves first.
fn open(handle: &Handle) -> Vec<u64> {
    let pinned = handle.pin();
    pinned.versions("films").map(|table| table.version()).collect()
}

#[test]
fn versions_that_were_served_are_held_and_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    (1..=4).for_each(|version| write(dir.path(), version));
    let handle = films(dir.path(), Some(1));
    let first = Arc::as_ptr(&handle.pin().tables["films"]);
    handle.activate("films", 2).unwrap();
    assert_eq!(open(&handle), [2, 1]);
    let before = |handle: &Handle| handle.pin().past["films"].before;
    assert_eq!(before(&handle), Some(1));
    // The files of one that is held may be gone or damaged.
    let path = dir.path().join("00000001/shard-00001.mpf");
    fs::write(&path, b"damaged").unwrap();
    handle.activate("films", 1).unwrap();
    assert_eq!(Arc::as_ptr(&handle.pin().tables["films"]), first);
    assert_eq!((open(&handle), before(&handle)), (vec![1, 2], Some(2)));
    handle.activate("films", 1).unwrap();
    assert_eq!(
        (open(&handle), before(&handle)),
        (vec![1, 2], Some(2)),
        "nothing to do"
    );
    handle.activate("films", 3).unwrap();
    handle.activate("films", 4).unwrap();
    assert_eq!(open(&handle), [4, 3, 1], "two of them beside");
    // It was built anew meanwhile, so what is held is another one.
    fs::remove_dir_all(dir.path().join("00000003")).unwrap();
    let mut writer = Writer::create(dir.path(), "films", 3, Schema::floats(DIM), 1).unwrap();
    writer.push(1, &[33.0; DIM]).unwrap();
    writer.finish().unwrap();
    handle.activate("films", 3).unwrap();
    assert_eq!(handle.pin().tables["films"].rows(), 1);
    assert_eq!(open(&handle), [3, 4, 1]);
}

#[test]
fn a_version_of_other_columns_or_keys_is_not_activated() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1);
    let handle = films(dir.path(), None);
    let check = |version: u64, name: &str, schema: Schema, words: &str| {
        let dim = schema.dim();
        let mut writer = Writer::create(dir.path(), name, version, schema, 1).unwrap();
        writer.push(1, &vec![0.5; dim]).unwrap();
        writer.finish().unwrap();
        let error = handle.activate("films", version).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(open(&handle), [1]);
    };
    check(
        2,
        "films",
        Schema::floats(DIM + 1),
        "version 2 has the columns vector (5), expected vector (4) as in version 1",
    );
    check(
        3,
        "actors",
        Schema::floats(DIM),
        "version 3 is of table \"actors\", expected \"films\"",
    );
    let keys = features::Keys::Text {
        slot: "genre".to_owned(),
    };
    let texts = Schema {
        keys,
        ..Schema::floats(DIM)
    };
    let mut writer = Writer::create(dir.path(), "films", 5, texts, 1).unwrap();
    writer.push_text("drama", &[0.5; DIM]).unwrap();
    writer.finish().unwrap();
    let error = handle.activate("films", 5).unwrap_err().to_string();
    let words =
        "version 5 has keys that are texts, hashed in slot \"genre\", expected numbers as in version 1";
    assert!(error.contains(words), "{error}");
    // Callers do not see how numbers are stored.
    let mut schema = Schema::floats(DIM);
    schema.columns[0].numbers = features::Numbers::F16;
    Writer::create(dir.path(), "films", 4, schema, 1)
        .unwrap()
        .finish()
        .unwrap();
    handle.activate("films", 4).unwrap();
}

/// A restart would serve the other rows.
#[test]
fn a_version_whose_folder_was_replaced_is_not_activated_as_the_one_that_serves() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1);
    write(dir.path(), 2);
    let handle = films(dir.path(), None);
    features::delete_version(dir.path(), 2).unwrap();
    handle.activate("films", 2).unwrap();
    let mut writer = Writer::create(dir.path(), "films", 2, Schema::floats(DIM), 1).unwrap();
    writer.push(0, &[7.0; DIM]).unwrap();
    writer.finish().unwrap();
    let error = handle.activate("films", 2).unwrap_err().to_string();
    assert!(
        error.contains("version 2 serves") && error.contains("has been replaced"),
        "{error}"
    );
    // Once another one serves, the new rows may, too.
    handle.activate("films", 1).unwrap();
    handle.activate("films", 2).unwrap();
    assert_eq!(handle.pin().tables["films"].rows(), 1);
}

#[test]
fn what_is_prepared_serves_when_it_is_committed_and_never_else() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1);
    write(dir.path(), 2);
    let handle = films(dir.path(), Some(1));
    drop(handle.prepare_version("films", 2).unwrap());
    assert_eq!(open(&handle), [1]);
    let prepared = handle.prepare_version("films", 2).unwrap();
    assert_eq!(open(&handle), [1]);
    prepared.commit(|_| assert_eq!(open(&handle), [2, 1]));
    assert!(handle.prepare_version("films", 3).is_err());
    assert_eq!(open(&handle), [2, 1]);
}

/// Looks up all keys again and again; returns how often.
fn read_until(handle: &Handle, stop: &AtomicBool) -> usize {
    let keys: Vec<u64> = (0..ROWS).collect();
    let mut values = vec![0.0; keys.len() * DIM];
    let mut found = vec![0; keys.len().div_ceil(8)];
    let mut lookups = 0;
    loop {
        let catalog = handle.pin();
        let table = &catalog.tables["films"];
        assert_eq!(table.lookup(&keys, &mut values, &mut found), keys.len());
        let version = table.version() as f32;
        assert!(values.iter().all(|&value| value == version));
        lookups += 1;
        if stop.load(Ordering::Relaxed) {
            return lookups;
        }
    }
}

/// A model whose runs take so long.
fn model(us: u64) -> ModelSection {
    toml::from_str(&format!(
        "backend = \"practice\"\nbehaviour = \"wait\"\nus = {us}"
    ))
    .unwrap()
}

fn models(named: &[(&str, u64)]) -> Handle {
    let models = named.iter().map(|(name, us)| ((*name).to_owned(), model(*us)));
    let sections = Sections {
        models: models.collect(),
        ..Sections::default()
    };
    Handle::open(sections, Resources::default()).unwrap()
}

/// A call of the model that this catalog has under that name; it holds nothing else of it.
fn call(catalog: &Catalog, name: &str) -> mpsc::Receiver<bool> {
    let (answers, answer) = mpsc::sync_channel(1);
    let request = Request {
        source: 0,
        priority: Default::default(),
        inputs: vec![Tensor::new(vec![1, 1], vec![1.0_f32]).unwrap()],
        rows: 1,
        deadline: None,
        gone: Arc::default(),
        kept_bytes: 0,
        done: Box::new(move |result| answers.send(result.is_ok()).unwrap()),
    };
    assert!(catalog.models[name].batcher.submit(request).is_ok());
    answer
}

#[test]
fn what_did_not_change_is_shared() {
    let handle = models(&[("a", 0), ("b", 0)]);
    handle.warm().unwrap();
    let before = handle.pin();
    let batcher = |catalog: &Catalog, name: &str| Arc::clone(&catalog.models[name].batcher);
    let (a, b) = (batcher(&before, "a"), batcher(&before, "b"));
    let second = ModelSection {
        version: 2,
        ..model(0)
    };
    thread::scope(|scope| {
        // It waits for those who hold the catalog before it.
        let change = scope.spawn(|| handle.load_model("b", second));
        while Arc::ptr_eq(&b, &batcher(&handle.pin(), "b")) {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(Arc::ptr_eq(&a, &batcher(&handle.pin(), "a")));
        assert_eq!(
            (before.models["b"].version, handle.pin().models["b"].version),
            (1, 2)
        );
        // Its model still answers them.
        assert!(call(&before, "b").recv().unwrap());
        assert!(!change.is_finished());
        drop(before);
        change.join().unwrap().unwrap();
    });
    assert!(call(&handle.pin(), "b").recv().unwrap());
}

#[test]
fn a_model_is_loaded_anew_under_the_same_section() {
    let handle = models(&[("a", 0), ("b", 0)]);
    let batcher = |name: &str| Arc::as_ptr(&handle.pin().models[name].batcher);
    let (a, b) = (batcher("a"), batcher("b"));
    // Its file may be another one by now.
    handle.load_model("a", model(0)).unwrap();
    assert!(batcher("a") != a && batcher("b") == b);
}

#[test]
fn a_call_keeps_its_own_model_alive_and_no_other() {
    let handle = models(&[("slow", 300_000), ("other", 0)]);
    let (slow, other) = {
        let pinned = handle.pin();
        let weak = |name: &str| Arc::downgrade(&pinned.models[name].batcher);
        (weak("slow"), weak("other"))
    };
    let answer = call(&handle.pin(), "slow");
    handle.unload_model("other").unwrap();
    assert!(other.upgrade().is_none(), "nobody holds it");
    assert!(answer.try_recv().is_err(), "the call still runs");
    handle.unload_model("slow").unwrap();
    assert!(answer.recv().unwrap(), "it was answered before its model ended");
    assert!(slow.upgrade().is_none());
}

#[test]
fn a_way_back_leads_to_what_served_before() {
    let handle = models(&[("a", 0)]);
    assert!(handle.roll_back().is_err());
    handle
        .load_model(
            "a",
            ModelSection {
                version: 7,
                ..model(0)
            },
        )
        .unwrap();
    handle.roll_back().unwrap();
    assert_eq!(handle.pin().models["a"].version, 1);
    handle.roll_back().unwrap();
    assert_eq!(handle.pin().models["a"].version, 7);
}

#[test]
fn a_way_back_leads_to_the_version_that_was_the_newest_then() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1);
    let handle = films(dir.path(), None);
    write(dir.path(), 2);
    for _ in 0..2 {
        handle.activate("films", 2).unwrap();
        handle.roll_back().unwrap();
        assert_eq!(version(&handle.pin()), 1);
    }
    handle.roll_back().unwrap();
    assert_eq!(version(&handle.pin()), 2);
}

#[test]
fn a_change_that_does_not_fit_changes_nothing() {
    let handle = models(&[("a", 0), ("b", 0)]);
    let check = |changed: Result<(), millpond_catalog::Error>, words: &str| {
        let error = changed.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(handle.pin().models.len(), 2);
        assert!(call(&handle.pin(), "a").recv().unwrap());
    };
    check(
        handle.unload_model("c"),
        "models.c: nothing of that name is served",
    );
    let mut wide = model(0);
    wide.batcher.instances = 0;
    check(handle.load_model("a", wide), "models.a.instances is 0");
    let lost: ModelSection = toml::from_str("path = \"none.onnx\"").unwrap();
    check(
        handle.load_model("c", lost),
        "models.c.path: none.onnx is no file",
    );
    let default = handle.change(|sections| {
        sections.default_model = Some("c".into());
        Ok(())
    });
    check(default, "default_model is \"c\"");
    assert!(handle.roll_back().is_err(), "nothing was changed");
}

#[test]
fn a_store_stays_as_it_was_opened() {
    let store = toml::from_str("durability = \"memory\"").unwrap();
    let sections = Sections {
        ordered: BTreeMap::from([("events".to_owned(), store)]),
        ..Sections::default()
    };
    let handle = Handle::open(sections, Resources::default()).unwrap();
    let changed = handle.change(|sections| {
        sections.ordered.clear();
        Ok(())
    });
    assert!(
        changed
            .unwrap_err()
            .to_string()
            .contains("ordered.events: a store stays")
    );
    handle.load_model("a", model(0)).unwrap();
    assert_eq!(handle.pin().stores.len(), 1);
}

#[test]
fn a_way_back_keeps_stores_that_were_added_and_the_default() {
    let store = || toml::from_str("durability = \"memory\"").unwrap();
    let sections = Sections {
        ordered: BTreeMap::from([("events".to_owned(), store())]),
        ..Sections::default()
    };
    let handle = Handle::open(sections, Resources::default()).unwrap();
    let added = handle.change(|sections| {
        sections.ordered.insert("clicks".to_owned(), store());
        sections.default_store = Some("clicks".to_owned());
        Ok(())
    });
    added.unwrap();
    handle.roll_back().unwrap();
    assert_eq!(handle.pin().stores.len(), 2);
    assert_eq!(handle.pin().sections().store_default(), Some("events"));
    handle.roll_back().unwrap();
    assert_eq!(handle.pin().sections().store_default(), Some("clicks"));
}

/// A call over nodes asks for the version that all of them serve, which may be one that is only held here.
#[test]
fn what_a_spread_table_has_folded_stays_while_a_version_without_it_is_held() {
    for (spread, left) in [(false, 1), (true, 2)] {
        let dir = tempfile::tempdir().unwrap();
        let (tables, log) = (dir.path().join("films"), dir.path().join("log"));
        write(&tables, 1);
        let section = features::Section {
            spread,
            overlay: Some(features::OverlaySection {
                path: Some(log.clone()),
                durability: features::Durability::Logged,
                ..features::OverlaySection::default()
            }),
            ..features::Section::of(tables.clone())
        };
        let sections = Sections {
            features: BTreeMap::from([("films".to_owned(), section)]),
            ..Sections::default()
        };
        let handle = Handle::open(sections, Resources::default()).unwrap();
        let first = Arc::clone(&handle.pin().tables["films"]);
        let overlay = Arc::clone(first.overlay().unwrap());
        // A fold beside a writer leaves the last of them.
        for key in [7, 8] {
            let (done, ended) = mpsc::sync_channel(1);
            let upsert = features::Upsert::new(&first, vec![key], &[] as &[&str], &[9.0; DIM], vec![]);
            overlay.upsert(upsert.unwrap(), move |result| {
                done.send(result.is_ok()).unwrap();
            });
            assert!(ended.recv().unwrap());
        }
        let fold = features::Fold {
            log: &log,
            sequence: None,
            before_ms: None,
            is_rebuilt: false,
            ttl_ms: None,
            shards: 1,
        };
        let base = Arc::new(features::Table::open_version(&tables, None).unwrap());
        features::fold(base, &tables, 2, &fold, &|_| true)
            .unwrap()
            .written()
            .unwrap();
        handle.activate("films", 2).unwrap();
        assert_eq!(overlay.len(), left);
        let catalog = handle.pin();
        for (table, expected) in catalog
            .versions("films")
            .zip([9.0, if spread { 9.0 } else { 1.0 }])
        {
            let (mut values, mut found) = ([0.0; DIM], [0; 1]);
            table.lookup(&[7], &mut values, &mut found);
            assert_eq!(values, [expected; DIM], "version {}", table.version());
        }
    }
}
