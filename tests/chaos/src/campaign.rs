//! The campaign: rounds of all kinds until its time is over, or so many kills.
//!
//! Its invariant: the order of rounds follows from the seed alone; only how many of them there are, from the time.

use crate::finding::{Broken, Finding, Findings};
use crate::life::{Life, Place};
use crate::plan::{self, Kind};
use crate::round;
use crate::server::Launch;
use crate::settings::{Length, Settings};
use crate::tally::{Counted, Tally};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// What kinds of rounds follow each other: kills are short, so that they are many.
fn kind_of(number: u64) -> Kind {
    match number % 24 {
        6 | 18 => Kind::Storm,
        11 => Kind::Fleet,
        _ => Kind::Kill,
    }
}

/// A store lives for so many rounds of kills, and for fewer of other kinds: then the next one has another disk.
const LIFE_ROUNDS: (u64, u64) = (20, 8);
/// One fault can break the same promise for every call: findings that begin with the same letters are told of once,
const SHAPE_LETTERS: usize = 30;
/// and so many different ones of a round.
const TOLD_MAX: usize = 10;

/// What came of a campaign.
pub struct Outcome {
    /// What it did.
    pub tally: Tally,
    /// What it found.
    pub findings: Vec<Finding>,
    /// How many rounds it had.
    pub rounds: u64,
}

/// Runs a campaign; `say` gets a line for each finding when it is made.
///
/// # Errors
/// The campaign itself cannot go on.
pub fn run(settings: &Settings, say: &mut dyn FnMut(&str)) -> anyhow::Result<Outcome> {
    let began = Instant::now();
    let (tally, mut findings, mut number) = (Tally::default(), Vec::new(), 0);
    let is_kills = matches!(settings.length, Length::Kills(_));
    let rounds_max = if is_kills { LIFE_ROUNDS.0 } else { LIFE_ROUNDS.1 };
    let (mut life, mut lives) = (None, 0_u64);
    loop {
        let is_over = match settings.length {
            Length::Time(time) => began.elapsed() >= time,
            Length::Rounds(rounds) => number >= rounds,
            Length::Kills(kills) => tally.kills() >= kills,
        };
        if is_over {
            break;
        }
        let kind = match settings.length {
            Length::Kills(_) => Kind::Kill,
            _ => kind_of(number),
        };
        let round = plan::round(settings.seed, number, kind);
        if settings.is_verbose {
            say(&format!("{round:?}"));
        }
        tally.count(Counted::Round(kind));
        let found = if kind == Kind::Fleet {
            let mut fleet = Life::begin(settings, number, Place::Nowhere)?;
            let found = round::run(settings, &fleet, &round, &tally)?;
            judge(&mut fleet, &found, say)?;
            found
        } else {
            let (mut lived, first) = match life.take() {
                Some(life) => life,
                None => {
                    // Kills are to meet syncs that take their time; full disks need one that is their own.
                    let place = if is_kills || lives % 2 == 1 {
                        Place::Here
                    } else {
                        Place::OwnDisk
                    };
                    lives += 1;
                    (Life::begin(settings, number, place)?, number)
                }
            };
            let mut found = round::run(settings, &lived, &round, &tally)?;
            let is_last = number + 1 >= first + rounds_max;
            if found.is_empty() && is_last {
                found.extend(look_back(settings, &lived, number, &tally)?);
            }
            judge(&mut lived, &found, say)?;
            if found.is_empty() && !is_last {
                life = Some((lived, first));
            }
            found
        };
        findings.extend(found);
        number += 1;
    }
    if let Some((mut lived, _)) = life {
        let found = look_back(settings, &lived, number, &tally)?;
        judge(&mut lived, &found, say)?;
        findings.extend(found);
    }
    Ok(Outcome {
        tally,
        findings,
        rounds: number,
    })
}

/// The last start of a store: what is there after its last round.
fn look_back(settings: &Settings, life: &Life, number: u64, tally: &Tally) -> anyhow::Result<Vec<Finding>> {
    let findings = Findings::new(number);
    let launch = Launch {
        millpond: &settings.millpond,
        folder: life.folder(),
        processes: 1,
        round: number + 1,
        set: &[],
    };
    match launch.begin()?.ready() {
        Ok(server) => drop(round::check(life, &server, &findings, tally, Kind::Kill)),
        Err(error) => findings.tell(Broken::Died, error.to_string()),
    }
    Ok(findings.into_inner())
}

fn judge(life: &mut Life, found: &[Finding], say: &mut dyn FnMut(&str)) -> anyhow::Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    tell(found, life.folder(), say);
    life.keep()
}

/// Says what a round has found, and where its folder is.
pub(crate) fn tell(found: &[Finding], folder: &Path, say: &mut dyn FnMut(&str)) {
    // What differs in numbers and at its end alone is the same fault again.
    let mut alike: BTreeMap<String, (&Finding, u64)> = BTreeMap::new();
    for finding in found {
        let letters = finding.seen.chars().filter(|letter| !letter.is_ascii_digit());
        let shape: String = letters.take(SHAPE_LETTERS).collect();
        let shape = format!("{:?} {shape}", finding.broken);
        alike.entry(shape).or_insert((finding, 0)).1 += 1;
    }
    for (finding, count) in alike.values().take(TOLD_MAX) {
        let times = if *count > 1 {
            format!(" (and {} alike)", count - 1)
        } else {
            String::new()
        };
        say(&format!("finding: {finding:.300}{times}"));
    }
    if let Some(more) = alike.len().checked_sub(TOLD_MAX + 1) {
        say(&format!("  and {} others in this round", more + 1));
    }
    say(&format!("  its logs and store are in {}", folder.display()));
}
