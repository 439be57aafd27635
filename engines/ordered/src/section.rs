//! `[ordered.NAME]`: where a store keeps its log and its checkpoints, and how durable a put is.
//!
//! Its invariant: a section that passes [`Section::check`] has a folder exactly if puts are to survive.

use crate::{Acknowledge, Durability, Error, Eviction, Options, Recovery, Store};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// The longest that a write may be let wait for a follower.
const ACKNOWLEDGE_MS_MAX: u64 = 3_600_000;

/// One store of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Section {
    /// The store's folder; made when absent. Left out with durability "memory".
    pub path: Option<PathBuf>,
    /// What an acknowledged put survives.
    pub durability: Durability,
    /// Milliseconds between two syncs with durability "logged"; segments' ends and the close only when left out.
    pub sync_every_ms: Option<u64>,
    /// Puts waiting for the log; further ones are refused.
    pub queue_max: usize,
    /// Bytes of one log file.
    pub segment_bytes_max: u64,
    /// Memory that its entries may take; no limit when left out.
    pub memory_bytes_max: Option<u64>,
    /// What gives way to writes that would take more.
    pub eviction: Eviction,
    /// Bytes of the log after which a checkpoint is written, and no fewer than the last one has.
    pub checkpoint_log_bytes: u64,
    /// The server whose store of the same name it follows, as `HOST:PORT`, `tls://HOST:PORT` or `unix:PATH`: it has that store's records, and
    /// takes no writes until it is promoted.
    pub follow: Option<String>,
    /// The file with the token that it shows there. The store itself does nothing with it.
    pub follow_token_file: Option<PathBuf>,
    /// Whose log has a write before it is shown and answered: this store's, or a follower's too.
    pub acknowledge: Acknowledge,
    /// Milliseconds that a write waits for a follower, with acknowledge "follower".
    pub acknowledge_ms: Option<u64>,
    /// PEM: who signs that server's certificate, where it is called by TLS; those whom the system trusts, where left out. The store itself does
    /// nothing with it.
    pub follow_ca: Option<PathBuf>,
    /// The number that RESP's SELECT calls it by. The store itself does nothing with it.
    pub resp_database: Option<u32>,
}

impl Default for Section {
    fn default() -> Section {
        let Options {
            durability,
            queue_max,
            segment_bytes_max,
            memory_bytes_max,
            eviction,
            checkpoint_log_bytes,
            ..
        } = Options::default();
        Section {
            path: None,
            durability,
            sync_every_ms: None,
            queue_max,
            segment_bytes_max,
            memory_bytes_max,
            eviction,
            checkpoint_log_bytes,
            follow: None,
            follow_token_file: None,
            acknowledge: Acknowledge::Leader,
            acknowledge_ms: None,
            follow_ca: None,
            resp_database: None,
        }
    }
}

impl Section {
    /// What is known to be wrong before anything is opened. `at` is the section, as in `ordered.events`.
    ///
    /// # Errors
    /// The problem, its key, and what to do.
    pub fn check(&self, at: &str) -> Result<(), String> {
        match (&self.path, self.durability.has_log()) {
            (None, true) => {
                return Err(format!(
                    "{at}.path is missing; name a folder, or set durability = \"memory\""
                ));
            }
            (Some(_), false) => {
                return Err(format!(
                    "{at}: a store with durability \"memory\" keeps no file; leave path out, or choose \"logged\" or \"synced\""
                ));
            }
            (None, false) | (Some(_), true) => {}
        }
        millpond_wal::check_sync_every(at, self.durability, self.sync_every_ms)?;
        for (key, found) in [
            ("queue_max", self.queue_max as u64),
            ("segment_bytes_max", self.segment_bytes_max),
        ] {
            if found == 0 {
                return Err(format!("{at}.{key} is 0; expected at least 1"));
            }
        }
        if self.checkpoint_log_bytes == 0 {
            return Err(format!(
                "{at}.checkpoint_log_bytes is 0; expected at least 1, or leave it out for {}",
                Options::default().checkpoint_log_bytes
            ));
        }
        match (&self.follow, &self.follow_token_file) {
            (Some(_), _) if !self.durability.has_log() => Err(format!(
                "{at}.follow: a store with durability \"memory\" has no log, so it follows nobody; name a path, or leave follow out"
            )),
            (Some(leader), None) => Err(format!(
                "{at}.follow_token_file is missing: {leader} gives its records to servers with a token for \"ordered.follow\" and \"ordered.copy\" alone; name a file that holds it"
            )),
            (None, Some(_)) => Err(format!(
                "{at}.follow_token_file goes with follow; name the server to follow, or leave it out"
            )),
            _ => Ok(()),
        }?;
        self.check_acknowledge(at)?;
        let is_tls = self
            .follow
            .as_ref()
            .is_some_and(|leader| leader.starts_with("tls://"));
        if self.follow_ca.is_some() && !is_tls {
            return Err(format!(
                "{at}.follow_ca goes with a leader that is called by TLS; write follow = \"tls://HOST:PORT\", or leave it out"
            ));
        }
        if self.memory_bytes_max == Some(0) {
            return Err(format!(
                "{at}.memory_bytes_max is 0, so the store could hold nothing; leave it out for no limit"
            ));
        }
        if self.memory_bytes_max.is_none() && self.eviction != Eviction::None {
            return Err(format!(
                "{at}.eviction is \"{}\", but without a limit nothing has to give way; set {at}.memory_bytes_max, or leave eviction out",
                self.eviction.as_str()
            ));
        }
        Ok(())
    }

    fn check_acknowledge(&self, at: &str) -> Result<(), String> {
        match (self.acknowledge, self.acknowledge_ms) {
            (Acknowledge::Follower, _) if !self.durability.has_log() => Err(format!(
                "{at}.acknowledge: a store with durability \"memory\" has no log, so nobody follows it; name a path, or leave acknowledge out"
            )),
            (Acknowledge::Leader, Some(_)) => Err(format!(
                "{at}.acknowledge_ms goes with acknowledge = \"follower\"; with \"leader\" no write waits for a follower: leave it out, or set \"follower\""
            )),
            (Acknowledge::Follower, Some(ms)) if ms == 0 || ms > ACKNOWLEDGE_MS_MAX => Err(format!(
                "{at}.acknowledge_ms is {ms}; expected 1 to {ACKNOWLEDGE_MS_MAX}, or leave it out for {}",
                Options::default().acknowledge_within.as_millis()
            )),
            _ => Ok(()),
        }
    }

    /// Opens the store, and says what its log held where it has one. `queue_bytes_max` bounds the bytes of puts that wait.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open(&self, queue_bytes_max: usize) -> Result<(Store, Option<Recovery>), Error> {
        let options = Options {
            durability: self.durability,
            sync_every: self.sync_every_ms.map(Duration::from_millis),
            queue_max: self.queue_max,
            queue_bytes_max,
            segment_bytes_max: self.segment_bytes_max,
            memory_bytes_max: self.memory_bytes_max,
            eviction: self.eviction,
            checkpoint_log_bytes: self.checkpoint_log_bytes,
            follows: self.follow.clone(),
            acknowledge: self.acknowledge,
            acknowledge_within: self
                .acknowledge_ms
                .map_or(Options::default().acknowledge_within, Duration::from_millis),
        };
        let Some(path) = &self.path else {
            return Ok((Store::in_memory(options), None));
        };
        let (store, recovery) = Store::open(path, options)?;
        Ok((store, Some(recovery)))
    }
}
