//! A leader and its follower, side by side: shipping, restarts, cuts, promotions, and logs that went other ways.
//!
//! Invariant under test: what a follower shows is what its leader showed at one of its records, and what does not follow is refused by
//! name and changes nothing.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use millpond_engines_ordered::offline::backup;
use millpond_engines_ordered::{
    Batch, Durability, Effect, FollowError, Operation, Options, Position, Pull, PullError, Put, Role,
    Shipment, Store, Write, WriteError,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::{Contents, contents, one, random_batch, random_put, segments};

pub(crate) fn options(follows: Option<&str>) -> Options {
    Options {
        durability: Durability::Logged,
        segment_bytes_max: 600,
        follows: follows.map(str::to_owned),
        ..Options::default()
    }
}

pub(crate) fn open(dir: &Path, follows: Option<&str>) -> Store {
    Store::open(dir, options(follows)).unwrap().0
}

pub(crate) fn pull_for(
    store: &Store,
    follower: &str,
    position: Position,
    bytes_max: usize,
    wait: Duration,
) -> Result<Shipment, PullError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let pull = Pull {
        follower: follower.into(),
        position,
        bytes_max,
        wait,
    };
    store.pull(pull, Box::new(move |answer| sender.send(answer).unwrap()));
    receiver.recv().unwrap()
}

pub(crate) fn pull(store: &Store, position: Position) -> Result<Shipment, PullError> {
    pull_for(store, "b", position, 1 << 20, Duration::ZERO)
}

/// One question and its answer: whether anything came.
fn ship(leader: &Store, follower: &Store, bytes_max: usize) -> bool {
    let has = follower.position().unwrap();
    let shipment = pull_for(leader, "b", has, bytes_max, Duration::ZERO).unwrap();
    follower.follow(shipment).unwrap().sequence > has.sequence
}

pub(crate) fn ship_all(leader: &Store, follower: &Store) {
    while ship(leader, follower, 1 << 20) {}
    assert_eq!(follower.last_sequence(), leader.last_sequence());
}

/// A write that followers may have from then on: the log thread says how far it is behind its answers.
pub(crate) fn write_announced(leader: &Store, write: impl Into<Write>) {
    let last = leader.last_sequence();
    leader.write_wait(write).unwrap();
    while leader.last_sequence() == last {
        std::thread::yield_now();
    }
}

/// A leader, its follower, and what the leader showed behind each record.
struct Pair {
    leader: Option<Store>,
    follower: Option<Store>,
    dirs: [PathBuf; 2],
    states: Vec<Contents>,
    _parent: tempfile::TempDir,
}

impl Pair {
    fn open() -> Pair {
        let parent = tempfile::tempdir().unwrap();
        let dirs = [parent.path().join("a"), parent.path().join("b")];
        Pair {
            leader: Some(open(&dirs[0], None)),
            follower: Some(open(&dirs[1], Some("a:1"))),
            dirs,
            states: vec![Contents::new()],
            _parent: parent,
        }
    }

    fn leader(&self) -> &Store {
        self.leader.as_ref().unwrap()
    }

    fn follower(&self) -> &Store {
        self.follower.as_ref().unwrap()
    }

    fn write(&mut self, write: impl Into<Write>) {
        write_announced(self.leader(), write);
        self.states.push(contents(self.leader()));
    }

    fn check(&self) {
        let last = self.follower().last_sequence() as usize;
        assert!(
            contents(self.follower()) == self.states[last],
            "the follower shows something else than record {last} left"
        );
    }

    fn restart_leader(&mut self) {
        self.leader.take().unwrap().close().unwrap();
        self.leader = Some(open(&self.dirs[0], None));
    }

    /// Ends the follower, cuts some bytes off its log, and opens it again.
    fn restart_follower(&mut self, cut: u64) {
        self.follower.take().unwrap().close().unwrap();
        let last = segments(&self.dirs[1]).pop().unwrap();
        let length = std::fs::metadata(&last).unwrap().len();
        let file = std::fs::File::options().write(true).open(&last).unwrap();
        file.set_len(length.saturating_sub(cut).max(crate::HEADER_BYTES))
            .unwrap();
        self.follower = Some(open(&self.dirs[1], Some("a:1")));
    }

    /// The follower leads from here on, and a new copy of the store follows it.
    fn promote(&mut self, rng: &mut StdRng) {
        let promoted = self.follower().promote().unwrap();
        self.states.truncate(promoted.sequence as usize + 1);
        // The old leader hears of it by a question of the store that took its place.
        let has = self.follower().position().unwrap();
        let refused = pull(self.leader(), has);
        assert!(
            matches!(refused, Err(PullError::NotLeader(_))),
            "{has:?} {refused:?}"
        );
        let refused = self.leader().write_wait(one("late", "late"));
        assert!(matches!(refused, Err(WriteError::NotLeader(_))), "{refused:?}");
        let old = self.leader.take().unwrap();
        let lost = old.last_sequence() > promoted.sequence;
        old.close().unwrap();
        self.leader = self.follower.take();
        self.dirs.swap(0, 1);
        self.write(random_put(rng));
        // What it has alone keeps it from following; else it goes on, as far as the log still tells.
        self.follower = Some(open(&self.dirs[1], Some("b:1")));
        let has = self.follower().position().unwrap();
        match pull(self.leader(), has) {
            Ok(_) => assert!(!lost),
            Err(PullError::Diverged(why)) => assert!(lost, "{why}"),
            Err(PullError::Gone(_)) => {}
            Err(error) => panic!("{error}"),
        }
        if pull(self.leader(), has).is_err() {
            self.follower.take().unwrap().close().unwrap();
            std::fs::remove_dir_all(&self.dirs[1]).unwrap();
            backup(&self.dirs[0], &self.dirs[1], false, &mut |_| ()).unwrap();
            self.follower = Some(open(&self.dirs[1], Some("b:1")));
        }
    }
}

#[test]
fn a_follower_is_the_beginning_of_its_leader_through_restarts_cuts_and_promotions() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let mut pair = Pair::open();
        for _ in 0..150 {
            match rng.random_range(0..40) {
                0..16 => pair.write(random_put(&mut rng)),
                16..22 => pair.write(random_batch(&mut rng)),
                22..34 => {
                    let bytes_max = rng.random_range(1..400);
                    ship(pair.leader(), pair.follower(), bytes_max);
                }
                34 => pair.restart_leader(),
                35 | 36 => {
                    let cut = rng.random_range(0..200);
                    pair.restart_follower(cut);
                }
                37 => assert_eq!(
                    pair.follower().checkpoint().is_ok(),
                    pair.follower().last_sequence() > 0
                ),
                38 if pair.follower().last_sequence() > 0 => pair.promote(&mut rng),
                _ => ship_all(pair.leader(), pair.follower()),
            }
            pair.check();
        }
        ship_all(pair.leader(), pair.follower());
        pair.check();
        assert_eq!(contents(pair.leader()), contents(pair.follower()));
        pair.restart_follower(0);
        pair.check();
    }
}

/// Two stores with that many records in the first, all of them in the second too.
pub(crate) fn followed(parent: &Path, records: usize) -> (Store, Store) {
    let leader = open(&parent.join("a"), None);
    let follower = open(&parent.join("b"), Some("a:1"));
    for at in 0..records {
        write_announced(&leader, one(&format!("k{at}"), "value"));
    }
    ship_all(&leader, &follower);
    (leader, follower)
}

#[test]
fn a_follower_refuses_writes_by_its_leaders_name_until_it_is_promoted() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = followed(parent.path(), 3);
    let refused = follower.write_wait(one("k", "v")).unwrap_err();
    assert!(refused.to_string().contains("follows a:1"), "{refused}");
    assert_eq!(follower.last_sequence(), 3, "what is refused is not logged");
    // A batch that only reads is served; one that would change anything is not, whole.
    let read = Operation::Get { key: b"k0".to_vec() };
    let found = follower.write_wait(Batch::of(vec![read.clone()])).unwrap();
    assert!(matches!(&found.effects[0], Effect::Found(Some(found)) if found.value == b"value"));
    let changed = Batch::of(vec![
        read,
        Operation::Remove {
            key: b"k0".to_vec(),
            if_version: None,
        },
    ]);
    assert!(matches!(
        follower.write_wait(changed),
        Err(WriteError::NotLeader(_))
    ));
    assert!(matches!(
        leader.promote(),
        Err(FollowError::NotFollowing("leader"))
    ));
    let promoted = follower.promote().unwrap();
    assert_eq!((promoted.sequence, follower.role()), (3, Role::Leads));
    assert!(promoted.epoch > leader.epoch());
    assert_eq!(follower.write_wait(one("k", "v")).unwrap().versions, [4]);
    follower.close().unwrap();
    let again = open(&parent.path().join("b"), None);
    assert_eq!((again.epoch(), again.last_sequence()), (promoted.epoch, 4));
}

#[test]
fn an_empty_follower_is_not_promoted() {
    let parent = tempfile::tempdir().unwrap();
    let follower = open(&parent.path().join("b"), Some("a:1"));
    assert!(matches!(follower.promote(), Err(FollowError::Empty)));
    let memory = Store::in_memory(Options::default());
    assert!(matches!(memory.promote(), Err(FollowError::NotFollowing(_))));
}

#[test]
fn a_question_waits_for_the_next_record_and_for_no_longer_than_it_says() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = followed(parent.path(), 1);
    let has = follower.position().unwrap();
    let nothing = pull_for(&leader, "b", has, 1 << 20, Duration::from_millis(1)).unwrap();
    assert!(nothing.bytes.is_empty());
    let writer = leader.clone();
    let (sender, receiver) = mpsc::sync_channel(2);
    let long = Duration::from_secs(60);
    for _ in 0..2 {
        let sender = sender.clone();
        let pull = Pull {
            follower: "b".into(),
            position: has,
            bytes_max: 1 << 20,
            wait: long,
        };
        leader.pull(pull, Box::new(move |answer| sender.send(answer).unwrap()));
    }
    let first = receiver.recv().unwrap().unwrap();
    assert!(
        first.bytes.is_empty(),
        "of two questions of a follower the last one waits"
    );
    writer.write_wait(one("next", "v")).unwrap();
    let second = receiver.recv().unwrap().unwrap();
    assert_eq!((second.first, second.last), (2, 2));
    follower.follow(second).unwrap();
    assert_eq!(contents(&leader), contents(&follower));
    let lag = follower.lag().unwrap();
    assert_eq!((lag.is_connected, lag.records, lag.ms), (true, 0, Some(0)));
    assert_eq!(leader.followers()[0].sequence, 1, "what the question said");
    // One that waits hears of the end.
    let (sender, receiver) = mpsc::sync_channel(1);
    let pull = Pull {
        follower: "b".into(),
        position: follower.position().unwrap(),
        bytes_max: 1 << 20,
        wait: long,
    };
    leader.pull(pull, Box::new(move |answer| sender.send(answer).unwrap()));
    leader.close().unwrap();
    assert!(matches!(receiver.recv().unwrap(), Err(PullError::Closed)));
}

#[test]
fn logs_that_went_other_ways_are_refused_by_name() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = followed(parent.path(), 5);
    let has = follower.position().unwrap();
    let other = open(&parent.path().join("c"), None);
    assert!(matches!(pull(&other, has), Err(PullError::History)));
    let ahead = Position { sequence: 6, ..has };
    let refused = pull(&leader, ahead).unwrap_err();
    assert!(refused.to_string().contains("ends at record 5"), "{refused}");
    let mut another = has;
    another.mark.as_mut().unwrap().crc32c ^= 1;
    let refused = pull(&leader, another).unwrap_err();
    assert!(
        refused.to_string().contains("record 5 is another one"),
        "{refused}"
    );
    // A follower in its own epoch has what nobody else has.
    let mut later = has;
    later.mark.as_mut().unwrap().epoch += 1;
    assert!(matches!(pull(&leader, later), Err(PullError::Diverged(_))));
    assert_eq!(leader.role(), Role::Leads, "none of these fences");
    other.write_wait(one("k", "v")).unwrap();
    let nothing = Position {
        sequence: 0,
        mark: None,
        ..has
    };
    let foreign = pull_for(&other, "b", nothing, 1 << 20, Duration::from_secs(60)).unwrap();
    let refused = follower.follow(foreign).unwrap_err();
    assert!(matches!(refused, FollowError::History { .. }), "{refused}");
    assert_eq!(follower.last_sequence(), 5);
}

#[test]
fn records_of_an_older_epoch_are_refused() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = followed(parent.path(), 2);
    write_announced(&leader, one("late", "v"));
    let late = pull_for(
        &leader,
        "b",
        follower.position().unwrap(),
        1 << 20,
        Duration::from_secs(60),
    )
    .unwrap();
    follower.promote().unwrap();
    follower.close().unwrap();
    let follower = open(&parent.path().join("b"), Some("a:1"));
    let refused = follower.follow(late).unwrap_err();
    assert!(
        matches!(refused, FollowError::OlderEpoch { theirs: 1, .. }),
        "{refused}"
    );
    assert_eq!(follower.last_sequence(), 2);
    // By its question the old leader learns of it, and writes no more.
    assert!(matches!(
        pull(&leader, follower.position().unwrap()),
        Err(PullError::NotLeader(_))
    ));
    assert!(matches!(leader.role(), Role::Fenced { .. }));
    let refused = leader.write_wait(one("k", "v")).unwrap_err();
    assert!(matches!(refused, WriteError::NotLeader(_)), "{refused}");
    // So it is after its next start.
    leader.close().unwrap();
    let dir = parent.path().join("a");
    let leader = open(&dir, None);
    assert_eq!(
        leader.role(),
        Role::Fenced {
            epoch: follower.epoch()
        }
    );
    assert!(leader.write_wait(one("k", "v")).is_err());
    // Promoted itself it is above what fenced it.
    assert!(leader.promote().unwrap().epoch > follower.epoch());
    leader.close().unwrap();
    let leader = open(&dir, None);
    assert_eq!(leader.role(), Role::Leads);
    leader.write_wait(one("k", "v")).unwrap();
    leader.close().unwrap();
    std::fs::write(dir.join("fenced"), "soon").unwrap();
    let refused = Store::open(&dir, options(None)).err().unwrap().to_string();
    assert!(
        refused.contains("\"fenced\"; remove the file") && refused.contains("soon"),
        "{refused}"
    );
}

#[test]
fn a_shipment_that_is_cut_or_damaged_changes_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = followed(parent.path(), 1);
    write_announced(&leader, one("a", "first"));
    write_announced(&leader, one("b", "second"));
    let has = follower.position().unwrap();
    let whole = pull(&leader, has).unwrap();
    let before = contents(&follower);
    let second = u32::from_le_bytes(whole.bytes[8..12].try_into().unwrap()) as usize;
    for at in 0..whole.bytes.len() {
        let mut cut = whole.clone();
        cut.bytes.truncate(at);
        let mut flipped = whole.clone();
        flipped.bytes[at] ^= 0x20;
        // Whole records are what they are; a marker is the leader's segment's, and says nothing here.
        let is_whole = [0, second].contains(&at);
        let is_marker = at < 4 || (second..second + 4).contains(&at);
        for (shipment, is_sound) in [(cut, is_whole), (flipped, is_marker)] {
            if !is_sound {
                let refused = follower.follow(shipment);
                assert!(
                    matches!(refused, Err(FollowError::Broken(_))),
                    "byte {at}: {refused:?}"
                );
            }
        }
    }
    assert_eq!((follower.last_sequence(), contents(&follower)), (1, before));
    let next = pull(&leader, follower.position().unwrap()).unwrap();
    follower.follow(next).unwrap();
    assert_eq!(contents(&leader), contents(&follower));
}

#[test]
fn a_follower_without_the_records_in_between_is_told_so() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = followed(parent.path(), 4);
    let has = follower.position().unwrap();
    for at in 0..3 {
        write_announced(&leader, one(&format!("more{at}"), "v"));
    }
    leader.checkpoint().unwrap();
    let fresh = Position {
        sequence: 1,
        mark: None,
        ..has
    };
    let refused = pull(&leader, fresh).unwrap_err();
    assert!(matches!(refused, PullError::Gone(1)), "{refused}");
    // A copy that a running store makes goes on from where it is.
    let copy = parent.path().join("c");
    backup(&parent.path().join("a"), &copy, false, &mut |_| ()).unwrap();
    let copied = open(&copy, Some("a:1"));
    write_announced(&leader, one("last", "v"));
    ship_all(&leader, &copied);
    assert_eq!(contents(&leader), contents(&copied));
}

#[test]
fn what_expires_goes_by_the_leaders_log_alone() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = followed(parent.path(), 1);
    leader
        .write_wait(Put {
            entries: vec![(b"short".to_vec(), b"v".to_vec())],
            ttl_ms: Some(50),
            ..Put::default()
        })
        .unwrap();
    let has = follower.position().unwrap();
    let put = pull_for(&leader, "b", has, 90, Duration::from_secs(60)).unwrap();
    let has = follower.follow(put).unwrap();
    assert_eq!((has.sequence, follower.len()), (2, 2));
    // The leader removes it by a record; the follower only passes over it.
    let removal = pull_for(&leader, "b", has, 90, Duration::from_secs(60)).unwrap();
    assert_eq!(removal.first, 3);
    assert!(follower.get(b"short").is_none());
    assert_eq!((follower.len(), follower.last_sequence()), (2, 2));
    follower.follow(removal).unwrap();
    assert_eq!((follower.len(), follower.last_sequence()), (1, 3));
}

#[test]
fn a_promoted_follower_shows_nothing_that_had_expired_by_its_leaders_clock() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = followed(parent.path(), 1);
    let lasting = Put {
        ttl_ms: Some(3_600_000),
        ..one("short", "v")
    };
    write_announced(&leader, lasting);
    ship_all(&leader, &follower);
    assert!(follower.get(b"short").is_some());
    // The leader's clock is two hours ahead, and it dies before it says what that removes.
    let mut nothing = pull(&leader, follower.position().unwrap()).unwrap();
    assert!(nothing.bytes.is_empty() && nothing.now_ms > 0);
    nothing.now_ms += 2 * 3_600_000;
    follower.follow(nothing).unwrap();
    assert!(follower.get(b"short").is_none());
    follower.promote().unwrap();
    assert!(follower.get(b"short").is_none());
}

#[test]
fn a_follower_says_that_it_is_behind_until_it_has_what_its_leader_said() {
    let parent = tempfile::tempdir().unwrap();
    let leader = open(&parent.path().join("a"), None);
    let follower = open(&parent.path().join("b"), Some("a:1"));
    for key in ["a", "b", "c"] {
        write_announced(&leader, one(key, "value"));
    }
    let lag = || {
        let lag = follower.lag().unwrap();
        (lag.records, lag.ms)
    };
    assert_eq!(lag(), (0, None), "it has heard nothing");
    assert!(ship(&leader, &follower, 90));
    assert_eq!(lag(), (2, None));
    ship_all(&leader, &follower);
    assert_eq!(lag(), (0, Some(0)));
    // One that takes a copy lacked more than it was told of.
    let incoming = follower.take_copy().unwrap();
    std::thread::sleep(Duration::from_millis(2));
    assert!(lag().1 >= Some(1));
    drop(incoming);
    write_announced(&leader, one("more", "v"));
    ship_all(&leader, &follower);
    assert_eq!(lag(), (0, Some(0)));
    assert!(leader.lag().is_none());
}
