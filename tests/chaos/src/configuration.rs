//! The configuration that the campaign's servers run with.
//!
//! Bounds are small, so that a short round reaches them. Its invariant: what a check needs to know of the configuration
//! is a constant here, and stands in the text by this file alone.

use crate::certificates::Authority;
use crate::fresh;
use crate::mixed::{LOGGED, SYNCED};
use crate::table::{NAME, TABLES};
use anyhow::Context as _;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// How long a stop waits for accepted calls.
pub const DRAIN_MAX: Duration = Duration::from_millis(1500);
/// Bytes of the text in the answer of `large`.
pub const LARGE_BYTES: usize = 60_000;
/// Bytes of answers that may wait for one peer.
const WRITE_BUFFER_BYTES_MAX: u64 = 1 << 20;
/// The same for all of them; the slow readers of one fault ask for more.
const WRITE_BUFFERS_TOTAL_BYTES_MAX: u64 = 8 << 20;
/// Connections served at a time, by each process.
const CONNECTIONS_MAX: u64 = 400;
const FRAME_BYTES_MAX: u64 = 1 << 20;
const UNFINISHED_BYTES_MAX: u64 = 4 << 20;
/// Bytes of a segment of the store's log: a few dozen puts, so that a kill meets the change from one to the next often.
pub const SEGMENT_BYTES_MAX: u64 = 64 << 10;
/// Bytes of the store's log after which a checkpoint is written, at least: kills meet it too.
const CHECKPOINT_LOG_BYTES: u64 = 128 << 10;
/// The same of the stores under mixed load, whose writes are smaller: segments and checkpoints follow each other all the time.
const MIXED_SEGMENT_BYTES_MAX: u64 = 8 << 10;
const MIXED_CHECKPOINT_LOG_BYTES: u64 = 16 << 10;
/// Far more than the fresh rows of a life take: no upsert is to be refused for want of memory.
const FRESH_BYTES_MAX: u64 = 4 << 20;
/// How long the rest of a request may take.
pub const REQUEST_MAX: Duration = Duration::from_secs(4);
/// How long a connection may ask nothing.
pub const IDLE_MAX: Duration = Duration::from_secs(20);
/// The token of methods that switch versions.
pub const TOKEN: &str = "campaign";
/// How late the server may be with the end of either.
pub const OVERDUE_LATE: Duration = Duration::from_secs(5);

/// Writes the configuration and the certificate files into a folder. The durability is that of upserts and of the second store under mixed
/// load; without one there are neither stores nor fresh rows.
///
/// # Errors
/// A file that cannot be written.
pub fn write(folder: &Path, authority: &Authority, durability: Option<&str>) -> anyhow::Result<()> {
    let text = "x".repeat(LARGE_BYTES);
    let default_store = if durability.is_some() {
        "default_store = \"events\"\n"
    } else {
        ""
    };
    let mut config = format!(
        "{default_store}[server]\nthreads = 2\nconnections_max = {CONNECTIONS_MAX}\nin_flight_max = 1000\nin_flight_per_connection_max = 64\n\
         write_buffer_bytes_max = {WRITE_BUFFER_BYTES_MAX}\nwrite_buffers_total_bytes_max = {WRITE_BUFFERS_TOTAL_BYTES_MAX}\nframe_bytes_max = {FRAME_BYTES_MAX}\nunfinished_bytes_max = {UNFINISHED_BYTES_MAX}\n\
         drain_ms_max = {}\nidle_timeout_s = {}\nrequest_timeout_s = {}\nwrite_timeout_s = 6\n\
         [server.tls]\ncertificate = \"server.pem\"\nprivate_key = \"server.key\"\n\
         [log]\nlevel = 3\nqueue_bytes_max = 1048576\n\
         [models.stand_in]\nbackend = \"practice\"\nbehaviour = \"wait\"\nus = 2000\nbatch_size_max = 4\nqueue_max = 200\nqueue_bytes_max = 4194304\n\
         [admin]\ntoken = \"{TOKEN}\"\n[features.{NAME}]\npath = \"{TABLES}/{NAME}\"\n\
         [methods.echo]\nkind = \"echo\"\n[methods.large]\nanswer = {{ text = \"{text}\" }}\n",
        DRAIN_MAX.as_millis(),
        IDLE_MAX.as_secs(),
        REQUEST_MAX.as_secs()
    );
    if let Some(durability) = durability {
        let _ = write!(
            config,
            "[ordered.events]\npath = \"store/events\"\nsegment_bytes_max = {SEGMENT_BYTES_MAX}\n\
             checkpoint_log_bytes = {CHECKPOINT_LOG_BYTES}\n\
             [ordered.{SYNCED}]\npath = \"store/{SYNCED}\"\nsegment_bytes_max = {MIXED_SEGMENT_BYTES_MAX}\n\
             checkpoint_log_bytes = {MIXED_CHECKPOINT_LOG_BYTES}\n\
             [ordered.{LOGGED}]\npath = \"store/{LOGGED}\"\ndurability = \"{durability}\"\n\
             segment_bytes_max = {MIXED_SEGMENT_BYTES_MAX}\ncheckpoint_log_bytes = {MIXED_CHECKPOINT_LOG_BYTES}\n\
             [features.{fresh}]\npath = \"{TABLES}/{fresh}\"\n[features.{fresh}.overlay]\npath = \"{log}\"\n\
             durability = \"{durability}\"\nbytes_max = {FRESH_BYTES_MAX}\nsegment_bytes_max = {SEGMENT_BYTES_MAX}\n",
            fresh = fresh::NAME,
            log = fresh::LOG
        );
    }
    std::fs::create_dir_all(folder.join("store")).context("cannot make the store's folder")?;
    std::fs::write(folder.join("millpond.toml"), config).context("cannot write the configuration")?;
    authority.renew(folder)
}

/// Bytes of a node's log after which a checkpoint is written, at least: a follower that is killed mostly finds what it lacks.
const NODE_CHECKPOINT_LOG_BYTES: u64 = 512 << 10;
/// How long a write waits for a follower: at times longer than one is away, at times not.
const ACKNOWLEDGE_MS: u64 = 300;
/// The file of the token that followers show, which is the admin's: it opens all that they ask for.
pub const FOLLOWERS_FILE: &str = "followers.token";

/// Writes the configuration of one of two servers that keep the same stores, reached at a socket beside its ports. With `acknowledges` its
/// writes wait for a follower.
///
/// # Errors
/// A file that cannot be written.
pub fn write_node(
    folder: &Path,
    authority: &Authority,
    socket: &Path,
    acknowledges: bool,
) -> anyhow::Result<()> {
    let mut config = format!(
        "default_store = \"{SYNCED}\"\n\
         [server]\nthreads = 2\nconnections_max = {CONNECTIONS_MAX}\ndrain_ms_max = {}\nlisten_also = [\"unix:{}\"]\n\
         [server.tls]\ncertificate = \"server.pem\"\nprivate_key = \"server.key\"\n\
         [log]\nlevel = 3\nqueue_bytes_max = 1048576\n[admin]\ntoken = \"{TOKEN}\"\n",
        DRAIN_MAX.as_millis(),
        socket.display()
    );
    for (store, durability) in [(SYNCED, "synced"), (LOGGED, "logged")] {
        let _ = write!(
            config,
            "[ordered.{store}]\npath = \"store/{store}\"\ndurability = \"{durability}\"\n\
             segment_bytes_max = {MIXED_SEGMENT_BYTES_MAX}\ncheckpoint_log_bytes = {NODE_CHECKPOINT_LOG_BYTES}\n"
        );
        if acknowledges {
            let _ = writeln!(
                config,
                "acknowledge = \"follower\"\nacknowledge_ms = {ACKNOWLEDGE_MS}"
            );
        }
    }
    std::fs::create_dir_all(folder.join("store")).context("cannot make the stores' folder")?;
    std::fs::write(folder.join(FOLLOWERS_FILE), TOKEN).context("cannot write a token")?;
    std::fs::write(folder.join("millpond.toml"), config).context("cannot write the configuration")?;
    authority.renew(folder)
}
