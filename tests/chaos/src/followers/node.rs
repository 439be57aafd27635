//! One of two servers that keep the same stores: started as a leader or a follower, asked, promoted, and given a copy of the other's.
//!
//! Its invariant: a node that is given a copy runs no server meanwhile.

use crate::certificates::Authority;
use crate::configuration::{self, FOLLOWERS_FILE, TOKEN};
use crate::front::{Answer, Came, Connection, Front};
use crate::mixed::{LOGGED, SYNCED};
use crate::plan::generator;
use crate::scene::ANSWER_MAX;
use crate::server::{Launch, Server};
use crate::settings::Settings;
use anyhow::Context as _;
use rustix::process::Signal;
use rustls::ClientConfig;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The stores of a node.
pub(super) const STORES: [&str; 2] = [SYNCED, LOGGED];
/// A kill takes no longer.
const KILL_MAX: Duration = Duration::from_secs(20);

/// What a follower's log says where somebody has to give it a copy.
const REFUSED: [&str; 2] = [
    "start it again: it takes a copy",
    "what the follower may have alone",
];

/// A folder, and the server that runs in it.
pub(super) struct Node {
    folder: PathBuf,
    socket: PathBuf,
    server: Option<Server>,
    /// Numbers its logs.
    starts: u64,
}

/// What a store says of whom it follows, or who follows it.
#[derive(Debug)]
pub(super) struct Standing {
    pub is_connected: bool,
    pub record: u64,
    pub lag: u64,
}

impl Node {
    pub fn new(
        folder: &Path,
        socket: PathBuf,
        authority: &Authority,
        acknowledges: bool,
    ) -> anyhow::Result<Node> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        configuration::write_node(folder, authority, &socket, acknowledges)?;
        Ok(Node {
            folder: folder.to_owned(),
            socket,
            server: None,
            starts: 0,
        })
    }

    /// Starts it, as a leader or a follower of another.
    pub fn start(&mut self, settings: &Settings, leader: Option<&Node>) -> anyhow::Result<()> {
        let follow = |store: &str, leader: &Node| {
            [
                format!("ordered.{store}.follow=\"unix:{}\"", leader.socket.display()),
                format!("ordered.{store}.follow_token_file=\"{FOLLOWERS_FILE}\""),
            ]
        };
        let set: Vec<String> = match leader {
            Some(leader) => STORES.iter().flat_map(|store| follow(store, leader)).collect(),
            None => Vec::new(),
        };
        self.starts += 1;
        let launch = Launch {
            millpond: &settings.millpond,
            folder: &self.folder,
            processes: 1,
            round: self.starts,
            set: &set,
        };
        self.server = Some(launch.begin()?.ready()?);
        Ok(())
    }

    pub fn server(&self) -> anyhow::Result<&Server> {
        self.server
            .as_ref()
            .context("no server runs in the node's folder")
    }

    /// kill -9; panics that it told of.
    pub fn kill(&mut self) -> Vec<String> {
        let Some(server) = self.server.take() else {
            return Vec::new();
        };
        server.signal(Signal::KILL);
        let _ = server.wait(KILL_MAX);
        server.panics()
    }

    /// Makes a call on a connection of its own.
    pub fn call(&self, tls: &Arc<ClientConfig>, method: &str, payload: Value) -> anyhow::Result<Value> {
        let random = &mut generator(0, 0);
        let server = self.server()?;
        let mut connection = Connection::open(Front::of(0), server, tls, ANSWER_MAX, random)?;
        match connection.call(method, payload) {
            Came::Answer(_, Answer::Good(answer)) => Ok(answer),
            other => anyhow::bail!("{method}: {other:?}"),
        }
    }

    /// Has the follower's stores take writes.
    pub fn promote(&self, tls: &Arc<ClientConfig>) -> anyhow::Result<()> {
        for store in STORES {
            self.call(tls, "ordered.promote", json!({"table": store, "_token": TOKEN}))?;
        }
        Ok(())
    }

    pub fn standing(&self, tls: &Arc<ClientConfig>, store: &str) -> anyhow::Result<Standing> {
        let answer = self.call(tls, "ordered.inspect", json!({"table": store}))?;
        let said = &answer["store"]["replication"];
        Ok(Standing {
            is_connected: said["connected"] == json!(true),
            record: said["record"].as_u64().unwrap_or(0),
            lag: said["lag_records"].as_u64().unwrap_or(u64::MAX),
        })
    }

    /// Whether it has all that a leader has that nobody writes. It gives up sooner where its log says that it cannot.
    pub fn catches_up(
        &self,
        tls: &Arc<ClientConfig>,
        leader: &Node,
        limit: Duration,
    ) -> anyhow::Result<bool> {
        let until = Instant::now() + limit;
        for store in STORES {
            let record = leader.standing(tls, store)?.record;
            // It refuses even this while it takes in a copy by itself.
            let has_all =
                |standing: Standing| standing.is_connected && standing.record >= record && standing.lag == 0;
            while !self.standing(tls, store).is_ok_and(has_all) {
                if let Some(status) = self.server()?.ended() {
                    anyhow::bail!("the follower ended by itself: {status}");
                }
                if Instant::now() > until || self.is_refused()? {
                    return Ok(false);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(true)
    }

    /// Whether the log of its server says that it cannot follow with what it has.
    fn is_refused(&self) -> anyhow::Result<bool> {
        let log = std::fs::read(&self.server()?.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        Ok(REFUSED.iter().any(|words| log.contains(words)))
    }

    /// Throws its stores away and has copies of another's in their place, which runs.
    pub fn copy_from(&mut self, settings: &Settings, other: &Node) -> anyhow::Result<()> {
        for store in STORES {
            let [from, to] = [other, self].map(|node| node.folder.join("store").join(store));
            let copy = self.folder.join("copy");
            for folder in [&to, &copy] {
                if folder.exists() {
                    std::fs::remove_dir_all(folder)?;
                }
            }
            ordered(settings, "backup", &from, &copy)?;
            ordered(settings, "restore", &copy, &to)?;
        }
        Ok(())
    }

    /// Throws its stores away.
    pub fn empty(&mut self) -> anyhow::Result<()> {
        for store in STORES {
            std::fs::remove_dir_all(self.folder.join("store").join(store))?;
        }
        Ok(())
    }
}

fn ordered(settings: &Settings, what: &str, from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(&settings.millpond);
    command
        .args(["ordered", what])
        .args([from, to])
        .stdin(Stdio::null());
    let done = command
        .output()
        .with_context(|| format!("cannot run millpond ordered {what}"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    anyhow::ensure!(done.status.success(), "millpond ordered {what}: {}", said.trim());
    Ok(())
}
