//! Followers that need a copy of their leader's store: new ones, and those that lag behind its log, while it is written to.
//!
//! Invariant under test: a copy ends with what the leader has, or leaves the follower as it was; nothing that a follower may have alone is
//! replaced.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use millpond_engines_ordered::{
    CopyAsk, CopyError, FollowError, Incoming, Options, Piece, Position, PullError, Put, Role, Store,
    TakeError, Took, Wanted,
};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::followers::{followed, open, pull, pull_for, ship_all, write_announced};
use crate::{contents, one, random_batch, random_put};

fn ask_as(
    leader: &Store,
    follower: &str,
    position: Position,
    (wanted, bytes_max): (Wanted, usize),
) -> Result<Piece, CopyError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let ask = CopyAsk {
        follower: follower.into(),
        position,
        wanted,
        bytes_max,
    };
    leader.copy(ask, Box::new(move |answer| sender.send(answer).unwrap()));
    receiver.recv().unwrap()
}

pub(crate) fn ask(
    leader: &Store,
    follower: &Store,
    wanted: Wanted,
    bytes_max: usize,
) -> Result<Piece, CopyError> {
    ask_as(leader, "b", follower.position().unwrap(), (wanted, bytes_max))
}

/// One question and its answer.
fn step(leader: &Store, follower: &Store, incoming: &mut Incoming, bytes_max: usize) -> Took {
    let piece = ask(leader, follower, incoming.wanted(), bytes_max).unwrap();
    incoming.take(&piece).unwrap()
}

/// All questions; `between` is called behind each.
fn take_all(
    leader: &Store,
    follower: &Store,
    incoming: &mut Incoming,
    bytes_max: usize,
    mut between: impl FnMut(),
) {
    while step(leader, follower, incoming, bytes_max) != Took::Whole {
        between();
        std::thread::yield_now();
    }
}

/// Has the leader's log begin behind what the follower has.
fn leave_behind(leader: &Store, rng: &mut StdRng) {
    for at in 0..20 {
        match at % 2 {
            0 => write_announced(leader, random_put(rng)),
            _ => write_announced(leader, random_batch(rng)),
        }
    }
    leader.checkpoint().unwrap();
}

/// As a server that the leader has no file open for.
fn is_gone(leader: &Store, follower: &Store) -> bool {
    let has = follower.position().unwrap();
    let answer = pull_for(leader, "one that comes late", has, 1, Duration::ZERO);
    matches!(answer, Err(PullError::Gone(_)))
}

fn copies_in(dir: &Path) -> usize {
    let names = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    names
        .filter(|name| name.to_str().unwrap().ends_with(".copy"))
        .count()
}

#[test]
fn a_follower_takes_a_copy_while_its_leader_is_written_to() {
    for seed in 0..12 {
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let parent = tempfile::tempdir().unwrap();
        // One with nothing, and one with records that the leader has removed or written over since.
        let records = if seed % 2 == 0 { 0 } else { 30 };
        let (leader, follower) = followed(parent.path(), records);
        write_announced(
            &leader,
            Put {
                entries: vec![(b"lasts an hour".to_vec(), b"v".to_vec())],
                ttl_ms: Some(3_600_000),
                ..Put::default()
            },
        );
        if records > 0 {
            let keys = (5..25).map(|at| format!("k{at}").into_bytes());
            let remove = |key| millpond_engines_ordered::Operation::Remove {
                key,
                if_version: None,
            };
            write_announced(
                &leader,
                millpond_engines_ordered::Batch::of(keys.map(remove).collect()),
            );
        }
        leave_behind(&leader, &mut rng);
        assert!(is_gone(&leader, &follower));
        let before = contents(&follower);
        let mut incoming = follower.take_copy().unwrap();
        let bytes_max = [50, 1000, 1 << 20][seed as usize % 3];
        take_all(&leader, &follower, &mut incoming, bytes_max, || {
            write_announced(&leader, random_put(&mut rng));
            assert!(
                contents(&follower) == before,
                "nothing is shown before it is whole"
            );
        });
        assert_eq!(leader.copies_given(), 1);
        // It is held meanwhile.
        leader.checkpoint().unwrap();
        let read = follower.read_whole(|_| incoming.install().unwrap());
        assert!(read.is_err(), "a copy came between");
        let position = follower.position().unwrap();
        drop(incoming);
        assert!(follower.read_whole(|_| ()).is_ok());
        assert_eq!(follower.last_sequence(), position.sequence);
        assert_eq!(
            (follower.copy_progress(), copies_in(&parent.path().join("b"))),
            (None, 0)
        );
        write_announced(&leader, one("behind", "the copy"));
        ship_all(&leader, &follower);
        assert_eq!(contents(&leader), contents(&follower));
        let expires = |store: &Store| store.get(b"lasts an hour").unwrap().expires_ms;
        assert_eq!(expires(&leader), expires(&follower));
        assert_eq!(leader.epoch(), follower.epoch());
        // It has come up to its leader, so nothing is held for it any more.
        assert!(
            pull(&leader, follower.position().unwrap())
                .unwrap()
                .bytes
                .is_empty()
        );
        assert_eq!(leader.copies_given(), 0);
        // What is on the disk is the same, and it goes on from there; it writes checkpoints and leads.
        follower.close().unwrap();
        let follower = open(&parent.path().join("b"), Some("a:1"));
        assert_eq!(contents(&leader), contents(&follower));
        write_announced(&leader, random_put(&mut rng));
        ship_all(&leader, &follower);
        follower.checkpoint().unwrap();
        follower.promote().unwrap();
        assert_eq!(follower.write_wait(one("mine", "v")).unwrap().versions.len(), 1);
        follower.close().unwrap();
        let follower = open(&parent.path().join("b"), None);
        assert!(follower.get(b"mine").is_some() && follower.get(b"behind").is_some());
    }
}

#[test]
fn a_checkpoint_that_is_cut_or_damaged_at_any_byte_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = followed(parent.path(), 4);
    write_announced(&leader, one("k", "v"));
    leader.checkpoint().unwrap();
    let before = contents(&follower);
    let named = ask(&leader, &follower, Wanted::Checkpoint, 1).unwrap();
    let wanted = Wanted::Bytes {
        checkpoint: named.checkpoint,
        offset: 0,
    };
    let whole = ask(&leader, &follower, wanted, 1 << 20).unwrap();
    assert_eq!(whole.bytes.len() as u64, named.length);
    for at in 0..whole.bytes.len() {
        let mut flipped = whole.clone();
        flipped.bytes[at] ^= 1;
        let mut cut = whole.clone();
        cut.bytes.truncate(at);
        cut.length = at as u64;
        let mut longer = whole.clone();
        longer.bytes.insert(at, 0);
        longer.length += 1;
        for piece in [flipped, cut, longer] {
            let mut incoming = follower.take_copy().unwrap();
            let first = Piece {
                length: piece.length,
                ..named.clone()
            };
            assert_eq!(incoming.take(&first).unwrap(), Took::Part);
            let refused = incoming.take(&piece);
            assert!(
                matches!(refused, Err(TakeError::Anew(_))),
                "byte {at}: {refused:?}"
            );
            assert!(incoming.install().is_err(), "what is not whole is not taken in");
        }
    }
    assert_eq!(contents(&follower), before);
    // Begun anew it comes.
    let mut incoming = follower.take_copy().unwrap();
    take_all(&leader, &follower, &mut incoming, 1 << 20, || ());
    incoming.install().unwrap();
    assert_eq!(contents(&leader), contents(&follower));
}

#[test]
fn records_behind_a_checkpoint_come_in_pieces_and_are_refused_where_they_are_damaged() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = followed(parent.path(), 3);
    write_announced(&leader, one("a", "v"));
    leader.checkpoint().unwrap();
    let mut incoming = follower.take_copy().unwrap();
    // As if the checkpoint were of a store that is written to.
    let named = ask(&leader, &follower, Wanted::Checkpoint, 1).unwrap();
    let files = std::fs::read_dir(parent.path().join("a")).unwrap();
    let mut files = files.map(|entry| entry.unwrap().path());
    let file = files
        .find(|file| file.extension().is_some_and(|end| end == "mpc"))
        .unwrap();
    let mut bytes = std::fs::read(file).unwrap();
    let foot = bytes.len() - 64;
    bytes[foot + 8..foot + 16].copy_from_slice(&5u64.to_le_bytes());
    bytes[foot + 16..foot + 24].copy_from_slice(&6u64.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[foot + 8..]);
    bytes[foot + 4..foot + 8].copy_from_slice(&sum.to_le_bytes());
    let named = Piece {
        last_sequence: 5,
        ..named
    };
    write_announced(&leader, one("b", "v"));
    write_announced(&leader, one("c", "v"));
    assert_eq!(incoming.take(&named).unwrap(), Took::Part);
    assert_eq!(
        incoming
            .take(&Piece {
                bytes,
                ..named.clone()
            })
            .unwrap(),
        Took::Part
    );
    let Wanted::Records { behind: 4, .. } = incoming.wanted() else {
        panic!("{:?}", incoming.wanted());
    };
    // Both are as large, and the first is asked for.
    let both = ask(&leader, &follower, incoming.wanted(), 1 << 20).unwrap();
    let records = ask(&leader, &follower, incoming.wanted(), both.bytes.len() / 2).unwrap();
    assert_eq!((records.bytes.len(), records.rest), (both.bytes.len() / 2, 0));
    let records = Piece {
        last_sequence: 5,
        ..records
    };
    // Byte 0 to 3 is the leader's segment's marker, which says nothing here.
    for at in 4..records.bytes.len() {
        let mut flipped = records.clone();
        flipped.bytes[at] ^= 1;
        let refused = incoming.take(&flipped);
        assert!(
            matches!(refused, Err(TakeError::Anew(_))),
            "byte {at}: {refused:?}"
        );
    }
    // It comes in pieces where it is larger than an answer may be.
    let mut pieces = 0;
    loop {
        let piece = ask(&leader, &follower, incoming.wanted(), 10).unwrap();
        let piece = Piece {
            last_sequence: 5,
            ..piece
        };
        assert!(piece.bytes.len() <= 10);
        pieces += 1;
        if incoming.take(&piece).unwrap() == Took::Whole {
            break;
        }
    }
    assert_eq!(pieces, records.bytes.len().div_ceil(10));
    incoming.install().unwrap();
    assert_eq!(follower.last_sequence(), 5);
    ship_all(&leader, &follower);
    assert_eq!(contents(&leader), contents(&follower));
}

#[test]
fn a_copy_goes_on_behind_a_restart_of_the_leader_and_beside_its_next_checkpoints() {
    let parent = tempfile::tempdir().unwrap();
    let mut rng = StdRng::seed_from_u64(7);
    let (leader, follower) = followed(parent.path(), 2);
    leave_behind(&leader, &mut rng);
    let mut incoming = follower.take_copy().unwrap();
    for _ in 0..3 {
        assert_eq!(step(&leader, &follower, &mut incoming, 20), Took::Part);
    }
    leader.close().unwrap();
    let leader = open(&parent.path().join("a"), None);
    assert_eq!(step(&leader, &follower, &mut incoming, 20), Took::Part);
    for _ in 0..3 {
        write_announced(&leader, random_put(&mut rng));
        leader.checkpoint().unwrap();
        assert_eq!(step(&leader, &follower, &mut incoming, 20), Took::Part);
    }
    take_all(&leader, &follower, &mut incoming, 1 << 20, || ());
    incoming.install().unwrap();
    // The log behind it was kept.
    ship_all(&leader, &follower);
    assert_eq!(contents(&leader), contents(&follower));
    let checkpoints = || {
        let files = std::fs::read_dir(parent.path().join("a")).unwrap();
        let names = files.map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| name.to_str().unwrap().starts_with("checkpoint-"))
            .count()
    };
    assert!(checkpoints() > 1);
    assert!(pull(&leader, follower.position().unwrap()).is_ok());
    write_announced(&leader, one("k", "v"));
    leader.checkpoint().unwrap();
    assert_eq!(checkpoints(), 1, "the next one removes what was held");
}

#[test]
fn what_a_follower_may_have_alone_is_not_replaced() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = followed(parent.path(), 3);
    let has = follower.position().unwrap();
    leader.checkpoint().unwrap();
    let refused = |has: Position| match ask_as(&leader, "b", has, (Wanted::Checkpoint, 1)) {
        Err(CopyError::Refused(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(
        refused(Position {
            history: [1; 16],
            ..has
        })
        .contains("histories differ")
    );
    assert!(refused(Position { epoch: 2, ..has }).contains("epoch 2"));
    assert!(refused(Position { sequence: 9, ..has }).contains("ends at record 3"));
    // A leader that was replaced may have written more in its epoch than the one that took its place has of it.
    for at in 0..3 {
        write_announced(&leader, one(&format!("alone {at}"), "v"));
    }
    follower.promote().unwrap();
    for at in 0..9 {
        write_announced(&follower, one(&format!("new {at}"), "v"));
    }
    follower.checkpoint().unwrap();
    leader.close().unwrap();
    let old = open(&parent.path().join("a"), Some("b:1"));
    let has = old.position().unwrap();
    assert!(matches!(pull(&follower, has), Err(PullError::Gone(6))));
    let refused = ask_as(&follower, "a", has, (Wanted::Checkpoint, 1));
    assert!(
        matches!(&refused, Err(CopyError::Refused(why)) if why.contains("its epoch 1 ended with record 3")),
        "{refused:?}"
    );
    // Nor is it where a leader says otherwise.
    let fresh = open(&parent.path().join("c"), Some("b:1"));
    let piece = ask(&follower, &fresh, Wanted::Checkpoint, 1).unwrap();
    let refused = old.take_copy().unwrap().take(&piece);
    assert!(matches!(refused, Err(TakeError::Refused(_))), "{refused:?}");
    assert_eq!(old.last_sequence(), 6);
    // One without a record may become a copy of anything.
    let mut incoming = fresh.take_copy().unwrap();
    while incoming
        .take(&ask_as(&follower, "c", fresh.position().unwrap(), (incoming.wanted(), 99)).unwrap())
        .unwrap()
        != Took::Whole
    {}
    incoming.install().unwrap();
    assert_eq!(contents(&fresh), contents(&follower));
    assert_eq!(fresh.epoch(), follower.epoch());
}

/// Has a follower take a copy, by its name.
fn take_as(leader: &Store, name: &str, follower: &Store) {
    let mut incoming = follower.take_copy().unwrap();
    loop {
        let asked = (incoming.wanted(), 1 << 20);
        let piece = ask_as(leader, name, follower.position().unwrap(), asked).unwrap();
        if incoming.take(&piece).unwrap() == Took::Whole {
            break;
        }
        std::thread::yield_now();
    }
    incoming.install().unwrap();
}

#[test]
fn a_follower_that_lagged_over_promotions_takes_a_copy_where_it_has_nothing_alone() {
    let parent = tempfile::tempdir().unwrap();
    let dir = |name: &str| parent.path().join(name);
    let (a, b) = followed(parent.path(), 4);
    // "c" has 4 records, "b" and "a" have 6 when "b" is promoted, and "d" has 5.
    let [c, d] = ["c", "d"].map(|name| open(&dir(name), Some("a:1")));
    ship_all(&a, &c);
    write_announced(&a, one("fifth", "v"));
    ship_all(&a, &d);
    write_announced(&a, one("sixth", "v"));
    ship_all(&a, &b);
    b.promote().unwrap();
    write_announced(&b, one("of b", "v"));
    b.checkpoint().unwrap();
    let has = c.position().unwrap();
    assert!(matches!(
        pull_for(&b, "c", has, 1, Duration::ZERO),
        Err(PullError::Gone(4))
    ));
    // What it knows of epochs outlives it.
    b.close().unwrap();
    let b = open(&dir("b"), None);
    take_as(&b, "c", &c);
    assert_eq!((contents(&c), c.epoch()), (contents(&b), b.epoch()));
    write_announced(&b, one("behind", "v"));
    ship_all(&b, &c);
    // The old leader has no record alone.
    a.close().unwrap();
    let a = open(&dir("a"), Some("b:1"));
    assert_eq!(a.last_sequence(), 6);
    take_as(&b, "a", &a);
    ship_all(&b, &a);
    assert_eq!(contents(&a), contents(&b));
    // "c" knows where the second epoch ended, but not the first, as it took its copy behind that.
    let has = d.position().unwrap();
    c.promote().unwrap();
    write_announced(&c, one("of c", "v"));
    c.checkpoint().unwrap();
    let refused = ask_as(&c, "d", has, (Wanted::Checkpoint, 1));
    assert!(
        matches!(&refused, Err(CopyError::Refused(why)) if why.contains("not known any more")),
        "{refused:?}"
    );
    take_as(&c, "a", &a);
    assert_eq!((contents(&a), a.epoch()), (contents(&c), c.epoch()));
}

#[test]
fn a_follower_that_has_all_of_an_epoch_follows_over_its_end_without_a_copy() {
    let parent = tempfile::tempdir().unwrap();
    let dir = |name: &str| parent.path().join(name);
    let (a, b) = followed(parent.path(), 4);
    let c = open(&dir("c"), Some("a:1"));
    ship_all(&a, &c);
    // Nothing is in the log of "b" but the epoch that begins: a checkpoint stands for the rest.
    b.checkpoint().unwrap();
    b.promote().unwrap();
    b.close().unwrap();
    let b = open(&dir("b"), None);
    ship_all(&b, &c);
    // Nor is there for one that begins with that checkpoint.
    let d = open(&dir("d"), Some("b:1"));
    take_as(&b, "d", &d);
    write_announced(&b, one("of b", "v"));
    for follower in [&c, &d] {
        ship_all(&b, follower);
        assert_eq!((contents(follower), follower.epoch()), (contents(&b), b.epoch()));
    }
}

#[test]
fn whoever_followed_over_a_promotion_knows_where_the_epoch_before_ended() {
    let parent = tempfile::tempdir().unwrap();
    let dir = |name: &str| parent.path().join(name);
    let (a, b) = followed(parent.path(), 4);
    let c = open(&dir("c"), Some("a:1"));
    ship_all(&a, &c);
    write_announced(&a, one("fifth", "v"));
    ship_all(&a, &b);
    b.promote().unwrap();
    write_announced(&b, one("of b", "v"));
    a.close().unwrap();
    let a = open(&dir("a"), Some("b:1"));
    ship_all(&b, &a);
    a.promote().unwrap();
    write_announced(&a, one("of a again", "v"));
    a.checkpoint().unwrap();
    take_as(&a, "c", &c);
    assert_eq!((contents(&c), c.epoch()), (contents(&a), a.epoch()));
    // A record of its own, in the first epoch, and nothing is replaced.
    let d = open(&dir("d"), None);
    write_announced(&d, one("another history", "v"));
    d.close().unwrap();
    let d = open(&dir("d"), Some("a:1"));
    let refused = ask_as(&a, "d", d.position().unwrap(), (Wanted::Checkpoint, 1));
    assert!(matches!(refused, Err(CopyError::Refused(_))), "{refused:?}");
}

#[test]
fn a_store_that_leads_by_now_takes_no_copy_and_gives_none_where_it_follows() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = followed(parent.path(), 3);
    write_announced(&leader, one("k", "v"));
    leader.checkpoint().unwrap();
    let refused = ask_as(
        &follower,
        "c",
        leader.position().unwrap(),
        (Wanted::Checkpoint, 1),
    );
    assert!(matches!(refused, Err(CopyError::NotLeader(_))), "{refused:?}");
    assert!(leader.take_copy().is_err());
    let mut incoming = follower.take_copy().unwrap();
    take_all(&leader, &follower, &mut incoming, 1 << 20, || ());
    follower.promote().unwrap();
    follower.write_wait(one("mine", "v")).unwrap();
    let refused = incoming.install();
    assert!(
        matches!(refused, Err(FollowError::NotFollowing("leader"))),
        "{refused:?}"
    );
    assert!(follower.get(b"mine").is_some() && follower.read_whole(|_| ()).is_ok());
    // What was copied is removed by its next start.
    assert!(copies_in(&parent.path().join("b")) > 0);
    follower.close().unwrap();
    let follower = open(&parent.path().join("b"), None);
    assert_eq!(
        (copies_in(&parent.path().join("b")), follower.role()),
        (0, Role::Leads)
    );
    assert!(follower.get(b"mine").is_some());
}

#[test]
fn so_many_followers_copy_at_a_time_and_questions_are_bounded() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = followed(parent.path(), 3);
    leader.checkpoint().unwrap();
    let nothing = Position {
        sequence: 0,
        mark: None,
        ..follower.position().unwrap()
    };
    let named = ask_as(&leader, "f0", nothing, (Wanted::Checkpoint, 1)).unwrap();
    for at in 0..4 {
        let found = ask_as(&leader, &format!("f{at}"), nothing, (Wanted::Checkpoint, 1));
        assert!(found.is_ok(), "{found:?}");
    }
    let refused = ask_as(&leader, "f4", nothing, (Wanted::Checkpoint, 1));
    assert!(matches!(refused, Err(CopyError::TooMany)), "{refused:?}");
    let at = |offset| Wanted::Bytes {
        checkpoint: named.checkpoint,
        offset,
    };
    let piece = ask_as(&leader, "f1", nothing, (at(0), usize::MAX)).unwrap();
    assert_eq!(piece.bytes.len() as u64, named.length);
    let end = ask_as(&leader, "f1", nothing, (at(named.length), 9)).unwrap();
    assert!(end.bytes.is_empty());
    let refused = ask_as(&leader, "f1", nothing, (at(named.length + 1), 9));
    assert!(matches!(refused, Err(CopyError::Offset { .. })), "{refused:?}");
    let wanted = Wanted::Bytes {
        checkpoint: 77,
        offset: 0,
    };
    let refused = ask_as(&leader, "f1", nothing, (wanted, 9));
    assert!(matches!(refused, Err(CopyError::Gone(77))), "{refused:?}");
    let in_memory = Store::in_memory(Options::default());
    let refused = ask_as(&in_memory, "f1", nothing, (Wanted::Checkpoint, 9));
    assert!(matches!(refused, Err(CopyError::Closed)), "{refused:?}");
    assert!(in_memory.read_whole(|_| ()).is_ok() && in_memory.take_copy().is_err());
}
