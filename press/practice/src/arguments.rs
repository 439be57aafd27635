//! The command line of the practice server.
//!
//! Its invariant: every value is read here and nowhere else; which go together is told by `Kind::of`.

use crate::delay::Delay;
use crate::error::Error;
use crate::kind::{Fault, Stall};
use crate::quantity;
use clap::{Args, Command, FromArgMatches};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// An echo server of known behaviour, to try a load tool on: what it measures can be held against what is known.
///
/// It knows no protocol: a request is --request-bytes bytes, its answer the same bytes. Without a behaviour it echoes whatever comes
/// as fast as it can. It says where it listens in one line and ends at SIGTERM or Ctrl-C with exit code 0.
/// Durations carry their unit: 500ns, 100us, 2ms, 1.5s.
#[derive(Args, Debug, Clone)]
pub struct Arguments {
    /// Where to listen; port 0 takes a free one, which is printed.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070")]
    pub(crate) listen: SocketAddr,
    /// How long a request is. Plain echo, --stall and --accept-pause do not look at requests.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub(crate) request_bytes: u32,
    /// Threads that serve, connections spread over them in turn. More than one core of load needs more than one.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,
    /// What is random is drawn from this; one thread and one order of requests give the same draws again.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many connections the system keeps ready to be accepted (one more than this) [default: 4096; 1 with --accept-pause].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=65_535))]
    pub(crate) backlog: Option<u16>,

    /// Answer each request its drawn delay after it was read: constant:2ms, bimodal:1ms:20ms:0.05 (fast, slow, share of the slow),
    /// exponential:2ms (its mean). A connection's answers keep their order, so a slow one holds up those behind it on the
    /// same connection and no others.
    #[arg(
        long,
        value_name = "DELAY",
        group = "behaviour",
        help_heading = "Behaviours, one of"
    )]
    pub(crate) delay: Option<Delay>,
    /// Plain echo that now and then does nothing: every:10s:1s sleeps 1 s every 10 s, counted from the first byte that
    /// came. A load tool that waits for answers before it sends more hides most of this.
    #[arg(
        long,
        value_name = "STALL",
        group = "behaviour",
        help_heading = "Behaviours, one of"
    )]
    pub(crate) stall: Option<Stall>,
    /// Serve one queue at exactly this many requests a second: below it answers leave at once, above it the queue grows.
    #[arg(long, value_name = "RATE", value_parser = quantity::rate, group = "behaviour", help_heading = "Behaviours, one of")]
    pub(crate) rate: Option<f64>,
    /// Burn this much processor time for each request on the thread that serves its connection.
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration_above_zero, group = "behaviour",
          help_heading = "Behaviours, one of")]
    pub(crate) work: Option<Duration>,
    /// Sleep this long for each request on one of --workers threads: the most it serves is workers / sleep, and it uses
    /// no processor.
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration_above_zero, group = "behaviour",
          help_heading = "Behaviours, one of")]
    pub(crate) sleep: Option<Duration>,
    /// Hold one lock while each request burns this much processor time on one of --workers threads: more workers do not
    /// help.
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration_above_zero, group = "behaviour",
          help_heading = "Behaviours, one of")]
    pub(crate) lock: Option<Duration>,
    /// Append each request to this file and sync it (fdatasync) before it is answered, on --workers threads.
    #[arg(
        long,
        value_name = "FILE",
        group = "behaviour",
        help_heading = "Behaviours, one of"
    )]
    pub(crate) disk: Option<PathBuf>,
    /// Plain echo that accepts one connection every --accept-every, with a short --backlog: connecting is what is slow.
    #[arg(long, group = "behaviour", help_heading = "Behaviours, one of")]
    pub(crate) accept_pause: bool,
    /// Do something wrong, to see that it is noticed: hang (never answer), reset (once a request was read), garbage (other
    /// bytes, as many), twice (each answer), reorder (answer pairs of requests the wrong way round; a connection needs two
    /// in flight), short (half an answer, then close), close-after:N (close after N right answers).
    #[arg(
        long,
        value_name = "FAULT",
        group = "behaviour",
        help_heading = "Behaviours, one of"
    )]
    pub(crate) fault: Option<Fault>,

    /// With --delay: at the end write the exact percentiles of what was drawn, and of what was achieved, from the end
    /// of the read to the beginning of the write, as JSON.
    #[arg(
        long,
        value_name = "FILE",
        requires = "delay",
        help_heading = "Details of a behaviour"
    )]
    pub(crate) truth: Option<PathBuf>,
    /// With --rate: beyond this many waiting requests a connection that brings another is closed.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000),
          help_heading = "Details of a behaviour")]
    pub(crate) queue_max: u32,
    /// With --sleep, --lock or --disk: how many threads take requests from the queue.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1_024),
          help_heading = "Details of a behaviour")]
    pub(crate) workers: u16,
    /// With --lock: sleep while the lock is held instead of burning processor time.
    #[arg(long, requires = "lock", help_heading = "Details of a behaviour")]
    pub(crate) lock_sleep: bool,
    /// With --accept-pause: how long one accepted connection is after the other.
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = quantity::duration_above_zero,
          help_heading = "Details of a behaviour")]
    pub(crate) accept_every: Duration,
}

impl Arguments {
    /// Reads them from words as they would stand on a command line, without the program's name: for tests and benches.
    ///
    /// # Errors
    /// The words are no such command line; the message is the one that a user gets.
    pub fn from_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Arguments, Error> {
        let command = Command::new("practice").no_binary_name(true);
        let matches = Arguments::augment_args(command)
            .try_get_matches_from(words)
            .map_err(|error| Error::Usage(error.to_string()))?;
        Arguments::from_arg_matches(&matches).map_err(|error| Error::Usage(error.to_string()))
    }
}
