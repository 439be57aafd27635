//! What the threads of a round share: the server, what is counted and found, and what may be expected of it now.
//!
//! Its invariant: `over` turns true once, and every thread of the round ends soon after.

use crate::certificates::Authority;
use crate::finding::{Broken, Findings};
use crate::fresh::{self, Fresh};
use crate::front::{Answer, Came, Connection, Front};
use crate::ledger::{Ledger, State, entries};
use crate::life::Life;
use crate::load::{Ground, Unbroken, probe_mixed, upsert_once};
use crate::mixed::Book;
use crate::plan::{Kind, Round, generator};
use crate::server::Server;
use crate::settings::Settings;
use crate::table::Served;
use crate::tally::Tally;
use rand::rngs::StdRng;
use rustls::ClientConfig;
use serde_json::json;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A call that is not answered within this time, on a connection that stays open, is lost: far beyond every deadline,
/// pause and stop of a round.
pub const ANSWER_MAX: Duration = Duration::from_secs(45);

/// A call of a check, made while nothing hurts the server, is answered in this time.
const CHECK_MAX: Duration = Duration::from_secs(5);

/// What `/readyz` has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// 200.
    Ready,
    /// Anything but 200.
    NotReady,
    /// Either.
    Unknown,
}

/// The round's shared state.
pub struct Scene<'r> {
    /// How the campaign runs.
    pub settings: &'r Settings,
    /// The server.
    pub server: &'r Server,
    /// Its folder.
    pub folder: &'r Path,
    /// Signs its certificates.
    pub authority: &'r Authority,
    /// What callers know of the store.
    pub ledger: &'r Ledger,
    /// What callers know of the stores under mixed load.
    pub books: &'r [Book; 2],
    /// What callers know of the version of the feature table.
    pub served: &'r Served,
    /// What callers know of fresh rows.
    pub fresh: &'r Fresh,
    /// What an upsert has to say that it survives.
    pub durability: &'static str,
    /// Threads that upsert.
    pub upserters: u64,
    /// What builds that are killed have to come to.
    pub unbroken: &'r Unbroken,
    /// What is counted.
    pub tally: &'r Tally,
    /// What is found.
    pub findings: &'r Findings,
    /// The round's own seed.
    pub seed: u64,
    /// Writers pause up to so long between puts: a longer round would fill any disk.
    pub pause_ms_max: u64,
    /// What callers can make the server hold.
    pub documented_bytes: u64,
    /// TLS clients.
    pub tls: Arc<ClientConfig>,
    /// Puts acknowledged in this round.
    pub puts: AtomicU64,
    /// Upserts acknowledged in this round.
    pub upserts: AtomicU64,
    /// The disk was made to fail in this round, which explains more.
    pub disk_failed: AtomicBool,
    over: AtomicBool,
    truth: Mutex<(Truth, Instant)>,
}

impl<'r> Scene<'r> {
    /// The beginning of a round: a server that is ready.
    pub fn new(
        settings: &'r Settings,
        life: &'r Life,
        server: &'r Server,
        tally: &'r Tally,
        findings: &'r Findings,
        round: &Round,
    ) -> Scene<'r> {
        Scene {
            settings,
            server,
            folder: life.folder(),
            authority: life.authority(),
            ledger: life.ledger(),
            books: life.books(),
            served: life.served(),
            fresh: life.fresh(),
            durability: life.durability(),
            unbroken: life.unbroken(),
            upserters: u64::from(round.upserters),
            tally,
            findings,
            seed: round.seed,
            pause_ms_max: if round.kind == Kind::Kill { 0 } else { 3 },
            documented_bytes: life.documented_bytes(),
            tls: life.authority().client(),
            puts: AtomicU64::new(0),
            upserts: AtomicU64::new(0),
            disk_failed: AtomicBool::new(false),
            over: AtomicBool::new(false),
            truth: Mutex::new((Truth::Ready, Instant::now())),
        }
    }

    /// What the load of one of the stores under mixed load needs.
    pub fn ground<'g>(&'g self, book: &'g Book) -> Ground<'g> {
        Ground {
            server: self.server,
            tls: &self.tls,
            findings: self.findings,
            tally: self.tally,
            book,
            over: &self.over,
            disk_failed: &self.disk_failed,
            may_move: false,
            is_follower: false,
            pause_ms_max: self.pause_ms_max,
            seed: self.seed,
        }
    }

    /// Whether the round's threads are to end.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Has them end.
    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// Sleeps, but no longer than the round lasts.
    pub fn sleep(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.is_over() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5).min(until - Instant::now()));
        }
    }

    /// What `/readyz` has to say from now on.
    pub fn expect(&self, truth: Truth) {
        *self.truth.lock().unwrap_or_else(PoisonError::into_inner) = (truth, Instant::now());
    }

    /// What it has to say, and since when.
    pub fn truth(&self) -> (Truth, Instant) {
        *self.truth.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A generator for one of the round's threads.
    pub fn generator(&self, who: u64) -> StdRng {
        generator(self.seed, who)
    }

    /// A new connection.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub fn connect(&self, front: Front, random: &mut StdRng) -> std::io::Result<Connection> {
        Connection::open(front, self.server, &self.tls, ANSWER_MAX, random)
    }

    /// A new connection for a check, which does not wait as long.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub fn connect_to_check(&self, front: Front, random: &mut StdRng) -> std::io::Result<Connection> {
        let patience = CHECK_MAX * self.settings.generosity;
        Connection::open(front, self.server, &self.tls, patience, random)
    }

    /// Tells of a finding.
    pub fn tell(&self, broken: Broken, seen: impl Into<String>) {
        self.findings.tell(broken, seen);
    }

    /// Writes once to each store and upserts once, under keys of its own, and says with which code the first was refused; 0 where all were taken.
    pub fn probe(&self, random: &mut StdRng) -> Option<u64> {
        let code = self.probe_put(random)?;
        if code != 0 {
            return Some(code);
        }
        for book in self.books {
            let mut connection = self.connect_to_check(Front::of(0), random).ok()?;
            let code = probe_mixed(self.ground(book), &mut connection, random)?;
            if code != 0 {
                return Some(code);
            }
        }
        let mut connection = self.connect_to_check(Front::of(0), random).ok()?;
        upsert_once(self, &mut connection, fresh::PROBE, random)
    }

    fn probe_put(&self, random: &mut StdRng) -> Option<u64> {
        let writer = u64::from(u32::MAX);
        let number = self.ledger.begin(writer);
        let payload = json!({"entries": entries(writer, number)});
        let mut connection = self.connect_to_check(Front::of(0), random).ok()?;
        match connection.call("ordered.put", payload) {
            Came::Answer(_, Answer::Good(_)) => {
                let _ = self.ledger.learn(writer, number, State::There);
                Some(0)
            }
            Came::Answer(_, Answer::Error(code, _)) => Some(code),
            _ => None,
        }
    }
}
