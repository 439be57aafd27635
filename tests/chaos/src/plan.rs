//! What a campaign will do, from its seed alone: rounds, their loads, faults and ends.
//!
//! Knows no server. Its invariant: the same seed and round give the same plan, on any machine.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::time::Duration;

/// What a round is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One process that is killed while it writes; short.
    Kill,
    /// One process, every front, several faults.
    Storm,
    /// Three processes behind one parent, without a store.
    Fleet,
}

impl Kind {
    /// As the summary says it.
    pub fn text(self) -> &'static str {
        match self {
            Kind::Kill => "kill",
            Kind::Storm => "storm",
            Kind::Fleet => "fleet",
        }
    }
}

/// How a round's server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// SIGTERM, and the process has to end in time.
    Stop,
    /// kill -9 at this moment.
    Kill(Moment),
    /// SIGTERM, and kill -9 while it drains.
    KillInStop(Duration),
}

/// When a kill comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// So long after the start of the load.
    After(Duration),
    /// After so many acknowledged puts of this round.
    Puts(u64),
    /// When the log has grown after so many acknowledged puts: what made it grow is written, and hardly synced.
    Growth(u64),
    /// The same of upserts and their log.
    FreshGrowth(u64),
    /// The same of mixed writes and the log of one of their stores.
    MixedGrowth(u64),
    /// So long after the process was started, ready or not.
    Starting(Duration),
}

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// SIGSTOP, and SIGCONT after a while.
    Pause(Duration),
    /// The store's disk is full for a while.
    FullDisk(Duration),
    /// Files may not grow (RLIMIT_FSIZE) for a while.
    FileSize(Duration),
    /// The store's folder is read-only for a while.
    ReadOnlyFolder(Duration),
    /// Syncs fail for a while.
    FailedSync(Duration),
    /// Syncs are slow for a while.
    SlowSync(Duration),
    /// New certificate files that are good, and SIGHUP.
    NewCertificate,
    /// Certificate files that are wrong, and SIGHUP.
    WrongCertificate,
    /// Callers that reset their connections in the middle.
    Resets(u32),
    /// Callers that shut down their sending side and wait for their answers.
    HalfCloses(u32),
    /// Callers that ask for much and read slowly or not at all.
    SlowReaders(u32),
    /// Callers that send what is no request.
    Garbage(u32),
    /// Callers whose deadlines have passed or nearly so.
    Deadlines(u32),
    /// kill -9 of one process of several.
    KillMember,
    /// SIGSTOP of one process of several, and SIGCONT after a while.
    PauseMember(Duration),
}

/// When what was upserted is folded into a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    /// Not for this round.
    Never,
    /// Before its server starts.
    Before,
    /// Beside the server, again and again, and killed at times.
    Beside,
}

/// A round of the campaign.
#[derive(Debug, Clone)]
pub struct Round {
    /// Its number, from 0.
    pub number: u64,
    /// What it is about.
    pub kind: Kind,
    /// Seeds its threads.
    pub seed: u64,
    /// Faults and when they begin, ascending.
    pub faults: Vec<(Duration, Fault)>,
    /// How it ends.
    pub end: End,
    /// How long its load lasts, unless its end comes sooner.
    pub length: Duration,
    /// Threads that put.
    pub writers: u32,
    /// Threads that write each of the stores under mixed load, beside one that reads it and one that asks for checkpoints.
    pub mixers: u32,
    /// Threads that call and check their answers.
    pub callers: u32,
    /// Threads that read what is put.
    pub readers: u32,
    /// Threads that look rows up in the feature table, while one switches its versions and one kills builds.
    pub lookers: u32,
    /// Threads that upsert to another table, beside one that looks its rows up.
    pub upserters: u32,
    /// When that table's upserts are folded.
    pub fold: Fold,
}

/// A generator of its own for everything that chooses: seed, and a number for who asks.
pub fn generator(seed: u64, who: u64) -> StdRng {
    StdRng::seed_from_u64(seed ^ who.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn ms(random: &mut StdRng, from: u64, to: u64) -> Duration {
    Duration::from_millis(random.random_range(from..=to))
}

/// One of these, each as often as its number says beside the others'.
fn pick<T: Copy, const N: usize>(random: &mut StdRng, choices: [(u32, T); N]) -> T {
    let mut at = random.random_range(0..choices.iter().map(|(weight, _)| weight).sum::<u32>());
    let mut picked = choices[0].1;
    for (weight, choice) in choices {
        picked = choice;
        match at.checked_sub(weight) {
            Some(left) => at = left,
            None => break,
        }
    }
    picked
}

/// The plan of a round.
pub fn round(seed: u64, number: u64, kind: Kind) -> Round {
    let random = &mut generator(seed, number + 1);
    let own_seed = random.random();
    let (faults, end, length) = match kind {
        Kind::Kill => (Vec::new(), kill(random), Duration::from_secs(5)),
        Kind::Storm => storm(random),
        Kind::Fleet => fleet(random),
    };
    let (writers, callers, readers, lookers) = match kind {
        Kind::Kill => (4, 1, 1, 1),
        Kind::Storm => (3, 4, 1, 2),
        Kind::Fleet => (0, 5, 0, 3),
    };
    let upserters = if kind == Kind::Fleet { 0 } else { 2 };
    let mixers = if kind == Kind::Fleet { 0 } else { 2 };
    let (fold, growth) = folds_and_growth(seed, number, kind);
    let end = match end {
        End::Kill(Moment::Growth(count)) => End::Kill(growth(count)),
        end => end,
    };
    Round {
        number,
        kind,
        seed: own_seed,
        faults,
        end,
        length,
        writers,
        mixers,
        callers,
        readers,
        lookers,
        upserters,
        fold,
    }
}

/// Of which log a kill awaits the growth.
type Growth = fn(u64) -> Moment;

/// When rows are folded, and of which log a kill awaits the growth. From a generator of its own, so that it changes nothing else of a plan.
fn folds_and_growth(seed: u64, number: u64, kind: Kind) -> (Fold, Growth) {
    let random = &mut generator(!seed, number + 1);
    match kind {
        Kind::Fleet => (Fold::Never, Moment::Growth),
        _ => {
            let folds = [(3, Fold::Never), (1, Fold::Before), (1, Fold::Beside)];
            let fold = pick(random, folds);
            let growths: [(u32, Growth); 3] = [
                (1, Moment::Growth),
                (1, Moment::FreshGrowth),
                (2, Moment::MixedGrowth),
            ];
            (fold, pick(random, growths))
        }
    }
}

fn kill(random: &mut StdRng) -> End {
    match random.random_range(0..10) {
        0..3 => End::Kill(Moment::After(ms(random, 0, 120))),
        3..5 => End::Kill(Moment::Puts(random.random_range(1..120))),
        5..8 => End::Kill(Moment::Growth(random.random_range(1..80))),
        8 => End::Kill(Moment::Starting(ms(random, 1, 60))),
        _ => End::KillInStop(ms(random, 0, 10)),
    }
}

/// A fault of so many callers.
type Callers = fn(u32) -> Fault;

/// What callers that mean harm do, and how often.
const HOSTILE: [(u32, Callers); 5] = [
    (1, Fault::Resets),
    (1, Fault::HalfCloses),
    (1, Fault::SlowReaders),
    (1, Fault::Garbage),
    (1, Fault::Deadlines),
];

/// Faults of callers, which may overlap anything.
fn hostile(random: &mut StdRng) -> Fault {
    let count = random.random_range(2..12);
    let make = pick(random, HOSTILE);
    make(count)
}

/// Makes a fault that lasts so long.
type Make = fn(&mut StdRng, Duration) -> Fault;

/// What comes in a storm, and how often.
const STORM: [(u32, Make); 10] = [
    (1, |_, lasts| Fault::Pause(lasts)),
    // Longer than `/readyz` may lie.
    (1, |_, lasts| Fault::Pause(lasts + Duration::from_millis(2500))),
    (1, |_, lasts| Fault::FullDisk(lasts)),
    (1, |_, lasts| Fault::FileSize(lasts)),
    (1, |_, lasts| Fault::ReadOnlyFolder(lasts)),
    (1, |_, lasts| Fault::FailedSync(lasts)),
    (1, |_, lasts| Fault::SlowSync(lasts)),
    (1, |_, _| Fault::NewCertificate),
    (1, |_, _| Fault::WrongCertificate),
    (3, |random, _| hostile(random)),
];

fn storm(random: &mut StdRng) -> (Vec<(Duration, Fault)>, End, Duration) {
    let mut faults = Vec::new();
    let mut at = ms(random, 100, 300);
    for _ in 0..random.random_range(2..5) {
        let lasts = ms(random, 100, 900);
        let make = pick(random, STORM);
        faults.push((at, make(random, lasts)));
        at += ms(random, 100, 600);
        faults.push((at, hostile(random)));
        at += ms(random, 100, 600);
    }
    let end = match random.random_range(0..4) {
        0 => kill(random),
        _ => End::Stop,
    };
    (faults, end, at + ms(random, 200, 800))
}

fn fleet(random: &mut StdRng) -> (Vec<(Duration, Fault)>, End, Duration) {
    let mut faults = Vec::new();
    let mut at = ms(random, 100, 300);
    for _ in 0..random.random_range(1..4) {
        let lasts = ms(random, 3500, 5500);
        let choices = [
            Fault::KillMember,
            Fault::PauseMember(lasts),
            Fault::NewCertificate,
            hostile(random),
        ];
        faults.push((at, *choices.choose(random).unwrap_or(&Fault::KillMember)));
        at += ms(random, 100, 600);
        faults.push((at, hostile(random)));
        at += ms(random, 100, 600);
    }
    let end = match random.random_range(0..4) {
        0 => End::Kill(Moment::After(Duration::ZERO)),
        _ => End::Stop,
    };
    (faults, end, at + ms(random, 200, 800))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Word;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_is_a_plan() {
        for kind in [Kind::Kill, Kind::Storm, Kind::Fleet] {
            for number in 0..100 {
                let plan = |seed| format!("{:?}", round(seed, number, kind));
                assert_eq!(plan(7), plan(7));
                assert_ne!(plan(7), plan(8));
            }
        }
    }

    #[test]
    fn every_fault_comes_in_few_rounds() {
        let mut seen = BTreeSet::new();
        for number in 0..100 {
            for kind in [Kind::Kill, Kind::Storm, Kind::Fleet] {
                let round = round(1, number, kind);
                seen.extend(round.faults.iter().map(|(_, fault)| Word::from(*fault)));
                seen.extend(match round.end {
                    End::Stop => None,
                    End::Kill(Moment::Starting(_)) => Some(Word::KillInStart),
                    End::Kill(_) => Some(Word::Kill),
                    End::KillInStop(_) => Some(Word::KillInStop),
                });
            }
        }
        assert!(seen.iter().eq(Word::ALL), "{seen:?}");
    }

    #[test]
    fn choices_come_as_often_as_they_say() {
        let mut random = generator(7, 7);
        let mut counts = [0; 3];
        for _ in 0..8000 {
            counts[pick(&mut random, [(1, 0), (5, 1), (2, 2)])] += 1;
        }
        let expected = [1000_u32, 5000, 2000];
        let mut pairs = counts.iter().zip(expected);
        assert!(
            pairs.all(|(count, expected)| expected.abs_diff(*count) < 300),
            "{counts:?}"
        );
    }

    #[test]
    fn faults_come_in_order_and_before_the_end() {
        for number in 0..200 {
            for kind in [Kind::Storm, Kind::Fleet] {
                let round = round(1, number, kind);
                assert!(round.faults.is_sorted_by_key(|(at, _)| *at), "{round:?}");
                assert!(round.faults.iter().all(|(at, _)| *at < round.length), "{round:?}");
            }
        }
    }
}
