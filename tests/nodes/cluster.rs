//! Servers that share a table, each with the rows of its buckets alone; one that has all of it; and one that has none.

use crate::harness::Millpond;
use millpond_engines_features::{Column, NodeShare, Numbers, Schema, write::Writer};
use millpond_nodes::BucketMap;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Keys of the table are 0 to this, and others are not there.
pub const KEYS: u64 = 500;
/// Opens the methods that switch versions.
pub const TOKEN: &str = "a-token-of-the-tests";
/// A node's table that takes upserts.
const FRESH: &str =
    "path = \"films\"\nspread = true\n[features.films.overlay]\npath = \"fresh\"\ndurability = \"logged\"";

pub struct Cluster {
    /// Each server has a folder in it, of its name.
    pub folder: tempfile::TempDir,
    pub nodes: Vec<Millpond>,
    names: Vec<&'static str>,
}

impl Cluster {
    /// Starts the nodes of a map with so many replicas.
    pub fn start(names: &[&'static str], replicas: usize) -> Cluster {
        Cluster::start_with(names, replicas, "")
    }

    /// With more in their sections `[nodes]`.
    pub fn start_with(names: &[&'static str], replicas: usize, more: &str) -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        if !names.is_empty() {
            write_map(folder.path(), 1, names, replicas);
        }
        let mut cluster = Cluster {
            folder,
            nodes: Vec::new(),
            names: names.to_vec(),
        };
        for name in names {
            cluster.make(name, 1);
            cluster.configure(name, &format!("name = \"{name}\"\n{more}"));
            cluster.nodes.push(cluster.run(name));
        }
        cluster
    }

    /// Starts nodes that take upserts, all at once: each waits for the others.
    pub fn start_fresh(names: &[&'static str], replicas: usize, more: &str) -> Cluster {
        Cluster::start_fresh_of(names, replicas, more, |dir| make_table(dir, 1, |_| true))
    }

    /// The same of another table, which `make` makes.
    pub fn start_fresh_of(
        names: &[&'static str],
        replicas: usize,
        more: &str,
        make: impl Fn(&Path),
    ) -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        write_map(folder.path(), 1, names, replicas);
        let mut cluster = Cluster {
            folder,
            nodes: Vec::new(),
            names: names.to_vec(),
        };
        for name in names {
            make(&cluster.path(name).join("films"));
            cluster.configure_fresh(name, more);
        }
        cluster.nodes = std::thread::scope(|scope| {
            let cluster = &cluster;
            let starts: Vec<_> = names
                .iter()
                .map(|name| scope.spawn(|| cluster.run(name)))
                .collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        cluster
    }

    /// Writes the configuration of a node that takes upserts. It has not `PATIENCE`, unless `more` says so: tests have nodes stand
    /// still, and those that call them go on when `answer_timeout_ms` is over.
    pub fn configure_fresh(&self, name: &str, more: &str) {
        self.write(
            name,
            FRESH,
            &format!("[nodes]\nmap = \"../map.toml\"\nname = \"{name}\"\n{more}"),
        );
    }

    /// Starts a node again that was killed.
    pub fn restart(&mut self, name: &str) {
        let at = self.names.iter().position(|found| *found == name).unwrap();
        self.nodes[at] = self.run(name);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a version of the table: of a node the rows of its buckets; of any other server all rows.
    pub fn make(&self, name: &str, version: u64) {
        self.make_by(&self.map(), name, version);
    }

    /// The same by another map.
    pub fn make_by(&self, map: &BucketMap, name: &str, version: u64) {
        let node = map.find(name);
        let has = |key: u64| node.is_none_or(|node| map.holds(node, key));
        let share = node.map(|node| NodeShare {
            name: name.to_owned(),
            map_version: map.version(),
            buckets: map.buckets(),
            held: map.buckets_of(node),
        });
        make_share(&self.path(name).join("films"), version, share, has);
    }

    pub fn map(&self) -> BucketMap {
        BucketMap::from_toml(&std::fs::read_to_string(self.path("map.toml")).unwrap()).unwrap()
    }

    /// Writes the configuration of a server that has some of the table, or all of it.
    pub fn configure(&self, name: &str, nodes: &str) {
        self.write(
            name,
            "path = \"films\"\nspread = true",
            &format!("[nodes]\n{PATIENCE}map = \"../map.toml\"\n{nodes}"),
        );
    }

    fn write(&self, name: &str, table: &str, more: &str) {
        let folder = self.path(name);
        std::fs::create_dir_all(&folder).unwrap();
        let socket = socket(self.folder.path(), name);
        let text = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\nlisten_also = [\"unix:{}\"]\nthreads = 2\n\
             deadline_ms_default = 50000\n\
             [admin]\nlisten = \"127.0.0.1:0\"\ntoken = \"{TOKEN}\"\n[log]\nfile = \"log\"\n\
             [features.films]\n{table}\n{more}",
            socket.display()
        );
        std::fs::write(folder.join("millpond.toml"), text).unwrap();
    }

    pub fn run(&self, name: &str) -> Millpond {
        Millpond::start(&self.path(name), &[])
    }

    /// A server that has all rows, and knows of no others.
    pub fn single(&self) -> Millpond {
        self.write("single", "path = \"films\"", "");
        self.make("single", 1);
        self.run("single")
    }

    /// A server that has none.
    pub fn proxy(&self) -> Millpond {
        self.proxy_with("")
    }

    pub fn proxy_with(&self, more: &str) -> Millpond {
        self.write(
            "proxy",
            "spread = true",
            &format!("[nodes]\n{PATIENCE}map = \"../map.toml\"\n{more}"),
        );
        self.run("proxy")
    }

    /// A server that has none, and follows its map as `nodes` says.
    pub fn proxy_in(&self, nodes: &str) -> Millpond {
        self.write("proxy", "spread = true", &format!("[nodes]\n{PATIENCE}{nodes}"));
        self.run("proxy")
    }

    /// Starts a node more, which follows its map as `nodes` says.
    pub fn join(&mut self, name: &'static str, nodes: &str) {
        self.write(
            name,
            "path = \"films\"\nspread = true",
            &format!("[nodes]\n{PATIENCE}{nodes}"),
        );
        self.nodes.push(self.run(name));
        self.names.push(name);
    }

    /// Starts a node more that takes upserts.
    pub fn join_fresh(&mut self, name: &'static str, more: &str) {
        self.make(name, 1);
        self.configure_fresh(name, more);
        self.nodes.push(self.run(name));
        self.names.push(name);
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> &Millpond {
        let at = self.names.iter().position(|found| *found == name).unwrap();
        &self.nodes[at]
    }

    /// Has a node serve a version of the table.
    pub fn activate(&self, name: &str, version: u64) {
        let payload = json!({"table": "films", "version": version, "_token": TOKEN});
        let (status, answer) = self.node(name).call("features.activate", &payload);
        assert_eq!(status, 200, "{answer}");
    }
}

/// How long servers wait for one another: longer than a busy machine keeps a node that runs from answering. A node that is killed is
/// lost at once.
pub const PATIENCE: &str = "connect_timeout_ms = 50000\nanswer_timeout_ms = 50000\n";

/// Where a server of the cluster is called by the others.
pub fn socket(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.sock"))
}

/// Writes the map that all servers of the cluster read.
pub fn write_map(folder: &Path, version: u64, names: &[&str], replicas: usize) {
    let nodes: Vec<(&str, String)> = names
        .iter()
        .map(|name| (*name, format!("unix:{}", socket(folder, name).display())))
        .collect();
    write_map_of(folder, version, &nodes, replicas);
}

/// The same, of nodes at those addresses.
pub fn write_map_of(folder: &Path, version: u64, nodes: &[(&str, String)], replicas: usize) {
    let nodes: Vec<String> = nodes
        .iter()
        .map(|(name, address)| format!("{{ name = \"{name}\", addresses = [\"{address}\"] }}"))
        .collect();
    let text = format!(
        "version = {version}\nbuckets = 64\nreplicas = {replicas}\nnodes = [{}]\n",
        nodes.join(",")
    );
    let unfinished = folder.join("map.new");
    std::fs::write(&unfinished, text).unwrap();
    std::fs::rename(&unfinished, folder.join("map.toml")).unwrap();
}

/// Rows that say their key and version.
pub fn make_table(dir: &Path, version: u64, has: impl Fn(u64) -> bool) {
    make_share(dir, version, None, has);
}

fn make_share(dir: &Path, version: u64, share: Option<NodeShare>, has: impl Fn(u64) -> bool) {
    let column = |name: &str, dim| Column {
        name: name.to_owned(),
        numbers: Numbers::F32,
        dim,
    };
    let schema = Schema {
        columns: vec![column("key", 2), column("version", 1)],
        default_row: Some(vec![-1.0, -2.0, -3.0]),
        ..Schema::floats(1)
    };
    let mut writer = Writer::create(dir, "films", version, schema, 2)
        .unwrap()
        .node(share);
    for key in (0..KEYS).filter(|key| has(*key)) {
        writer
            .push(key, &[key as f32, key as f32 / 2.0, version as f32])
            .unwrap();
    }
    writer.finish().unwrap();
}

/// Keys in an order of their own, some of them twice, some not there.
pub fn some_keys(seed: u64, count: u64) -> Vec<u64> {
    (0..count)
        .map(|at| (seed * 7919 + at * 104_729) % (KEYS + 20))
        .collect()
}

/// Holds an answer against its keys; returns its version. No key may be missing.
pub fn check_rows(keys: &[u64], answer: &Value) -> u64 {
    assert!(answer.get("missing").is_none(), "{answer}");
    let version = answer["version"].as_u64().unwrap();
    let values = answer["values"].as_array().unwrap();
    for (row, key) in values.chunks(3).zip(keys) {
        let expected = match *key < KEYS {
            true => [*key as f64, *key as f64 / 2.0, version as f64],
            false => [-1.0, -2.0, -3.0],
        };
        let found: Vec<f64> = row.iter().map(|number| number.as_f64().unwrap()).collect();
        assert_eq!(found, expected, "key {key} in {answer}");
    }
    version
}
