//! The servers that share tables with this one, while it runs: a thread that follows their map and looks names up.
//!
//! It sends no call. Its invariant: net threads never wait for a file, a name or etcd; a map that cannot be used changes nothing
//! but the log.

use crate::config::nodes::{check_reachable, registration};
use crate::config::{Config, Etcd, MapSource};
use crate::tls::outward_warnings;
use crate::{Error, Shared, config};
use millpond_calls::{Nodes, NodesOptions};
use millpond_fronts_native::{Names, NodePool, PoolOptions};
use millpond_membership::{Event, Membership};
use millpond_net::OutwardTls;
use millpond_nodes::{BucketMap, HedgeOptions, Node, TLS};
use millpond_wire_frame::Limits;
use std::collections::{BTreeSet, HashMap};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// How often the file of a map is looked at; it is read where it has changed.
const LOOK: Duration = Duration::from_secs(1);
/// What may wait for the thread: more than etcd says of all nodes of a map at once.
const TOLD_MAX: usize = 4096;
/// The shortest lease under which lookups of fresh rows are answered.
const READ_LEASE_MIN: Duration = Duration::from_millis(200);
/// How often names are looked up again, where each is known already.
const LOOK_UP: Duration = Duration::from_secs(15);

/// Shared state for calling other nodes.
pub(crate) struct Spread {
    pub(crate) nodes: Arc<Nodes>,
    names: Arc<Names>,
    pool: PoolOptions,
}

/// What leads from an address of the map to a connection. The thread that follows the map keeps both new.
#[derive(Clone, Default)]
pub(crate) struct Roads {
    /// Where names are; nobody waits for one to be looked up.
    pub(crate) names: Arc<Names>,
    /// What connections by TLS begin with.
    pub(crate) tls: Option<Arc<OutwardTls>>,
}

/// Of a configuration with `[nodes]`; a map that is not in etcd is in use at once.
///
/// # Errors
/// The map cannot be read, as it could when the configuration was checked.
pub(crate) fn open(config: &Config) -> Result<Option<Spread>, Error> {
    let Some(section) = &config.nodes else {
        return Ok(None);
    };
    let tables = config.features.iter().filter(|(_, table)| table.spread);
    let nodes = Nodes::new(NodesOptions {
        name: section.name.clone(),
        hedging: HedgeOptions {
            share_permille: section.hedge_permille,
            delay_min: Duration::from_micros(section.hedge_delay_us_min),
            ..HedgeOptions::default()
        },
        tables: tables.map(|(name, _)| name.clone()).collect(),
        upsert_acks: section.upsert_acks,
        read_lease: read_lease(section),
        give_up: Duration::from_millis(section.answer_timeout_ms),
        settle: Duration::from_millis(section.settle_ms),
        token: section.token.clone(),
    });
    let tls = read_tls(section)?.map(Arc::new);
    let of_tls = tls.iter().flat_map(|tls| outward_warnings(tls));
    let of_tls = of_tls.map(|warning| warning.text);
    for warning in of_tls.chain(config.overlay_warnings()) {
        tracing::warn!("{warning}");
    }
    let names = Arc::<Names>::default();
    if let Some(source) = &section.map {
        let map = source
            .read()
            .map_err(|why| Error::Unfit(format!("nodes.map: {why}")))?;
        names.store(Arc::new(look_up(places(&map, tls.is_some()), |name, error| {
            tracing::warn!(name, %error, "the address of a node cannot be looked up");
        })));
        nodes
            .offer(Arc::new(map))
            .map_err(|error| Error::Unfit(format!("nodes.map: {error}")))?;
    }
    Ok(Some(Spread {
        nodes: Arc::new(nodes),
        names,
        pool: PoolOptions {
            connections_max: section.connections_max,
            outstanding_max: section.outstanding_max,
            connect_timeout: Duration::from_millis(section.connect_timeout_ms),
            answer_timeout: Duration::from_millis(section.answer_timeout_ms),
            keep_alive: Duration::from_secs(section.keep_alive_s),
            limits: Limits {
                frame_bytes_max: config.server.frame_bytes_max,
            },
            tls,
            ..PoolOptions::default()
        },
    }))
}

/// The files of `[nodes.tls]`, where there is one.
pub(crate) fn read_tls(section: &config::Nodes) -> Result<Option<OutwardTls>, Error> {
    let files = section.tls.as_ref().map(config::NodesTls::files);
    Ok(files.map(OutwardTls::read).transpose()?)
}

/// How long a node answers lookups of fresh rows without asking the others again: less than others wait for its answers, and no
/// shorter than a busy machine lets a thread sleep.
fn read_lease(section: &crate::config::Nodes) -> Duration {
    Duration::from_millis(section.answer_timeout_ms / 2).clamp(READ_LEASE_MIN, NodesOptions::READ_LEASE_MAX)
}

impl Spread {
    /// What takes a net thread's calls to the nodes.
    pub(crate) fn pool(&self) -> NodePool {
        let (nodes, names) = (Arc::clone(&self.nodes), Arc::clone(&self.names));
        NodePool::new(nodes, names, self.pool.clone())
    }

    /// The same for threads that call nodes by themselves.
    pub(crate) fn roads(&self) -> Roads {
        Roads {
            names: Arc::clone(&self.names),
            tls: self.pool.tls.clone(),
        }
    }
}

/// What the thread is told.
enum Told {
    /// The file of the map is to be looked at now.
    Look,
    /// What etcd says.
    Etcd(Event),
    /// The server stops.
    Stop,
}

/// The thread of a running server.
pub(crate) struct Follower {
    tell: SyncSender<Told>,
    thread: JoinHandle<()>,
}

impl Follower {
    /// Starts it, once the server answers calls: from then on etcd knows the server, where it has a name.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        spread: &Spread,
        bound: SocketAddr,
    ) -> Result<Option<Follower>, Error> {
        let config = &shared.config;
        let Some(section) = &config.nodes else {
            return Ok(None);
        };
        let (tell, told) = sync_channel(TOLD_MAX);
        let membership = match &section.etcd {
            Some(etcd) => {
                let registration = registration(config, section, etcd, Some(bound)).map_err(Error::Unfit)?;
                Some(follow(etcd, registration, tell.clone())?)
            }
            None => None,
        };
        let file = match &section.map {
            Some(MapSource::File(path)) => Some(MapAt::new(path.clone())),
            Some(MapSource::Inline(_)) | None => None,
        };
        let asked = Arc::<AtomicBool>::default();
        let (ask, is_asked) = (tell.clone(), Arc::clone(&asked));
        spread.nodes.set_look(move || {
            // One that waits is enough, and leaves room for what else is told.
            if !is_asked.swap(true, Ordering::AcqRel) && ask.try_send(Told::Look).is_err() {
                is_asked.store(false, Ordering::Release);
            }
        });
        let follows = Follows {
            nodes: Arc::clone(&spread.nodes),
            asked,
            names: Arc::clone(&spread.names),
            file,
            tls: spread.pool.tls.clone(),
            looked_up: Instant::now(),
            look_up_took: Duration::ZERO,
            lost: BTreeSet::new(),
        };
        let thread = std::thread::Builder::new().name("nodes".into());
        let thread = thread.spawn(move || follows.run(&told, membership));
        let thread = thread.map_err(|source| millpond_net::Error::Thread {
            what: "the thread that follows the map of nodes".into(),
            source,
        })?;
        Ok(Some(Follower { tell, thread }))
    }

    /// Has the file of the map looked at soon.
    pub(crate) fn reload(&self) {
        let _ = self.tell.try_send(Told::Look);
    }

    /// This server takes no further call: etcd hears that it leaves, and the thread ends.
    pub(crate) fn leave(&self) {
        let _ = self.tell.try_send(Told::Stop);
    }

    /// The thread, which is told to end.
    pub(crate) fn close(self) -> JoinHandle<()> {
        self.leave();
        self.thread
    }
}

fn follow(etcd: &Etcd, registration: Option<Node>, tell: SyncSender<Told>) -> Result<Membership, Error> {
    let membership = Membership::start(etcd.options(registration), move |event| {
        let _ = tell.send(Told::Etcd(event));
    });
    membership.map_err(|error| Error::Unfit(format!("nodes.etcd: {error}")))
}

/// The file of a map, and how it was when it was read.
struct MapAt {
    path: PathBuf,
    seen: Option<(SystemTime, u64)>,
}

impl MapAt {
    /// Not looked at yet: it may have changed since the map in use was read, as tables take long to load.
    fn new(path: PathBuf) -> MapAt {
        MapAt { path, seen: None }
    }

    /// The map, where the file is another one than before.
    fn changed(&mut self) -> Option<Result<BucketMap, String>> {
        let seen = seen(&self.path);
        if seen == self.seen {
            return None;
        }
        self.seen = seen;
        Some(MapSource::File(self.path.clone()).read())
    }
}

fn seen(path: &std::path::Path) -> Option<(SystemTime, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// What the thread has.
struct Follows {
    nodes: Arc<Nodes>,
    /// A net thread has asked for a look that has not begun.
    asked: Arc<AtomicBool>,
    names: Arc<Names>,
    file: Option<MapAt>,
    tls: Option<Arc<OutwardTls>>,
    looked_up: Instant,
    /// How long names took then: maps and events wait for no more than every other look.
    look_up_took: Duration,
    /// Names that could not be looked up then, so that each is told once.
    lost: BTreeSet<String>,
}

impl Follows {
    /// Until the server stops.
    fn run(mut self, told: &Receiver<Told>, membership: Option<Membership>) {
        loop {
            match told.recv_timeout(LOOK) {
                Ok(Told::Etcd(event)) => self.hear(event),
                Ok(Told::Look) | Err(RecvTimeoutError::Timeout) => self.look(),
                Ok(Told::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // Gives the lease up.
        drop(membership);
    }

    fn look(&mut self) {
        self.asked.store(false, Ordering::Release);
        match self.file.as_mut().and_then(MapAt::changed) {
            Some(Ok(map)) => self.offer(map.into()),
            Some(Err(why)) => tracing::error!(why, "the map of nodes was not replaced; the one before stays"),
            None => {}
        }
        if let Some(tls) = self.tls.as_ref().filter(|tls| tls.is_stale()) {
            match tls.reload() {
                Ok(()) => tracing::info!(
                    "the files of nodes.tls were read again; new connections to nodes begin with them"
                ),
                Err(error) => {
                    tracing::error!(%error, "the files of nodes.tls were not replaced; connections begin with those before");
                }
            }
        }
        if let Some(map) = self.nodes.map() {
            // A node may have its name once it runs: others wait for it then.
            let names = self.names.load();
            let lacks_one = places(&map, self.tls.is_some()).any(|name| !names.contains_key(name));
            let pause = if lacks_one {
                LOOK.max(self.look_up_took)
            } else {
                LOOK_UP
            };
            if self.looked_up.elapsed() >= pause {
                self.look_up(&map);
            }
        }
    }

    fn look_up(&mut self, map: &BucketMap) {
        let (began, mut lost) = (Instant::now(), BTreeSet::new());
        let mut found = look_up(places(map, self.tls.is_some()), |name, error| {
            if !self.lost.contains(name) {
                tracing::warn!(name, %error, "the address of a node cannot be looked up");
            }
            lost.insert(name.to_owned());
        });
        (self.looked_up, self.look_up_took) = (Instant::now(), began.elapsed());
        self.lost = lost;
        let before = self.names.load();
        // A name that cannot be looked up now is where it was.
        for (name, addresses) in before.iter() {
            found.entry(name.clone()).or_insert_with(|| addresses.clone());
        }
        if found != **before {
            self.names.store(Arc::new(found));
        }
    }

    /// A map that was found: its names are known before the first call goes by it.
    fn offer(&mut self, map: Arc<BucketMap>) {
        let version = map.version();
        if let Err(why) = check_reachable(&map, self.nodes.options.name.as_deref(), self.tls.is_some()) {
            tracing::error!(
                version,
                why,
                "the map of nodes was not replaced; the one before stays"
            );
            return;
        }
        self.look_up(&map);
        let nodes = map.nodes().len();
        match self.nodes.offer(map) {
            Ok(true) => tracing::info!(version, nodes, "calls go by a new map of nodes"),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "the map of nodes was not replaced; the one before stays"),
        }
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Map(map) => self.offer(map),
            Event::MapGone => tracing::warn!("etcd has no map of nodes any more; the last one stays"),
            Event::Connected { endpoint } => tracing::info!(endpoint, "etcd answers"),
            Event::Lost(error) => tracing::warn!(%error, "etcd does not answer; the last map of nodes stays"),
            Event::Refused { key, why } => {
                tracing::warn!(key, why, "a key of etcd cannot be used; what was known stays")
            }
            Event::NodeUp(node) => {
                self.nodes.set_etcd_lease(&node.name, true);
                tracing::info!(node = node.name, "a node is up");
            }
            Event::NodeDown { name } => {
                self.nodes.set_etcd_lease(&name, false);
                tracing::info!(node = name, "a node is down");
            }
            Event::Registered { lease } => tracing::info!(lease, "registered as a node"),
            Event::NameTaken { name } => {
                tracing::error!(
                    node = name,
                    "another process registered under the name of this server"
                );
            }
            other => tracing::info!(?other, "etcd"),
        }
    }
}

/// The names of a map, HOST:PORT, which are no addresses yet.
fn places(map: &BucketMap, has_tls: bool) -> impl Iterator<Item = &str> {
    let addresses = map.nodes().iter();
    let addresses = addresses.flat_map(move |node| node.usable_addresses(has_tls));
    let places = addresses.filter(|address| !address.starts_with("unix:"));
    let places = places.map(|address| address.strip_prefix(TLS).unwrap_or(address));
    places.filter(|place| place.parse::<SocketAddr>().is_err())
}

/// What names mean, as far as they can be looked up.
pub(crate) fn look_up<'n>(
    names: impl Iterator<Item = &'n str>,
    mut lost: impl FnMut(&str, std::io::Error),
) -> HashMap<String, Vec<SocketAddr>> {
    let mut found = HashMap::new();
    for name in names {
        match name.to_socket_addrs() {
            Ok(addresses) => {
                found.insert(name.to_owned(), addresses.collect());
            }
            Err(error) => lost(name, error),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_looked_up_and_addresses_are_not() {
        let text = r#"version = 1
            buckets = 4
            nodes = [{ name = "a", addresses = ["localhost:7", "127.0.0.1:8", "unix:/a", "tls://localhost:9"] }]"#;
        let map = BucketMap::from_toml(text).unwrap();
        assert_eq!(places(&map, true).collect::<Vec<_>>(), ["localhost:9"]);
        let names = places(&map, false).chain(["no.such.host.invalid"]);
        let mut lost = Vec::new();
        let found = look_up(names, |name, _| lost.push(name.to_owned()));
        assert_eq!(found.keys().collect::<Vec<_>>(), ["localhost:7"]);
        assert_eq!(lost, ["no.such.host.invalid"]);
        assert!(
            found["localhost:7"]
                .iter()
                .all(|address| address.ip().is_loopback() && address.port() == 7)
        );
    }

    #[test]
    fn a_file_is_read_where_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("map.toml");
        let write = |more: &str| {
            let text = format!(
                "version = 1\nbuckets = 4\nnodes = [{{ name = \"a\", addresses = [\"a:1\"] }}]{more}"
            );
            std::fs::write(&path, text).unwrap();
        };
        write("");
        let mut map = MapAt::new(path.clone());
        assert_eq!(map.changed().unwrap().unwrap().version(), 1);
        assert!(map.changed().is_none());
        write("\n");
        assert_eq!(map.changed().unwrap().unwrap().version(), 1);
        write("\nnonsense");
        assert!(map.changed().unwrap().unwrap_err().contains("map.toml"));
        assert!(map.changed().is_none());
        std::fs::remove_file(&path).unwrap();
        assert!(map.changed().unwrap().is_err());
    }
}
