//! `[nodes]`: the servers that share tables with this one, and which of the tables.
//!
//! It opens no connection and looks no name up. Its invariant: a configuration that passes [`check`] has a bucket map, or knows
//! where to follow one, and a table to spread by it.

mod etcd;
mod tls;

pub use etcd::Etcd;
pub(crate) use etcd::registration;
pub use tls::Tls;

use super::Config;
use millpond_calls::access::Secret;
use millpond_engines_features as features;
use millpond_nodes::{BucketMap, MAP_BYTES_MAX, MapFile, REPLICAS_MAX};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::fmt;
use std::path::{Path, PathBuf};

/// Milliseconds that a timeout may have at most.
const TIMEOUT_MS_MAX: u64 = 600_000;

/// Upserts settle no faster than copies of them go over a busy network; and in a day, or nothing is ever folded.
const SETTLE_MS_MIN: u64 = 5000;
const SETTLE_MS_MAX: u64 = 86_400_000;
/// Two fifths of it are twice as long as a node is waited for.
const SETTLE_TIMEOUTS: u64 = 5;

/// `[nodes]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Nodes {
    /// Which node of the map this server is; one that only forwards has no name.
    pub name: Option<String>,
    /// The bucket map, or the file that it is in.
    pub map: Option<MapSource>,
    /// The etcd that has the map, in place of `map`.
    pub etcd: Option<Etcd>,
    /// How nodes are called whose addresses begin with `tls://`.
    pub tls: Option<Tls>,
    /// Slow calls that may be sent to a second replica, in a thousand calls; 0 sends none.
    pub hedge_permille: u32,
    /// No call is sent to a second replica before it has waited for so many microseconds.
    pub hedge_delay_us_min: u64,
    /// Connections of a net thread to a node.
    pub connections_max: usize,
    /// Calls that each of them may have unanswered.
    pub outstanding_max: usize,
    /// How long opening a connection may take.
    pub connect_timeout_ms: u64,
    /// How long a node may send nothing while calls wait for it.
    pub answer_timeout_ms: u64,
    /// Seconds without a call after which a ping keeps a connection open.
    pub keep_alive_s: u64,
    /// Replicas of each key that an upsert must reach before it is acknowledged; all when left out.
    pub upsert_acks: Option<usize>,
    /// How long this node waits for replicas that may have upserts which it missed, before it answers lookups without them.
    pub catch_up_ms_max: u64,
    /// How long after an upsert was made it can be folded, once all replicas have it. Copies that take more than two fifths of it are
    /// refused, and clocks may differ by a fifth: the same on all servers.
    pub settle_ms: u64,
    /// What calls between servers need, and have: the same on all of them.
    pub token: Secret,
    /// A file that holds it alone.
    pub token_file: Option<PathBuf>,
}

impl Default for Nodes {
    fn default() -> Nodes {
        Nodes {
            name: None,
            map: None,
            etcd: None,
            tls: None,
            hedge_permille: 50,
            hedge_delay_us_min: 1000,
            connections_max: 2,
            outstanding_max: 1024,
            connect_timeout_ms: 1000,
            answer_timeout_ms: 2000,
            keep_alive_s: 15,
            upsert_acks: None,
            catch_up_ms_max: 10_000,
            settle_ms: 300_000,
            token: Secret::default(),
            token_file: None,
        }
    }
}

/// `nodes.map`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapSource {
    /// A file: JSON where its name ends in `.json`, else TOML.
    File(PathBuf),
    /// The map itself.
    Inline(MapFile),
}

impl<'de> Deserialize<'de> for MapSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Source;

        impl<'de> Visitor<'de> for Source {
            type Value = MapSource;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("the path of a bucket map, or a bucket map")
            }

            fn visit_str<E>(self, path: &str) -> Result<MapSource, E> {
                Ok(MapSource::File(path.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MapSource, A::Error> {
                MapFile::deserialize(MapAccessDeserializer::new(map)).map(MapSource::Inline)
            }
        }

        deserializer.deserialize_any(Source)
    }
}

impl MapSource {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with it, and in which file.
    pub(crate) fn read(&self) -> Result<BucketMap, String> {
        let path = match self {
            MapSource::Inline(file) => return BucketMap::new(file).map_err(|error| error.to_string()),
            MapSource::File(path) => path,
        };
        let in_file = |why: String| format!("{}: {why}", path.display());
        let bytes = read_bounded(path).map_err(|error| in_file(error.to_string()))?;
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let map = match is_json {
            true => BucketMap::from_json(&bytes),
            false => {
                let text = String::from_utf8(bytes).map_err(|_| in_file("it is not UTF-8".to_owned()))?;
                BucketMap::from_toml(&text)
            }
        };
        map.map_err(|error| in_file(error.to_string()))
    }
}

/// One byte more than a map may have is enough to refuse it.
fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(MAP_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Nodes {
    /// The paths that it names.
    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let map = match &mut self.map {
            Some(MapSource::File(path)) => Some(path),
            Some(MapSource::Inline(_)) | None => None,
        };
        let etcd = self.etcd.iter_mut().flat_map(Etcd::paths_mut);
        let tls = self.tls.iter_mut().flat_map(Tls::paths_mut);
        let own = map.into_iter().chain(&mut self.token_file);
        own.chain(etcd).chain(tls)
    }
}

pub(super) fn check(config: &Config) -> Result<(), String> {
    let spread = config.features.iter().filter(|(_, table)| table.spread);
    let spread: Vec<&str> = spread.map(|(name, _)| name.as_str()).collect();
    let Some(nodes) = &config.nodes else {
        return match spread.first() {
            Some(name) => Err(format!(
                "features.{name}.spread says nothing without other servers; write a section [nodes] with their map"
            )),
            None => Ok(()),
        };
    };
    if spread.is_empty() {
        return Err("nodes says nothing: no table is spread; give one features.NAME.spread = true, or leave [nodes] out".into());
    }
    for name in spread {
        check_table(config, name)?;
    }
    check_bounds(nodes)?;
    nodes.tls.as_ref().map_or(Ok(()), Tls::check)?;
    match (&nodes.map, &nodes.etcd) {
        (Some(_), Some(_)) => {
            Err("nodes.map and nodes.etcd both say which nodes there are; leave one of them out".into())
        }
        (None, None) => Err(
            "nodes has no map: write nodes.map, the path of a bucket map, or a section [nodes.etcd]".into(),
        ),
        (Some(map), None) => check_map(nodes, map),
        (None, Some(etcd)) => etcd.check(config, nodes),
    }
}

/// What else of a table works only where all of it is here.
fn check_table(config: &Config, name: &str) -> Result<(), String> {
    let Some(table) = config.features.get(name) else {
        return Ok(());
    };
    let is_as_elsewhere = features::Section {
        spread: true,
        ..features::Section::of(PathBuf::new())
    };
    if table.is_elsewhere() && table.resp_database.is_none() && *table != is_as_elsewhere {
        return Err(format!(
            "features.{name} has no path, so other servers alone have its rows, and nothing else can be said of it here; name its \
             folder, or leave the other keys out"
        ));
    }
    if table.resp_database.is_some() {
        return Err(format!(
            "features.{name}.resp_database: a table that is spread is not served by RESP, whose answers cannot say that a node did \
             not answer; leave it out"
        ));
    }
    let has_name = config.nodes.as_ref().is_some_and(|nodes| nodes.name.is_some());
    if table.overlay.is_some() && !has_name {
        return Err(format!(
            "features.{name}.overlay: upserts of a table that is spread go to the nodes of the map, and this server is none; set \
             nodes.name, or leave the overlay out"
        ));
    }
    for (pipeline, description) in &config.pipelines {
        // What is wrong with the pipeline itself is said elsewhere.
        let Ok(plan) = description.plan_among(pipeline, &config.pipelines) else {
            continue;
        };
        if plan
            .names()
            .any(|(_, found)| found.section == "features" && found.name == name)
        {
            return Err(format!(
                "pipelines.{pipeline} looks up table {name:?}, which is spread: a pipeline reads this server's own keys alone; call \
                 features.lookup, or give the pipeline a table that is not spread"
            ));
        }
    }
    Ok(())
}

fn check_bounds(nodes: &Nodes) -> Result<(), String> {
    let limits = [
        ("hedge_permille", u64::from(nodes.hedge_permille), 0, 1000),
        ("hedge_delay_us_min", nodes.hedge_delay_us_min, 0, 10_000_000),
        ("connections_max", nodes.connections_max as u64, 1, 64),
        ("outstanding_max", nodes.outstanding_max as u64, 1, 65_536),
        ("connect_timeout_ms", nodes.connect_timeout_ms, 1, TIMEOUT_MS_MAX),
        ("answer_timeout_ms", nodes.answer_timeout_ms, 1, TIMEOUT_MS_MAX),
        ("keep_alive_s", nodes.keep_alive_s, 1, 3600),
        (
            "upsert_acks",
            nodes.upsert_acks.unwrap_or(1) as u64,
            1,
            REPLICAS_MAX as u64,
        ),
        ("catch_up_ms_max", nodes.catch_up_ms_max, 1, TIMEOUT_MS_MAX),
        ("settle_ms", nodes.settle_ms, SETTLE_MS_MIN, SETTLE_MS_MAX),
    ];
    for (key, found, least, most) in limits {
        if !(least..=most).contains(&found) {
            return Err(format!("nodes.{key} is {found}; expected {least} to {most}"));
        }
    }
    // Whoever gives a replica up has others note in time that it missed the upsert.
    let least = nodes.answer_timeout_ms.saturating_mul(SETTLE_TIMEOUTS);
    if nodes.settle_ms < least {
        return Err(format!(
            "nodes.settle_ms is {}; expected at least {least}, {SETTLE_TIMEOUTS} times nodes.answer_timeout_ms: raise it on all servers",
            nodes.settle_ms
        ));
    }
    Ok(())
}

fn check_map(nodes: &Nodes, source: &MapSource) -> Result<(), String> {
    let map = source.read().map_err(|why| format!("nodes.map: {why}"))?;
    let names: Vec<&str> = map.nodes().iter().map(|node| node.name.as_str()).collect();
    if let Some(name) = nodes.name.as_deref().filter(|name| map.find(name).is_none()) {
        return Err(format!(
            "nodes.name is {name:?}, and the map has {names:?}; name one of them, or leave it out where this server has no keys"
        ));
    }
    check_reachable(&map, nodes.name.as_deref(), nodes.tls.is_some())
        .map_err(|why| format!("nodes.map: {why}"))
}

/// A node without an address that this server can use could never be called.
pub(crate) fn check_reachable(map: &BucketMap, this: Option<&str>, has_tls: bool) -> Result<(), String> {
    let mut others = map.nodes().iter().filter(|node| Some(node.name.as_str()) != this);
    match others.find(|node| node.usable_addresses(has_tls).next().is_none()) {
        Some(node) => Err(format!(
            "node {:?} has addresses by TLS alone, and this server trusts nobody; write a section [nodes.tls] with the authority of \
             the nodes' certificates, or give the node another address",
            node.name
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::config::made;

    fn check(text: &str, expected: Result<(), &str>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("t")).unwrap();
        std::fs::write(
            folder.path().join("holes.toml"),
            "version = 1\nbuckets = 2\nnodes = [{ name = \"a\", addresses = [\"a:1\"], buckets = \"0\" }]",
        )
        .unwrap();
        std::fs::write(
            folder.path().join("map.json"),
            r#"{"version":1,"buckets":2,"nodes":[{"name":"a","addresses":["a:1"]}]}"#,
        )
        .unwrap();
        let found = toml::from_str(text)
            .map_err(|error| error.to_string())
            .and_then(|config| made(config, folder.path(), "here").map_err(|error| error.to_string()));
        match (found, expected) {
            (Ok(_), Ok(())) => {}
            (Err(error), Err(words)) => assert!(error.contains(words), "{error}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    }

    #[test]
    fn what_cannot_be_spread_is_refused_by_its_key() {
        const TABLE: &str = "[features.a]\nspread = true\n";
        const MAP: &str =
            "map = { version = 1, buckets = 4, nodes = [{ name = \"a\", addresses = [\"127.0.0.1:1\"] }] }\n";
        let nodes = |more: &str| format!("{TABLE}[nodes]\n{MAP}{more}");
        check(&nodes(""), Ok(()));
        check(&nodes("name = \"a\""), Ok(()));
        check(&format!("{TABLE}[nodes]\nmap = \"map.json\""), Ok(()));
        check(
            &nodes("name = \"b\""),
            Err("nodes.name is \"b\", and the map has [\"a\"]"),
        );
        check(
            &nodes("hedge_permille = 1001"),
            Err("nodes.hedge_permille is 1001; expected 0 to 1000"),
        );
        check(&nodes("connections_max = 0"), Err("nodes.connections_max is 0"));
        check(&nodes("nmae = \"b\""), Err("nmae"));
        check(
            &nodes("[features.b]\nspread = true\nversion = 3"),
            Err("features.b has no path"),
        );
        check(TABLE, Err("features.a.spread says nothing without other servers"));
        check(&format!("[nodes]\n{MAP}"), Err("no table is spread"));
        check("[features.a]\n", Err("features.a.path is missing"));
        check(&format!("{TABLE}[nodes]\n"), Err("nodes has no map"));
        check(&format!("{TABLE}[nodes]\nmap = \"gone.toml\""), Err("gone.toml"));
        check(
            &format!("{TABLE}[nodes]\nmap = \"holes.toml\""),
            Err("buckets 1 to 1 are on no node"),
        );
        check(
            &format!("{TABLE}[nodes]\nmap = 7"),
            Err("the path of a bucket map, or a bucket map"),
        );
        check(
            &format!("{TABLE}[nodes]\nmap = {{ version = 1, buckets = 4, nodse = [] }}"),
            Err("nodse"),
        );
        check(
            &format!(
                "{TABLE}[nodes]\nmap = {{ version = 1, buckets = 4, nodes = [{{ name = \"a\", addresses = [\"tls://a:1\"] }}] }}"
            ),
            Err(
                "node \"a\" has addresses by TLS alone, and this server trusts nobody; write a section [nodes.tls]",
            ),
        );
        check(
            &format!(
                "{TABLE}[nodes]\nmap = {{ version = 1, buckets = 4, nodes = [{{ name = \"a\", addresses = [\"tls://a:1\"] }}] }}\n[nodes.tls]\nca = \"ca.pem\""
            ),
            Ok(()),
        );
        check(
            &nodes("[nodes.tls]\ncertificate = \"a.pem\""),
            Err("nodes.tls.certificate needs its key"),
        );
        check(&nodes("[nodes.tls]\ncaa = \"a.pem\""), Err("caa"));
        check(
            &nodes("[server.resp]\n[features.b]\npath = \"t\"\nspread = true\nresp_database = 0"),
            Err("features.b.resp_database: a table that is spread is not served by RESP"),
        );
        check(
            &nodes("[features.b]\npath = \"t\"\nspread = true\n[features.b.overlay]\npath = \"o\""),
            Err(
                "features.b.overlay: upserts of a table that is spread go to the nodes of the map, and this server is none",
            ),
        );
    }

    #[test]
    fn what_cannot_follow_etcd_is_refused_by_its_key() {
        let etcd = |nodes: &str, more: &str| {
            format!(
                "{more}[features.a]\nspread = true\n[nodes]\n{nodes}[nodes.etcd]\ncluster = \"c\"\nendpoints = [\"http://127.0.0.1:2379\"]\n"
            )
        };
        check(&etcd("", ""), Ok(()));
        check(&etcd("name = \"a\"\n", ""), Ok(()));
        check(&etcd("", "[server]\nprocesses = 2\n"), Ok(()));
        check(
            &etcd("name = \"a\"\n", "[server]\nprocesses = 2\n"),
            Err("registers one process"),
        );
        check(
            &etcd("name = \"a\"\n", "[server]\nlisten = \"0.0.0.0:13500\"\n"),
            Err("nodes.etcd.addresses: others cannot reach this server"),
        );
        check(&(etcd("", "") + "lease_ttl_s = 1"), Err("lease_ttl"));
        check(
            &(etcd("", "") + "certificate = \"a.pem\""),
            Err("certificate and private_key go together"),
        );
    }
}
