//! The shipped example has every key, and says the defaults.

use super::*;
use millpond_calls::Callers;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn the_shipped_example_is_whole_and_true() {
    let text = include_str!("../../../../config/millpond.toml");
    let plain: Config = toml::from_str(text).unwrap();
    assert_eq!(
        format!("{plain:?}"),
        format!("{:?}", Config::default()),
        "the example's plain keys are the defaults"
    );
    let all = text.replace("#: ", "");
    let config: Config = toml::from_str(&all).unwrap();
    for (name, pipeline) in &config.pipelines {
        pipeline.plan_among(name, &config.pipelines).unwrap();
    }
    let written: toml::Table = toml::from_str(&all).unwrap();
    assert_eq!(config.models["stand_in"].backend.name(), "practice");
    assert_eq!(config.models["scored"].backend.name(), "python");
    // Every field that the Debug form of a section names must be explained in the example.
    for (path, shown) in sections(&config) {
        let keys = explained(&written, path);
        let fields = shown
            .split(['{', ','])
            .filter_map(|part| part.trim().split_once(": "))
            .map(|(name, _)| name.to_owned());
        for field in fields {
            assert!(keys.contains(&field), "{path:?} lacks {field:?}");
        }
    }
}

#[test]
fn the_shipped_example_names_the_methods_that_no_prefix_means() {
    let text = include_str!("../../../../config/millpond.toml");
    let methods = millpond_methods::table(&BTreeMap::new());
    let by_name = methods
        .all()
        .filter(|(method, _)| methods.entry(*method).callers == Callers::Token);
    let (_, behind) = text.split_once("\"PREFIX*\" is").unwrap();
    let (comment, _) = behind.split_once("these are off").unwrap();
    let mut count = 0;
    for (_, name) in by_name {
        assert!(comment.contains(name), "{name}");
        count += 1;
    }
    assert!(count > 0);
}

/// Sections by their paths, as their Debug forms show them.
fn sections(config: &Config) -> Vec<(&'static [&'static str], String)> {
    vec![
        (&["server"][..], format!("{:?}", config.server)),
        (&["admin"], format!("{:?}", config.admin)),
        (&["log"], format!("{:?}", config.log)),
        (
            &["features", "embeddings"],
            format!("{:?}", config.features["embeddings"]),
        ),
        (
            &["features", "embeddings", "overlay"],
            format!("{:?}", config.features["embeddings"].overlay),
        ),
        (&["ordered", "events"], format!("{:?}", config.ordered["events"])),
        (&["nodes"], format!("{:?}", Nodes::default())),
        (
            &["nodes", "tls"],
            format!("{:?}", config.nodes.as_ref().and_then(|nodes| nodes.tls.clone())),
        ),
        (
            &["nodes", "etcd"],
            format!("{:?}", config.nodes.as_ref().and_then(|nodes| nodes.etcd.clone())),
        ),
        (
            &["models", "ranker"],
            format!("{:?}", config.models["ranker"].batcher),
        ),
        (
            &["models", "ranker"],
            format!("{:?}", toml::from_str::<ModelSection>("").unwrap().backend),
        ),
        (&["onnxruntime"], format!("{:?}", config.onnxruntime)),
        (
            &["models", "stand_in"],
            format!("{:?}", config.models["stand_in"].backend),
        ),
        (
            &["models", "scored"],
            format!(
                "{:?}",
                toml::from_str::<ModelSection>("backend = \"python\"")
                    .unwrap()
                    .backend
            ),
        ),
        (
            &["methods", "two way demo"],
            format!("{:?}", toml::from_str::<millpond_methods::Section>("").unwrap()),
        ),
    ]
}

/// The keys that the example explains for that section, with those of the sections and kinds that its Debug form holds.
fn explained(written: &toml::Table, path: &[&str]) -> BTreeSet<String> {
    let mut keys = keys(written, path);
    if path == ["models", "ranker"] {
        // It is the server's: `server.cpus`.
        keys.insert("cpus".to_owned());
    }
    if path[0] == "features" {
        keys.extend(self::keys(written, &["features", "embeddings", "source"]));
    }
    if path[0] == "methods" {
        // Nor has a method those of all kinds.
        keys.extend(self::keys(written, &["methods", "duplex demo"]));
    }
    if path == ["features", "embeddings"] {
        keys.extend(self::keys(written, &["features", "embeddings", "overlay"]));
    }
    if path[0] == "server" {
        for section in ["fpnn_encryption", "tls", "resp"] {
            keys.extend(self::keys(written, &["server", section]));
        }
    }
    keys
}

/// The keys of the table at `path`.
fn keys(written: &toml::Table, path: &[&str]) -> BTreeSet<String> {
    let table = path
        .iter()
        .fold(written, |table, key| table[*key].as_table().unwrap());
    table.keys().cloned().collect()
}
