//! Maps that change.

use crate::etcd::Etcd;
use crate::heard::{Heard, steady};
use millpond_membership::{Error, Event, publish};
use millpond_nodes::BucketMap;

pub fn map(version: u64, buckets: u32) -> BucketMap {
    let node = r#"{ name = "a", addresses = ["a.example:13500"] }"#;
    BucketMap::from_toml(&format!(
        "version = {version}\nbuckets = {buckets}\nnodes = [{node}]"
    ))
    .unwrap()
}

#[test]
fn a_map_is_followed_through_its_versions() {
    let Some(etcd) = Etcd::start("maps::a_map_is_followed_through_its_versions") else {
        return;
    };
    let options = steady(&etcd.url());
    let early = Heard::of(options.clone());
    early.connected();
    assert_eq!(publish(&options, &map(1, 4)), Ok(true));
    early.map(1);
    let late = Heard::of(options.clone());
    let heard = late.map(1);
    assert!(matches!(heard.last(), Some(Event::Map(found)) if **found == map(1, 4)));
    assert_eq!(publish(&options, &map(1, 4)), Ok(false));
    assert_eq!(publish(&options, &map(7, 8)), Ok(true));
    for version in [(1, 4), (7, 16)] {
        let refused = publish(&options, &map(version.0, version.1));
        assert!(matches!(refused, Err(Error::Map { .. })), "{refused:?}");
    }
    for heard in [early, late] {
        assert_eq!(heard.map(7).len(), 1);
    }
}

#[test]
fn a_map_that_cannot_be_used_leaves_the_last_one() {
    let Some(etcd) = Etcd::start("maps::a_map_that_cannot_be_used_leaves_the_last_one") else {
        return;
    };
    let options = steady(&etcd.url());
    let heard = Heard::of(options.clone());
    publish(&options, &map(3, 4)).unwrap();
    heard.map(3);
    let hole = r#"{"version":4,"buckets":4,"nodes":[{"name":"a","addresses":["a:1"],"buckets":"0-1,3"}]}"#;
    let older = map(2, 4).to_json().unwrap();
    let other = map(3, 8).to_json().unwrap();
    for (value, why) in [
        ("", "map: the bucket map cannot be read"),
        ("\u{0}\u{1}", "cannot be read"),
        (hole, "buckets 2 to 2 are on no node"),
        (&older, "version 2 of the bucket map is older than version 3"),
        (&other, "has changed and its version, 3, has not"),
    ] {
        etcd.put("/millpond/test/map", value, "0");
        let refused = heard.refused();
        assert!(refused.contains(why), "{value}: {refused}");
    }
    etcd.delete("/millpond/test/map");
    heard.until("that the map is gone", |event| *event == Event::MapGone);
    // What is not ours under the prefix is nothing to us.
    etcd.put("/millpond/test/note", "x", "0");
    assert_eq!(publish(&options, &map(4, 4)), Ok(true));
    assert_eq!(heard.map(4).len(), 1);
}

#[test]
fn of_those_who_publish_at_once_the_highest_version_stays() {
    let Some(etcd) = Etcd::start("maps::of_those_who_publish_at_once_the_highest_version_stays") else {
        return;
    };
    let options = steady(&etcd.url());
    let heard = Heard::of(options.clone());
    heard.connected();
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=8_u64)
            .map(|version| {
                let options = &options;
                scope.spawn(move || (version, publish(options, &map(version, 4))))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut highest = 0;
    for (version, result) in results {
        match result {
            Ok(done) => {
                assert!(done);
                highest = version.max(highest);
            }
            Err(Error::Conflict { .. } | Error::Map { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let versions = heard.map(highest);
    let versions: Vec<_> = versions
        .iter()
        .filter_map(|event| match event {
            Event::Map(map) => Some(map.version()),
            _ => None,
        })
        .collect();
    assert!(versions.is_sorted() && highest > 0, "{versions:?}");
    assert_eq!(publish(&options, &map(highest, 4)), Ok(false));
}
