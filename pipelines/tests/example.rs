//! The shipped configuration shows every stage with all of its keys.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use millpond_pipelines::Description;
use std::collections::{BTreeMap, BTreeSet};

/// The keys that stand in a stage, or in the table of what it does: those that the error of an unknown key lists.
fn known(stage: &str) -> BTreeSet<String> {
    let text = format!("request = \"values\"\nstages = [{{ {stage} }}]");
    let error = toml::from_str::<Description>(&text).unwrap_err();
    let (_, listed) = error
        .message()
        .split_once("expected")
        .expect("a list of what is known");
    let names = listed.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

/// The keys of all stages of the example, by what the stages do; those of the stages themselves stand under "".
fn written() -> BTreeMap<String, BTreeSet<String>> {
    let text = include_str!("../../config/millpond.toml").replace("#: ", "");
    let example: toml::Table = toml::from_str(&text).unwrap();
    let mut written = BTreeMap::<String, BTreeSet<String>>::new();
    for pipeline in example["pipelines"].as_table().unwrap().values() {
        let stages: Vec<&toml::Value> = match &pipeline["stages"] {
            toml::Value::Array(stages) => stages.iter().collect(),
            stages => stages.as_table().unwrap().values().collect(),
        };
        for stage in stages {
            for (key, value) in stage.as_table().unwrap() {
                written.entry(String::new()).or_default().insert(key.clone());
                let inside = value.as_table().into_iter().flat_map(toml::Table::keys);
                written.entry(key.clone()).or_default().extend(inside.cloned());
            }
        }
    }
    written
}

#[test]
fn every_key_of_every_stage_is_in_the_shipped_example() {
    let written = written();
    let stage_keys = known("unknown = 1");
    assert!(stage_keys.contains("hash") && stage_keys.contains("queue_max"));
    let missing = |kind: &str, known: &BTreeSet<String>| -> Vec<String> {
        let there = written.get(kind).cloned().unwrap_or_default();
        known.difference(&there).cloned().collect()
    };
    assert_eq!(missing("", &stage_keys), [""; 0]);
    let not_tables = [
        "name",
        "next",
        "filter",
        "instances",
        "queue_max",
        "queue_bytes_max",
    ];
    for kind in stage_keys
        .iter()
        .filter(|key| !not_tables.contains(&key.as_str()))
    {
        let keys = known(&format!("name = \"x\", {kind} = {{ unknown = 1 }}"));
        assert!(!keys.is_empty(), "{kind}");
        assert_eq!(missing(kind, &keys), [""; 0], "{kind}");
    }
}
