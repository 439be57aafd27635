//! The configuration that the campaign's servers run with, and what memory it documents.
//!
//! Bounds are small, so that a short round reaches them. Its invariant: what a check needs to know of the configuration
//! is a constant here, and stands in the text by this file alone.

use crate::certificates::Authority;
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
/// Connections served at a time, by each process.
const CONNECTIONS_MAX: u64 = 400;
const FRAME_BYTES_MAX: u64 = 1 << 20;
const UNFINISHED_BYTES_MAX: u64 = 4 << 20;
/// What the program, its threads, its allocator and the model take before anybody calls, generously: a debug build.
const AT_REST_BYTES: u64 = 96 << 20;
/// Values of a store that is kept for some rounds, and what an index takes for each entry.
const STORE_BYTES: u64 = 128 << 20;

/// Writes the configuration and the certificate files into a folder.
///
/// # Errors
/// A file that cannot be written.
pub fn write(folder: &Path, authority: &Authority, with_store: bool) -> anyhow::Result<()> {
    let text = "x".repeat(LARGE_BYTES);
    let mut config = format!(
        "[server]\nthreads = 2\nconnections_max = {CONNECTIONS_MAX}\nin_flight_max = 1000\nin_flight_per_connection_max = 64\n\
         owed_bytes_max = {WRITE_BUFFER_BYTES_MAX}\nframe_bytes_max = {FRAME_BYTES_MAX}\nunfinished_bytes_max = {UNFINISHED_BYTES_MAX}\n\
         drain_ms_max = {}\nidle_s_max = 20\nrequest_s_max = 4\nwrite_s_max = 6\n\
         [server.tls]\ncertificate = \"server.pem\"\nprivate_key = \"server.key\"\n\
         [log]\nlevel = 3\n\
         [models.stand_in]\nbackend = \"practice\"\nbehaviour = \"wait\"\nus = 2000\nbatch_size_max = 4\nqueue_max = 200\n\
         [methods.echo]\nkind = \"echo\"\n[methods.large]\nanswer = {{ text = \"{text}\" }}\n",
        DRAIN_MAX.as_millis()
    );
    if with_store {
        // Segments of a few dozen puts: a kill meets the change from one to the next often.
        let _ = write!(
            config,
            "[ordered.events]\npath = \"store/events\"\nsegment_bytes_max = 65536\n"
        );
        std::fs::create_dir_all(folder.join("store")).context("cannot make the store's folder")?;
    }
    std::fs::write(folder.join("millpond.toml"), config).context("cannot write the configuration")?;
    authority.renew(folder)
}

/// What the documentation says such a server may take, all its processes together.
///
/// It follows the list in docs/operations.md by hand: at rest, requests that come in, answers that wait, and the store.
pub fn memory_bytes_max(processes: u64) -> u64 {
    let connections = CONNECTIONS_MAX * ((64 << 10) + WRITE_BUFFER_BYTES_MAX / 4);
    processes * (AT_REST_BYTES + UNFINISHED_BYTES_MAX + connections) + STORE_BYTES
}
