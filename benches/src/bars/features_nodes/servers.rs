//! Ten nodes with two replicas each, twenty servers: each has the tenth of the table that the map says.
//!
//! Its invariant: both replicas of a node serve the same version, which holds that node's keys alone.

use crate::server::Server;
use crate::setup::Setup;
use crate::{child, cores};
use anyhow::Context as _;
use millpond_client_rust::BucketMap;
use millpond_wire_schema::features_lookup::{Lookup, Pool, RowType};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Command;

/// Numbers of a row: 40 bytes.
pub(super) const DIM: usize = 10;
const NODES: usize = 10;
const BUCKETS: usize = 1_000;

/// All of them.
pub(super) struct Servers {
    /// Both replicas of a node stand behind each other.
    servers: Vec<Server>,
    /// Rows of the whole table, whose keys are 0 and up.
    pub(super) rows: u64,
}

impl Servers {
    pub(super) fn start(setup: &Setup) -> anyhow::Result<Servers> {
        let rows = setup.pick(1_000_000, 20_000);
        build(setup, rows)?;
        let config = setup.out.join("nodes.config.toml");
        let text = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\nthreads = 1\ncpus = [{}]\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nlevel = 5\n\
             [features.items]\npath = \"items\"\n",
            cores::SERVER
        );
        std::fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
        let mut servers = Vec::new();
        for number in 0..2 * NODES {
            setup.stop.check()?;
            servers.push(start(setup, number)?);
        }
        Ok(Servers { servers, rows })
    }

    pub(super) fn len(&self) -> usize {
        self.servers.len()
    }

    pub(super) fn name(&self, number: usize) -> String {
        name(number)
    }

    /// The map of the servers as they listen now.
    pub(super) fn map(&self) -> anyhow::Result<BucketMap> {
        let addresses = self.servers.iter().map(|server| server.address.as_str());
        Ok(BucketMap::from_toml(&map(addresses))?)
    }

    /// Sends a signal; a server that has gone has no use for it.
    pub(super) fn signal(&self, number: usize, signal: Signal) {
        let pid = self.servers.get(number).map(Server::pid);
        let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let _ = pid.map(|pid| kill_process(pid, signal));
    }

    /// Starts a server that was killed.
    pub(super) fn start_again(&mut self, setup: &Setup, number: usize) -> anyhow::Result<()> {
        let server = start(setup, number)?;
        if let Some(place) = self.servers.get_mut(number) {
            *place = server;
        }
        Ok(())
    }
}

/// A lookup of rows as they are.
pub(super) fn lookup(keys: Vec<u64>, at_version: Option<u64>, map: Option<u64>) -> Lookup<'static> {
    Lookup {
        table: "items".into(),
        keys: Some(keys),
        texts: None,
        at_version,
        pool: Pool::None,
        offsets: Vec::new(),
        columns: Vec::new(),
        row_type: RowType::F32,
        unique: false,
        map,
    }
}

fn name(number: usize) -> String {
    format!("n{}-{}", number / 2, ["a", "b"][number % 2])
}

fn start(setup: &Setup, number: usize) -> anyhow::Result<Server> {
    let path = format!(
        "features.items.path={:?}",
        setup.out.join(format!("node-{}/items", number / 2))
    );
    let config = setup.out.join("nodes.config.toml").display().to_string();
    Server::start(setup, &name(number), &config, &[&path])
}

/// The whole table, and of it what each node holds.
fn build(setup: &Setup, rows: u64) -> anyhow::Result<()> {
    let whole = setup.out.join("whole");
    let millpond = |words: &[&str]| {
        let mut command = Command::new(&setup.millpond);
        command.arg("features").args(words);
        command
    };
    let whole = whole.display().to_string();
    let (rows, dim) = (rows.to_string(), DIM.to_string());
    let random = [
        "random", "--out", &whole, "--name", "items", "--rows", &rows, "--dim", &dim, "--seed", "7",
    ];
    child::run(setup, "features-random", millpond(&random))?;
    let input = setup.out.join("items.parquet").display().to_string();
    let table = format!("{whole}/items");
    child::run(
        setup,
        "features-export",
        millpond(&["export", &table, "--output", &input]),
    )?;
    // Where the nodes will listen is not known yet, and says nothing of their keys.
    let file = setup.out.join("map.toml");
    let nobody: Vec<String> = (0..2 * NODES)
        .map(|number| format!("127.0.0.1:{}", number + 1))
        .collect();
    let text = map(nobody.iter().map(String::as_str));
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    let file = file.display().to_string();
    for node in 0..NODES {
        let out = setup.out.join(format!("node-{node}")).display().to_string();
        let node_name = name(2 * node);
        let build = [
            "build", "--input", &input, "--out", &out, "--name", "items", "--map", &file, "--node",
            &node_name,
        ];
        child::run(setup, &format!("features-build-{node}"), millpond(&build))?;
    }
    Ok(())
}

fn map<'a>(addresses: impl Iterator<Item = &'a str>) -> String {
    let mut text = format!("version = 1\nbuckets = {BUCKETS}\n");
    for (number, address) in addresses.enumerate() {
        let first = number / 2 * (BUCKETS / NODES);
        let last = first + BUCKETS / NODES - 1;
        text += &format!(
            "[[nodes]]\nname = {:?}\naddresses = [{address:?}]\nbuckets = \"{first}-{last}\"\n",
            name(number)
        );
    }
    text
}
