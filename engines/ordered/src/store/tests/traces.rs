//! Random writes of every kind on disks that fail, recorded in one order with every answer and all that readers saw; then every moment of the
//! record as a crash: killed, without power, and torn.
//!
//! Invariants under test: no reader and no answer shows a record before a sync covers it, so a loss of power takes nothing away
//! that was shown; what was acknowledged is there; and nothing half is.
//! `MILLPOND_TRACE_ROUNDS` is how often, `MILLPOND_TRACE_SEED` the first round's seed, here and in the tests of eviction, expiry and
//! acknowledgement.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod story;
mod writes;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use self::story::{Contents, Note, Story, contents, told, words};
use self::writes::{random_write, unconditional};
use super::*;
use crate::checkpoint::Files;
use millpond_wal::faults::recording::{Event, Recording};
use millpond_wal::faults::survival::{End, Left, Survival, lay_out};

const ROUNDS: u64 = 3;
/// A process of a round ends by one of its crashes, and the next goes on with what is left.
const PROCESSES: usize = 4;
const GROUPS: usize = 6;
const GROUP_WRITES_MAX: usize = 5;

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

    /// With what goes on by itself beside the writes.
    fn live_options(&mut self) -> Options {
        let is_logged = self.durability == Durability::Logged;
        let sync_every = is_logged.then(|| Duration::from_millis(self.rng.random_range(1..20)));
        let checkpoint_log_bytes = match self.rng.random() {
            true => self.rng.random_range(500..3000),
            false => u64::MAX,
        };
        Options {
            sync_every,
            checkpoint_log_bytes,
            ..self.options(self.durability)
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

    /// One process: opens what is left, writes, and closes.
    fn live(&mut self, story: &mut Story, survival: &Survival, left: &Left) -> Vec<Event<Note>> {
        let parent = scratch();
        let dir = parent.path().join("store");
        lay_out(left, &dir);
        let recording = Recording::new(&dir, survival.clone(), self.fork());
        let failing_percent = [0, 2, 8][self.rng.random_range(0..3)];
        recording.fail(failing_percent);
        let options = self.live_options();
        let store = loop {
            match Store::open_on(recording.disk(), &dir, options.clone()) {
                Ok((store, _)) => break store,
                Err(_) => recording.fail(0),
            }
        };
        recording.note(Note::Opened(contents(&store), versions_given(&dir)));
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
            let writes = self.write_group(story, &recording, &store);
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

    /// Has one written while writes come. Whether it was.
    fn checkpoint_in_parts(&self, store: &Store) -> std::thread::JoinHandle<bool> {
        let store = store.clone();
        std::thread::spawn(move || store.checkpoint().is_ok())
    }

    /// One write alone, so that those handed in while it is written form the next group. Whether the store still writes.
    fn write_group(&mut self, story: &mut Story, recording: &Recording<Note>, store: &Store) -> bool {
        let mut write = |story: &mut Story, is_conditional: bool| {
            let number = story.writes.len();
            let mut write = random_write(&mut self.rng, number);
            if !is_conditional {
                write = unconditional(write);
            }
            story.writes.push(write.clone());
            recording.note(Note::Write(number));
            let noting = recording.clone();
            let done = move |answer| noting.note(Note::Told(number, told(answer)));
            store.write(write, Box::new(done)).unwrap();
            number
        };
        let answers = |events: &[Event<Note>], from: usize| {
            let is_answer =
                |event: &&Event<Note>| matches!(event, Event::Note(Note::Told(number, _)) if *number >= from);
            events.iter().filter(is_answer).count()
        };
        recording.shut_gate();
        let first = write(story, false);
        recording.wait_at_gate_or(|events| answers(events, first) == 1);
        let writes = recording.is_at_gate();
        if writes {
            (0..story.writes.len() % GROUP_WRITES_MAX).for_each(|_| _ = write(story, true));
        }
        recording.open_gate();
        let count = story.writes.len() - first;
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

/// How many versions the log of a folder has given.
fn versions_given(dir: &Path) -> u64 {
    let files = Files::list(dir).unwrap();
    let read = crate::recover::read(dir, &files.finished, &mut |_| ()).unwrap();
    read.recovered.next_number - 1
}

/// The seeds that a test of traces runs with: so many from 1 on, unless the environment says otherwise.
pub(super) fn seeds(rounds: u64) -> std::ops::Range<u64> {
    let first = number("MILLPOND_TRACE_SEED", 1);
    first..first + number("MILLPOND_TRACE_ROUNDS", rounds)
}

/// A folder in memory, where there is one: nothing here depends on a real disk.
pub(super) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect(variable))
}

/// Opens what is left at each moment of a record from its first note on, whichever way it ends there; `judge` gets the store with what was
/// noted last and what comes next.
pub(super) fn at_every_end<N>(
    events: &[Event<N>],
    options: &Options,
    rng: &mut StdRng,
    mut judge: impl FnMut(&Store, End, &N, Option<&N>),
) {
    let notes = events.iter().filter_map(|event| match event {
        Event::Note(note) => Some(note),
        Event::Disk(_) => None,
    });
    let notes: Vec<&N> = notes.collect();
    let parent = scratch();
    let left = parent.path().join("left");
    let (mut survival, mut noted) = (Survival::default(), 0);
    for event in events {
        match event {
            Event::Disk(change) => survival.apply(change),
            Event::Note(_) => noted += 1,
        }
        if noted == 0 {
            continue;
        }
        for end in [End::Killed, End::PowerCut, End::Torn] {
            lay_out(&survival.left(end, rng), &left);
            let (store, _) = Store::open(&left, options.clone()).unwrap();
            judge(&store, end, notes[noted - 1], notes.get(noted).copied());
            store.close().unwrap();
            std::fs::remove_dir_all(&left).unwrap();
        }
    }
}

#[test]
fn nothing_is_shown_before_its_sync_and_no_end_loses_what_was() {
    let seeds = seeds(ROUNDS);
    let (mut events, mut ends, mut checkpoints) = (0, 0, 0);
    for seed in seeds.clone() {
        eprintln!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let durability = if seed % 3 == 0 {
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
        "seeds {seeds:?}: {events} events, {checkpoints} checkpoints, {ends} ends, none of which lost what was shown"
    );
}
