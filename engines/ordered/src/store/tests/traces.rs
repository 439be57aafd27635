//! Random puts on disks that fail, recorded in one order with every answer and all that readers saw; then every moment of the
//! record as a crash: killed, without power, and torn.
//!
//! Invariants under test: no reader and no answer shows a record before a sync covers it, so a loss of power takes nothing away
//! that was shown; what was acknowledged is there; and nothing half is.
//! `MILLPOND_TRACE_ROUNDS` is how often, `MILLPOND_TRACE_SEED` the first round's seed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::sync::Mutex;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::Put;
use millpond_wal::faults::recording::{Event, Recording};
use millpond_wal::faults::survival::{End, Left, Survival, lay_out};

const ROUNDS: u64 = 4;
/// A process of a round ends by one of its crashes, and the next goes on with what is left.
const PROCESSES: usize = 4;
const GROUPS: usize = 8;
const GROUP_PUTS_MAX: usize = 5;

type Contents = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

#[derive(Debug, Clone)]
enum Note {
    /// The put of this number was handed in.
    Put(usize),
    /// It was answered so.
    Told(usize, Told),
    /// A process has opened the store with this in it: puts of those before it that were open are there, or never will be.
    Opened(Contents),
    /// Readers see this.
    Shown(Contents),
}

#[derive(Debug, Clone)]
enum Told {
    Versions(Vec<u64>),
    Conflict { key: Vec<u8>, found: u64 },
    Unwritten,
    Unknown,
}

fn told(answer: Result<Written, WriteError>) -> Told {
    match answer {
        Ok(outcome) => Told::Versions(outcome.versions),
        Err(WriteError::Conflict { key, found, .. }) => Told::Conflict { key, found },
        Err(WriteError::Storage(_) | WriteError::ReadOnly(_)) => Told::Unwritten,
        Err(WriteError::OutcomeUnknown(_)) => Told::Unknown,
        Err(other) => panic!("{other}"),
    }
}

/// What the record has told so far.
#[derive(Clone, Default)]
struct Story {
    puts: Vec<Put>,
    /// Of the puts that were acknowledged.
    acknowledged: Contents,
    /// Handed in and not answered, or answered that nobody knows; in order.
    open: Vec<usize>,
    /// What readers saw last of each key.
    shown: Contents,
    /// Versions that answers named.
    named: BTreeMap<Vec<u8>, u64>,
}

/// Writes a put, unless a condition stands against it.
fn write(contents: &mut Contents, put: &Put) -> Option<Vec<u64>> {
    let version = |key: &Vec<u8>| contents.get(key).map_or(0, |found| found.1);
    let wanted = [put.if_absent.then_some(0), put.if_version];
    let mut wanted = wanted.into_iter().flatten();
    if wanted.any(|wanted| put.entries.iter().any(|(key, _)| version(key) != wanted)) {
        return None;
    }
    // The highest version is never overwritten, so it is there.
    let next = 1 + contents.values().map(|found| found.1).max().unwrap_or(0);
    let versions: Vec<u64> = (next..).take(put.entries.len()).collect();
    for ((key, value), version) in put.entries.iter().zip(&versions) {
        contents.insert(key.clone(), (value.clone(), *version));
    }
    Some(versions)
}

impl Story {
    fn hear(&mut self, note: &Note) {
        match note {
            Note::Put(number) => self.open.push(*number),
            Note::Told(_, Told::Unknown) => {}
            Note::Told(number, told) => {
                self.open.retain(|open| open != number);
                match told {
                    Told::Versions(versions) => {
                        let written = write(&mut self.acknowledged, &self.puts[*number]);
                        assert_eq!(written.as_ref(), Some(versions));
                    }
                    Told::Conflict { key, found } => {
                        self.named.insert(key.clone(), *found);
                    }
                    Told::Unwritten | Told::Unknown => {}
                }
            }
            Note::Opened(contents) => {
                self.holds(contents);
                self.acknowledged.clone_from(contents);
                self.shown.clone_from(contents);
                self.open.clear();
            }
            Note::Shown(contents) => {
                self.allows(contents);
                self.shown.clone_from(contents);
            }
        }
    }

    /// What was found must be what was acknowledged, and perhaps the first of the open puts, each of them whole.
    fn allows(&self, found: &Contents) {
        let mut allowed = self.acknowledged.clone();
        let mut open = self.open.iter();
        while allowed != *found {
            let next = open.next();
            let words = || {
                format!(
                    "found {}, acknowledged {}",
                    words(found),
                    words(&self.acknowledged)
                )
            };
            let next = next.unwrap_or_else(|| panic!("{}, open {:?}", words(), self.open));
            write(&mut allowed, &self.puts[*next]);
        }
    }

    /// What was found after an end must hold all that was shown before it.
    fn holds(&self, found: &Contents) {
        self.allows(found);
        for (key, shown) in &self.shown {
            let kept = found.get(key);
            let is_kept = kept.is_some_and(|kept| kept == shown || kept.1 > shown.1);
            assert!(is_kept, "shown {shown:?}, kept {kept:?}");
        }
        for (key, version) in &self.named {
            let kept = found.get(key).map_or(0, |kept| kept.1);
            assert!(kept >= *version, "named {version}, kept {kept}");
        }
    }
}

/// In few words: which put wrote each key, and its version.
fn words(contents: &Contents) -> String {
    let word = |(key, (value, version)): (&Vec<u8>, &(Vec<u8>, u64))| {
        let [key, value] = [key, value].map(|bytes| String::from_utf8_lossy(bytes));
        format!("{key}={}@{version}", value.trim_end_matches('.'))
    };
    contents.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn contents(store: &Store) -> Contents {
    let mut found = Contents::new();
    let scan = Scan {
        limit: usize::MAX,
        ..Scan::default()
    };
    store.scan(&scan, &mut |key, value| {
        found.insert(key.to_vec(), (value.to_vec(), store.get(key).unwrap().version));
    });
    found
}

fn random_put(rng: &mut StdRng, number: usize) -> Put {
    let count = rng.random_range(1..4);
    let mut entry = |at: usize| {
        let key = format!("k{}", rng.random_range(0..6)).into_bytes();
        let mut value = format!("{number}/{at}").into_bytes();
        // Some groups are larger than a sector.
        value.resize(
            value.len() + rng.random_range(0..10) * rng.random_range(0..60),
            b'.',
        );
        (key, value)
    };
    let entries = (0..count).map(&mut entry).collect();
    Put {
        entries,
        if_version: None,
        if_absent: rng.random_ratio(1, 4),
        ..Put::default()
    }
}

/// A round's choices, and what it did.
struct Round {
    seed: u64,
    rng: StdRng,
    durability: Durability,
    segment_bytes_max: u64,
    events: usize,
    ends: usize,
    checkpoints: usize,
    /// What was found in what the power left: the same is left at many moments.
    known: BTreeMap<Left, Contents>,
}

impl Round {
    fn fork(&mut self) -> StdRng {
        StdRng::seed_from_u64(self.rng.random())
    }

    fn options(&self, durability: Durability) -> Options {
        Options {
            durability,
            segment_bytes_max: self.segment_bytes_max,
            ..Options::default()
        }
    }

    fn run(&mut self) {
        let (mut story, mut survival, mut left) = (Story::default(), Survival::default(), None);
        for _ in 0..PROCESSES {
            let events = self.live(&mut story, &survival, &left);
            self.events += events.len();
            let crash = self.rng.random_range(0..=events.len());
            let mut next = None;
            for at in 0..=events.len() {
                let event = events.get(at);
                // Before each change all that was told until then must hold.
                if !matches!(event, Some(Event::Note(_))) {
                    self.try_ends(&story, &survival);
                }
                if at == crash {
                    next = Some(self.crash(&story, &survival));
                }
                match event {
                    Some(Event::Disk(change)) => survival.apply(change),
                    Some(Event::Note(note)) => story.hear(note),
                    None => {}
                }
            }
            (story, survival, left) = next.unwrap();
        }
    }

    /// One process: opens what is left, puts, and closes.
    fn live(&mut self, story: &mut Story, survival: &Survival, left: &Left) -> Vec<Event<Note>> {
        let parent = scratch();
        let dir = parent.path().join("store");
        lay_out(left, &dir);
        let recording = Recording::new(&dir, survival.clone(), self.fork());
        let failing_percent = [0, 2, 8][self.rng.random_range(0..3)];
        recording.fail(failing_percent);
        let store = loop {
            match Store::open_on(recording.disk(), &dir, self.options(self.durability)) {
                Ok((store, _)) => break store,
                Err(_) => recording.fail(0),
            }
        };
        recording.note(Note::Opened(contents(&store)));
        recording.fail(failing_percent);
        let (seen, last) = (store.clone(), Mutex::new(Contents::new()));
        recording.probe(Some(Arc::new(move || {
            // Between two looks of another thread the log's may show a group.
            if std::thread::current().name() != Some("ordered-log") {
                return None;
            }
            let now = contents(&seen);
            let mut last = last.lock().unwrap();
            (*last != now).then(|| {
                last.clone_from(&now);
                Note::Shown(now)
            })
        })));
        for _ in 0..GROUPS {
            // One behind a group, or one beside it.
            let checkpoint = self.rng.random_range(0..6);
            let beside = (checkpoint == 0).then(|| self.checkpoint_in_parts(&store));
            let writes = self.put_group(story, &recording, &store);
            if let Some(beside) = beside {
                self.checkpoints += usize::from(beside.join().unwrap());
            }
            if checkpoint == 1 {
                self.checkpoints += usize::from(store.checkpoint().is_ok());
            }
            if !writes {
                break;
            }
        }
        recording.probe(None);
        recording.note(Note::Shown(contents(&store)));
        let _ = store.close();
        recording.take_events()
    }

    /// Has one written while puts come. Whether it was.
    fn checkpoint_in_parts(&self, store: &Store) -> std::thread::JoinHandle<bool> {
        let store = store.clone();
        std::thread::spawn(move || store.checkpoint().is_ok())
    }

    /// One put alone, so that those handed in while it is written form the next group. Whether the store still writes.
    fn put_group(&mut self, story: &mut Story, recording: &Recording<Note>, store: &Store) -> bool {
        let mut put = |story: &mut Story, is_conditional: bool| {
            let number = story.puts.len();
            let mut put = random_put(&mut self.rng, number);
            put.if_absent &= is_conditional;
            story.puts.push(put.clone());
            recording.note(Note::Put(number));
            let noting = recording.clone();
            let done = move |answer| noting.note(Note::Told(number, told(answer)));
            store.write(put, Box::new(done)).unwrap();
            number
        };
        let answers = |events: &[Event<Note>], from: usize| {
            let is_answer =
                |event: &&Event<Note>| matches!(event, Event::Note(Note::Told(number, _)) if *number >= from);
            events.iter().filter(is_answer).count()
        };
        recording.shut_gate();
        let first = put(story, false);
        recording.wait_at_gate_or(|events| answers(events, first) == 1);
        let writes = recording.is_at_gate();
        if writes {
            (0..story.puts.len() % GROUP_PUTS_MAX).for_each(|_| _ = put(story, true));
        }
        recording.open_gate();
        let count = story.puts.len() - first;
        recording.wait_at_gate_or(|events| answers(events, first) == count);
        writes
    }

    /// Every way to end here, and what is found then.
    fn try_ends(&mut self, story: &Story, survival: &Survival) {
        let ends: &[End] = match self.durability {
            Durability::Synced => &[End::Killed, End::PowerCut, End::Torn, End::Torn],
            // It does not promise to outlive the power.
            _ => &[End::Killed],
        };
        for end in ends {
            self.ends += 1;
            let left = survival.left(*end, &mut self.rng);
            if *end != End::Killed
                && let Some(found) = self.known.get(&left)
            {
                story.holds(found);
                continue;
            }
            let after = survival.after(*end, &left);
            let (found, opened) = self.find(&left, after);
            story.holds(&found);
            // The next process has shown it, so no loss of power may take it away.
            let kept = opened.left(End::PowerCut, &mut self.rng);
            let after = opened.after(End::PowerCut, &kept);
            let again = match self.known.get(&kept) {
                Some(again) => again.clone(),
                None => self.find(&kept, after).0,
            };
            assert_eq!(words(&again), words(&found), "shown after {end:?}, then lost");
            self.known.insert(kept, again);
            if *end != End::Killed {
                self.known.insert(left, found);
            }
        }
    }

    /// Opens what is left, as a store that promises to outlive the power.
    fn find(&mut self, left: &Left, after: Survival) -> (Contents, Survival) {
        let parent = scratch();
        let dir = parent.path().join("store");
        lay_out(left, &dir);
        let recording = Recording::<Note>::new(&dir, after, self.fork());
        let opened = Store::open_on(recording.disk(), &dir, self.options(Durability::Synced));
        let (store, _) = opened.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        (contents(&store), recording.survival())
    }

    /// Ends here: what the next process begins with.
    fn crash(&mut self, story: &Story, survival: &Survival) -> (Story, Survival, Left) {
        let end = match self.durability {
            Durability::Synced => [End::Killed, End::PowerCut, End::Torn][self.rng.random_range(0..3)],
            _ => End::Killed,
        };
        let left = survival.left(end, &mut self.rng);
        (story.clone(), survival.after(end, &left), left)
    }
}

/// A folder in memory, where there is one: nothing here depends on a real disk.
pub(super) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

pub(super) fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect(variable))
}

#[test]
fn nothing_is_shown_before_its_sync_and_no_end_loses_what_was() {
    let rounds = number("MILLPOND_TRACE_ROUNDS", ROUNDS);
    let first = number("MILLPOND_TRACE_SEED", 1);
    let (mut events, mut ends, mut checkpoints) = (0, 0, 0);
    for seed in first..first + rounds {
        eprintln!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let durability = if seed % 4 == 0 {
            Durability::Logged
        } else {
            Durability::Synced
        };
        let segment_bytes_max = rng.random_range(100..3000);
        let mut round = Round {
            seed,
            rng,
            durability,
            segment_bytes_max,
            events: 0,
            ends: 0,
            checkpoints: 0,
            known: BTreeMap::new(),
        };
        round.run();
        (events, ends) = (events + round.events, ends + round.ends);
        checkpoints += round.checkpoints;
    }
    assert!(checkpoints > 0);
    eprintln!(
        "{rounds} rounds from seed {first}: {events} events, {checkpoints} checkpoints, {ends} ends, none of which lost what was shown"
    );
}
