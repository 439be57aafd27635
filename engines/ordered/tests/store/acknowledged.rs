//! A leader whose writes wait for a follower: what is shown and answered when, and what becomes of those that wait in vain.
//!
//! Invariant under test: nothing that only the leader has is shown or acknowledged, and nothing is written behind it.

use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use millpond_engines_ordered::{
    Acknowledge, Batch, Durability, Effect, Operation, Options, Position, PullError, Put, Role, Store,
    Unacknowledged, Write, WriteError, Written,
};

use crate::followers::{pull, pull_for};
use crate::{contents, one};

const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(20);

fn open(dir: &Path, follows: Option<&str>, within: Duration) -> Store {
    let options = Options {
        durability: Durability::Logged,
        follows: follows.map(str::to_owned),
        acknowledge: Acknowledge::Follower,
        acknowledge_within: within,
        ..Options::default()
    };
    Store::open(dir, options).unwrap().0
}

fn pair(parent: &Path, within: Duration) -> (Store, Store) {
    let leader = open(&parent.join("a"), None, within);
    (leader, open(&parent.join("b"), Some("a:1"), within))
}

type Answer = Result<Written, WriteError>;

fn write(store: &Store, write: impl Into<Write>) -> Receiver<Answer> {
    let (sender, receiver) = sync_channel(1);
    let done = Box::new(move |answer| sender.send(answer).unwrap());
    store.write(write, done).unwrap();
    receiver
}

/// Has the follower ask until it was answered records, which it takes.
fn carry(leader: &Store, follower: &Store) {
    let has = follower.position().unwrap();
    let shipment = pull_for(leader, "b", has, 1 << 20, Duration::from_secs(60)).unwrap();
    assert!(!shipment.bytes.is_empty());
    follower.follow(shipment).unwrap();
}

/// Has the follower say what it has.
fn acknowledge(leader: &Store, follower: &Store) {
    let nothing = pull(leader, follower.position().unwrap()).unwrap();
    assert!(nothing.bytes.is_empty());
}

/// Waits until something is so, which it is to be soon.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_write_is_shown_and_answered_once_a_follower_has_it() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = pair(parent.path(), LONG);
    let answer = write(&leader, one("k", "v"));
    carry(&leader, &follower);
    // It is in both logs, and the leader does not know.
    assert!(follower.get(b"k").is_some());
    assert!(leader.get(b"k").is_none() && answer.try_recv().is_err());
    assert_eq!(
        (leader.last_sequence(), leader.is_acknowledging()),
        (0, Some(true))
    );
    acknowledge(&leader, &follower);
    assert_eq!(answer.recv().unwrap().unwrap().versions, [1]);
    assert!(leader.get(b"k").is_some());
    wait_until("the log thread says so", || leader.last_sequence() == 1);
    assert_eq!(follower.is_acknowledging(), None, "it leads nobody");
    // What only reads, and what is refused, waits for nobody.
    let read = Operation::Get { key: b"k".to_vec() };
    let read = leader.write_wait(Batch::of(vec![read])).unwrap();
    assert!(matches!(&read.effects[0], Effect::Found(Some(_))));
    let refused = leader.write_wait(Put {
        if_absent: true,
        ..one("k", "w")
    });
    assert!(matches!(refused, Err(WriteError::Conflict { found: 1, .. })));
}

#[test]
fn writes_that_come_while_one_waits_are_one_group() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = pair(parent.path(), LONG);
    let first = write(&leader, one("first", "v"));
    carry(&leader, &follower);
    let answers: Vec<_> = (0..200)
        .map(|at| write(&leader, one(&format!("k{at}"), "v")))
        .collect();
    acknowledge(&leader, &follower);
    first.recv().unwrap().unwrap();
    carry(&leader, &follower);
    assert_eq!(follower.last_sequence(), 201, "by one shipment");
    acknowledge(&leader, &follower);
    for answer in answers {
        answer.recv().unwrap().unwrap();
    }
    assert_eq!(contents(&leader), contents(&follower));
}

#[test]
fn without_a_follower_writes_are_refused_and_reads_go_on_until_there_is_one() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = pair(parent.path(), SHORT);
    let late = leader.write_wait(one("late", "v")).unwrap_err();
    let is_late = |error: &WriteError| matches!(error, WriteError::Unacknowledged(Unacknowledged::Late { waited_ms }) if *waited_ms >= 20);
    assert!(is_late(&late), "{late}");
    assert!(late.to_string().contains("acknowledge_ms"), "{late}");
    let removal = Batch::of(vec![Operation::Remove {
        key: b"late".to_vec(),
        if_version: None,
    }]);
    for write in [Write::from(one("next", "v")), removal.into()] {
        let refused = leader.write_wait(write).unwrap_err();
        assert!(matches!(refused, WriteError::NoFollower), "{refused}");
    }
    assert!(matches!(leader.clear_wait(), Ok(0)), "nothing is shown");
    let read = Operation::Get {
        key: b"late".to_vec(),
    };
    let read = leader.write_wait(Batch::of(vec![read])).unwrap();
    assert!(matches!(&read.effects[0], Effect::Found(None)));
    assert!(leader.get(b"late").is_none() && leader.is_empty());
    assert_eq!(leader.is_acknowledging(), Some(false));
    let refused = leader.checkpoint().unwrap_err().to_string();
    assert!(refused.contains("until a follower has them"), "{refused}");
    // A follower's question is the way out.
    carry(&leader, &follower);
    assert!(leader.get(b"late").is_none());
    acknowledge(&leader, &follower);
    wait_until("it is shown", || leader.get(b"late").is_some());
    wait_until("it goes on", || leader.is_acknowledging() == Some(true));
    let answer = write(&leader, one("next", "v"));
    // The follower has it in time, or behind that: whether the leader waits is not what is asked here.
    carry(&leader, &follower);
    acknowledge(&leader, &follower);
    let answer = answer.recv().unwrap();
    assert!(answer.as_ref().map_or_else(is_late, |_| true), "{answer:?}");
    wait_until("both are shown", || leader.len() == 2);
    assert_eq!(contents(&leader), contents(&follower));
    leader.checkpoint().unwrap();
}

#[test]
fn a_store_that_is_closed_while_a_write_waits_says_so_and_has_it_at_its_next_start() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, _follower) = pair(parent.path(), LONG);
    let waits = write(&leader, one("k", "v"));
    let behind = write(&leader, one("behind", "v"));
    // Until the log thread has the first, both may be of one group.
    leader.close().unwrap();
    let closed = waits.recv().unwrap().unwrap_err();
    assert!(
        matches!(closed, WriteError::Unacknowledged(Unacknowledged::Closed)),
        "{closed}"
    );
    let behind = behind.recv().unwrap().unwrap_err();
    let is_behind = matches!(behind, WriteError::Unacknowledged(_) | WriteError::NoFollower);
    assert!(is_behind, "{behind}");
    let is_written = matches!(behind, WriteError::Unacknowledged(_));
    let leader = open(&parent.path().join("a"), None, LONG);
    assert!(leader.get(b"k").is_some());
    assert_eq!(leader.get(b"behind").is_some(), is_written);
    assert_eq!(leader.is_acknowledging(), Some(true));
}

#[test]
fn a_wait_ends_when_the_server_stops() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = pair(parent.path(), LONG);
    let waits = write(&leader, one("k", "v"));
    wait_until("it is offered", || {
        pull(&leader, follower.position().unwrap()).unwrap().last == 1
    });
    leader.end_waits_by(Instant::now());
    let late = waits.recv().unwrap().unwrap_err();
    assert!(
        matches!(late, WriteError::Unacknowledged(Unacknowledged::Late { .. })),
        "{late}"
    );
}

#[test]
fn a_leader_that_is_replaced_while_a_write_waits_never_shows_it() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = pair(parent.path(), LONG);
    let first = write(&leader, one("first", "v"));
    carry(&leader, &follower);
    acknowledge(&leader, &follower);
    first.recv().unwrap().unwrap();
    let waits = write(&leader, one("waits", "v"));
    wait_until("it is offered", || {
        pull(&leader, follower.position().unwrap()).unwrap().last == 2
    });
    let behind = write(&leader, one("behind", "v"));
    follower.promote().unwrap();
    let has = follower.position().unwrap();
    assert!(matches!(pull(&leader, has), Err(PullError::NotLeader(_))));
    let replaced = waits.recv().unwrap().unwrap_err();
    assert!(
        matches!(replaced, WriteError::Unacknowledged(Unacknowledged::Replaced)),
        "{replaced}"
    );
    let behind = behind.recv().unwrap().unwrap_err();
    assert!(matches!(behind, WriteError::NotLeader(_)), "{behind}");
    // Nor by a follower that has it and asks late.
    assert!(matches!(pull(&leader, has), Err(PullError::NotLeader(_))));
    assert!(leader.get(b"waits").is_none() && leader.len() == 1);
    assert_eq!(leader.is_acknowledging(), None);
    // Promoted after all it has it in its log, and shows it once a follower of its own has it.
    leader.promote().unwrap();
    assert_eq!(leader.role(), Role::Leads);
    assert!(leader.get(b"waits").is_none());
    let other = open(&parent.path().join("c"), Some("a:1"), LONG);
    while other.last_sequence() < 2 {
        carry(&leader, &other);
    }
    acknowledge(&leader, &other);
    wait_until("it is shown", || leader.get(b"waits").is_some());
    assert_eq!(contents(&leader), contents(&other));
    let answer = write(&leader, one("more", "v"));
    carry(&leader, &other);
    acknowledge(&leader, &other);
    answer.recv().unwrap().unwrap();
}

#[test]
fn a_log_that_went_another_way_acknowledges_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = pair(parent.path(), LONG);
    let answer = write(&leader, one("k", "v"));
    carry(&leader, &follower);
    let has = follower.position().unwrap();
    let mut another = has;
    another.mark.as_mut().unwrap().crc32c ^= 1;
    assert!(matches!(pull(&leader, another), Err(PullError::Diverged(_))));
    let ahead = Position { sequence: 2, ..has };
    assert!(matches!(pull(&leader, ahead), Err(PullError::Diverged(_))));
    let foreign = Position {
        history: [9; 16],
        ..has
    };
    assert!(matches!(pull(&leader, foreign), Err(PullError::History)));
    // Each was judged before the next was asked.
    assert!(answer.try_recv().is_err() && leader.get(b"k").is_none());
    // It is refused at once, however long it would wait.
    assert!(pull_for(&leader, "b", another, 1, LONG).is_err());
    acknowledge(&leader, &follower);
    answer.recv().unwrap().unwrap();
}

#[test]
fn what_expires_stays_until_a_follower_has_its_removal() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = pair(parent.path(), LONG);
    let put = Put {
        ttl_ms: Some(1),
        ..one("k", "v")
    };
    let answer = write(&leader, put);
    carry(&leader, &follower);
    acknowledge(&leader, &follower);
    answer.recv().unwrap().unwrap();
    // Its removal is in the log, and nothing is judged behind it.
    carry(&leader, &follower);
    let behind = write(&leader, one("next", "v"));
    assert_eq!((leader.len(), follower.len()), (1, 0));
    assert!(leader.get(b"k").is_none(), "readers pass over it");
    acknowledge(&leader, &follower);
    wait_until("it is removed", || leader.is_empty());
    carry(&leader, &follower);
    acknowledge(&leader, &follower);
    behind.recv().unwrap().unwrap();
}

#[test]
fn a_record_that_is_larger_than_a_shipment_comes_in_pieces() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = pair(parent.path(), LONG);
    let large = "large ".repeat(1000);
    let answers = [
        write(&leader, one("large", &large)),
        write(&leader, one("small", "v")),
    ];
    let mut shipments = 0;
    while leader.len() < 2 {
        let has = follower.position().unwrap();
        let shipment = pull_for(&leader, "b", has, 700, Duration::ZERO).unwrap();
        shipments += usize::from(!shipment.bytes.is_empty());
        assert!(shipment.bytes.len() <= 700);
        let behind = follower.follow(shipment).unwrap();
        assert!(behind.sequence >= has.sequence);
        if shipments == 3 {
            // Pieces of what another leader may have are worth nothing.
            assert!(follower.position().unwrap().partial > 0);
            follower.lost_leader();
            assert_eq!(follower.position().unwrap().partial, 0);
        }
    }
    assert!(shipments > 3 + 6000 / 700);
    for answer in answers {
        answer.recv().unwrap().unwrap();
    }
    assert_eq!(contents(&leader), contents(&follower));
}
