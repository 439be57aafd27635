//! Two servers that keep the same stores, either of them killed again and again, and the follower promoted.
//!
//! Its invariant: when a round is over, one leads, the other has all that it has, and the books say what that is.

mod node;

use crate::campaign::{Outcome, tell};
use crate::certificates::Authority;
use crate::finding::{Broken, Finding, Findings};
use crate::invariant::mixed::read;
use crate::load::{self, Ground};
use crate::mixed::{Book, Found, LOGGED, Promise, SYNCED};
use crate::plan::generator;
use crate::settings::Settings;
use crate::tally::{Counted, Tally, Word};
use node::Node;
use rand::RngExt;
use rand::rngs::StdRng;
use rustix::process::Signal;
use rustls::ClientConfig;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A follower has what it lacks within this time.
const CATCH_UP_MAX: Duration = Duration::from_secs(20);
/// Rounds for each promotion at most: more than half of the plans have one.
const ROUNDS_EACH: u64 = 20;
/// Writers of each store.
const WRITERS: u64 = 2;

/// What is done to the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// The leader is killed, and the follower promoted.
    TakeOver,
    /// The same, and the follower is killed while it is promoted, and promoted again.
    KilledInPromotion,
    /// The follower is killed, and goes on while the load does.
    FollowerKilled,
    /// The leader is killed, and goes on.
    LeaderKilled,
    /// Both are, and go on.
    BothKilled,
}

impl Plan {
    fn any(random: &mut StdRng) -> Plan {
        match random.random_range(0..10) {
            0..5 => Plan::TakeOver,
            5 => Plan::KilledInPromotion,
            6 | 7 => Plan::FollowerKilled,
            8 => Plan::LeaderKilled,
            _ => Plan::BothKilled,
        }
    }
}

/// The two, and what is known of their stores.
struct Pair<'s> {
    settings: &'s Settings,
    tls: Arc<ClientConfig>,
    leader: Node,
    follower: Node,
    books: [Book; 2],
    promise: Promise,
    folder: PathBuf,
    _sockets: tempfile::TempDir,
}

/// Runs rounds until so many followers were promoted, or too many rounds did not do it; `say` gets a line for each finding.
///
/// # Errors
/// The campaign itself cannot go on.
pub fn run(
    settings: &Settings,
    promotions: u64,
    acknowledges: bool,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Outcome> {
    let (tally, mut findings, mut number) = (Tally::default(), Vec::new(), 0);
    let mut pair = None;
    let rounds_max = promotions.saturating_mul(ROUNDS_EACH);
    while tally.promotions.load(Ordering::Relaxed) < promotions && number < rounds_max {
        let mut now = match pair.take() {
            Some(pair) => pair,
            None => Pair::begin(settings, number, acknowledges)?,
        };
        let random = &mut generator(settings.seed, number + 1);
        let plan = Plan::any(random);
        if settings.is_verbose {
            say(&format!("round {number}: {plan:?}"));
        }
        let found = now.round(plan, number, random, &tally);
        match found.is_empty() {
            true => pair = Some(now),
            false => tell(&found, &now.folder, say),
        }
        findings.extend(found);
        number += 1;
    }
    if let Some(pair) = pair {
        let folder = pair.folder.clone();
        drop(pair);
        // What cannot be removed stays below the build's folder.
        let _ = std::fs::remove_dir_all(folder);
    }
    Ok(Outcome {
        tally,
        findings,
        rounds: number,
    })
}

impl<'s> Pair<'s> {
    fn begin(settings: &'s Settings, number: u64, acknowledges: bool) -> anyhow::Result<Pair<'s>> {
        let name = format!("seed-{:#x}-followers-{number}", settings.seed);
        let folder = settings.keep.join(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        let authority = Authority::new()?;
        // The path of a socket is short.
        let sockets = tempfile::tempdir()?;
        let node = |name: &str| {
            let socket = sockets.path().join(name);
            Node::new(&folder.join(name), socket, &authority, acknowledges)
        };
        let (mut leader, mut follower) = (node("a")?, node("b")?);
        leader.start(settings, None)?;
        follower.start(settings, Some(&leader))?;
        let promise = if acknowledges {
            Promise::All
        } else {
            Promise::Beginning
        };
        let pair = Pair {
            settings,
            tls: authority.client(),
            leader,
            follower,
            books: [Book::new(SYNCED, "synced"), Book::new(LOGGED, "logged")],
            promise,
            folder,
            _sockets: sockets,
        };
        pair.first_write()?;
        Ok(pair)
    }

    /// A follower that has nothing is not promoted.
    fn first_write(&self) -> anyhow::Result<()> {
        for book in &self.books {
            let batch =
                json!({"table": book.table, "operations": [["put", "first", "v"], ["remove", "first"]]});
            self.leader.call(&self.tls, "ordered.batch", batch)?;
        }
        let limit = CATCH_UP_MAX * self.settings.generosity;
        let catches_up = self.follower.catches_up(&self.tls, &self.leader, limit)?;
        anyhow::ensure!(catches_up, "an empty follower has not caught up in {limit:?}");
        Ok(())
    }

    fn round(&mut self, plan: Plan, number: u64, random: &mut StdRng, tally: &Tally) -> Vec<Finding> {
        let findings = Findings::new(number);
        if let Err(error) = self.play(plan, random, &findings, tally) {
            findings.tell(Broken::Service, format!("{plan:?}: {error:#}"));
        }
        findings.into_inner()
    }

    fn play(
        &mut self,
        plan: Plan,
        random: &mut StdRng,
        findings: &Findings,
        tally: &Tally,
    ) -> anyhow::Result<()> {
        self.under_load(plan, random, findings, tally)?;
        match plan {
            Plan::TakeOver | Plan::KilledInPromotion => {
                if plan == Plan::KilledInPromotion {
                    self.kill_in_promotion(random, findings, tally)?;
                }
                self.follower.promote(&self.tls)?;
                Tally::add(&tally.promotions, 1);
                std::mem::swap(&mut self.leader, &mut self.follower);
                self.settle(self.promise, findings, tally)?;
                self.follow_again(random, tally)?;
            }
            Plan::FollowerKilled => {
                self.catch_up(tally)?;
                self.settle(Promise::All, findings, tally)?;
            }
            Plan::LeaderKilled | Plan::BothKilled => {
                self.leader.start(self.settings, None)?;
                // Its own log has all that it acknowledged.
                self.settle(Promise::All, findings, tally)?;
                if plan == Plan::BothKilled {
                    self.follower.start(self.settings, Some(&self.leader))?;
                }
                self.catch_up(tally)?;
            }
        }
        self.compare(findings)
    }

    /// Loads both until the plan's kill.
    fn under_load(
        &mut self,
        plan: Plan,
        random: &mut StdRng,
        findings: &Findings,
        tally: &Tally,
    ) -> anyhow::Result<()> {
        let (over, disk_failed) = (AtomicBool::new(false), AtomicBool::new(false));
        let (seed, has_checkpoints) = (random.random(), random.random_ratio(1, 3));
        let before = Duration::from_millis(random.random_range(0..600));
        let leads = self.leader.server()?;
        let grounds = self.books.each_ref().map(|book| Ground {
            server: leads,
            tls: &self.tls,
            findings,
            tally,
            book,
            over: &over,
            disk_failed: &disk_failed,
            may_move: true,
            is_follower: false,
            pause_ms_max: 1,
            seed,
        });
        let (follower, leader, settings) = (&mut self.follower, &self.leader, self.settings);
        std::thread::scope(|scope| {
            let _end = End(&over);
            for ground in grounds {
                for writer in 0..WRITERS {
                    scope.spawn(move || load::write_mixed(ground, writer));
                }
                scope.spawn(move || load::read_mixed(ground, 0));
                if has_checkpoints {
                    scope.spawn(move || load::checkpoint(ground));
                }
            }
            read_beside(follower, grounds, before)?;
            if matches!(plan, Plan::FollowerKilled | Plan::BothKilled) {
                dead(follower, findings, tally);
                std::thread::sleep(Duration::from_millis(random.random_range(0..200)));
            }
            if plan == Plan::FollowerKilled {
                follower.start(settings, Some(leader))?;
                std::thread::sleep(Duration::from_millis(random.random_range(0..200)));
            } else {
                leads.signal(Signal::KILL);
            }
            Ok::<(), anyhow::Error>(())
        })?;
        if plan != Plan::FollowerKilled {
            dead(&mut self.leader, findings, tally);
        }
        Ok(())
    }

    /// Kills the follower at some moment of its promotion, and starts it again as it was.
    fn kill_in_promotion(
        &mut self,
        random: &mut StdRng,
        findings: &Findings,
        tally: &Tally,
    ) -> anyhow::Result<()> {
        let Pair { follower, tls, .. } = self;
        let server = follower.server()?;
        let time = Duration::from_micros(random.random_range(0..8000));
        std::thread::scope(|scope| {
            // It may be answered or not.
            scope.spawn(|| follower.promote(tls).ok());
            std::thread::sleep(time);
            server.signal(Signal::KILL);
        });
        dead(&mut self.follower, findings, tally);
        self.follower.start(self.settings, Some(&self.leader))
    }

    /// Holds what the leader has against the books.
    fn settle(&self, promise: Promise, findings: &Findings, tally: &Tally) -> anyhow::Result<()> {
        for book in &self.books {
            let found = read(self.leader.server()?, &self.tls, book.table)?;
            book.settle(&found, promise, findings, tally);
        }
        Ok(())
    }

    /// The old leader follows, with its own log where that goes on as the new leader's, with nothing, or with a copy.
    fn follow_again(&mut self, random: &mut StdRng, tally: &Tally) -> anyhow::Result<()> {
        match random.random_range(0..8) {
            0 => self.follower.empty()?,
            1 => {
                self.follower.copy_from(self.settings, &self.leader)?;
                Tally::add(&tally.copies, 1);
            }
            _ => {}
        }
        self.follower.start(self.settings, Some(&self.leader))?;
        self.catch_up(tally)
    }

    /// The follower has all that the leader has; with a copy, where the leader's log does not tell it, or it has what the leader never had.
    fn catch_up(&mut self, tally: &Tally) -> anyhow::Result<()> {
        let limit = CATCH_UP_MAX * self.settings.generosity;
        if self.follower.catches_up(&self.tls, &self.leader, limit)? {
            Tally::add(&tally.followed_on, 1);
            return Ok(());
        }
        self.follower.kill();
        self.follower.copy_from(self.settings, &self.leader)?;
        Tally::add(&tally.copies, 1);
        self.follower.start(self.settings, Some(&self.leader))?;
        let catches_up = self.follower.catches_up(&self.tls, &self.leader, limit)?;
        anyhow::ensure!(
            catches_up,
            "a follower that began with a copy has not caught up in {limit:?}"
        );
        Ok(())
    }

    /// The follower shows what its leader does.
    fn compare(&self, findings: &Findings) -> anyhow::Result<()> {
        for book in &self.books {
            let [mut leads, mut follows] = [
                read(self.leader.server()?, &self.tls, book.table)?,
                read(self.follower.server()?, &self.tls, book.table)?,
            ];
            for found in [&mut leads, &mut follows] {
                lasting(found);
            }
            if leads.cells != follows.cells {
                let differs = leads
                    .cells
                    .iter()
                    .find(|(key, cell)| follows.cells.get(*key) != Some(cell));
                let more = follows
                    .cells
                    .iter()
                    .find(|(key, _)| !leads.cells.contains_key(*key));
                let seen = format!(
                    "{}: the follower differs: {differs:.200?}, {more:.200?}",
                    book.table
                );
                findings.tell(Broken::PutWrong, seen);
            }
        }
        Ok(())
    }
}

/// Says that it is over when it is dropped, so that no thread of a scope outlives its end.
struct End<'o>(&'o AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Reads the follower for so long: whoever does sees whole writes too, while it runs.
fn read_beside(follower: &Node, grounds: [Ground<'_>; 2], time: Duration) -> anyhow::Result<()> {
    let (over, follows) = (AtomicBool::new(false), follower.server()?);
    std::thread::scope(|scope| {
        let _end = End(&over);
        for ground in grounds {
            let ground = Ground {
                server: follows,
                over: &over,
                is_follower: true,
                ..ground
            };
            scope.spawn(move || load::read_mixed(ground, 1));
        }
        std::thread::sleep(time);
    });
    Ok(())
}

/// Leaves what does not depend on when it was read.
fn lasting(found: &mut Found) {
    found.cells.retain(|key, _| !key.contains("/short"));
    for cell in found.cells.values_mut() {
        cell.expires = None;
    }
}

/// kill -9, counted; what it said of panics is told.
fn dead(node: &mut Node, findings: &Findings, tally: &Tally) {
    tally.count(Counted::Fault(Word::Kill));
    for panic in node.kill() {
        findings.tell(Broken::Died, format!("it panicked: {panic}"));
    }
}
