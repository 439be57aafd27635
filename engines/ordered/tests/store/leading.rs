//! Who may write: stores whose records are another's, copies, epochs that cannot be, and what a checkpoint leaves unknown.

use std::time::{SystemTime, UNIX_EPOCH};

use millpond_engines_ordered::offline::{backup, restore};
use millpond_engines_ordered::{
    CopyError, Durability, Options, Position, PullError, Role, Store, Wanted, WriteError,
};

use crate::copies::ask;
use crate::followers::{followed, open, options, pull, ship_all, write_announced};
use crate::{contents, copy, one};

#[test]
fn a_follower_that_is_opened_without_its_leader_takes_no_writes_until_it_is_promoted() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = followed(parent.path(), 3);
    follower.close().unwrap();
    let alone = open(&parent.path().join("b"), None);
    assert_eq!(alone.role(), Role::Unpromoted);
    let refused = alone.write_wait(one("k", "v")).unwrap_err();
    assert!(matches!(refused, WriteError::NotLeader(_)), "{refused}");
    assert!(
        refused.to_string().contains("was not promoted; name its leader"),
        "{refused}"
    );
    assert_eq!(contents(&alone), contents(&leader));
    assert!(alone.promote().unwrap().epoch > leader.epoch());
    alone.close().unwrap();
    let alone = open(&parent.path().join("b"), None);
    assert_eq!(alone.role(), Role::Leads);
    alone.write_wait(one("k", "v")).unwrap();
}

#[test]
fn a_leader_that_was_replaced_and_followed_does_not_lead_again_by_its_configuration() {
    let parent = tempfile::tempdir().unwrap();
    let (old, new) = followed(parent.path(), 2);
    new.promote().unwrap();
    old.close().unwrap();
    let old = open(&parent.path().join("a"), Some("b:1"));
    new.write_wait(one("k", "v")).unwrap();
    while new.last_sequence() < 3 {
        std::thread::yield_now();
    }
    old.follow(pull(&new, old.position().unwrap()).unwrap()).unwrap();
    assert_eq!(old.epoch(), new.epoch());
    old.close().unwrap();
    let old = open(&parent.path().join("a"), None);
    assert_eq!(old.role(), Role::Unpromoted);
}

#[test]
fn a_follower_that_has_nothing_yet_may_begin_a_store_of_its_own() {
    let parent = tempfile::tempdir().unwrap();
    open(&parent.path().join("b"), Some("a:1")).close().unwrap();
    let alone = open(&parent.path().join("b"), None);
    assert_eq!(alone.role(), Role::Leads);
    alone.write_wait(one("k", "v")).unwrap();
}

#[test]
fn a_copy_that_leads_begins_an_epoch_and_one_that_follows_does_not() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, _follower) = followed(parent.path(), 3);
    let (kept, copy) = (parent.path().join("kept"), parent.path().join("copy"));
    backup(&parent.path().join("a"), &kept, false, &mut |_| ()).unwrap();
    restore(&kept, &copy, &mut |_| ()).unwrap();
    let leads = open(&copy, None);
    assert_eq!(leads.role(), Role::Leads);
    assert!(leads.epoch() > leader.epoch());
    assert_eq!(contents(&leads), contents(&leader));
    // The one that goes on hears of it by the first question, and two do not write side by side.
    assert!(matches!(
        pull(&leader, leads.position().unwrap()),
        Err(PullError::NotLeader(_))
    ));
    let epoch = leads.epoch();
    leads.close().unwrap();
    assert_eq!(open(&copy, None).epoch(), epoch, "once");
    let follows = open(&kept, Some("copy:1"));
    assert_eq!(follows.epoch(), leader.epoch());
    assert_eq!(follows.last_sequence(), 3);
}

#[test]
fn an_epoch_that_is_no_moment_stops_no_leader() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = followed(parent.path(), 1);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    for epoch in [now + 2 * 24 * 60 * 60 * 1000, u64::MAX] {
        let has = Position {
            epoch,
            ..follower.position().unwrap()
        };
        let refused = pull(&leader, has).unwrap_err();
        assert!(refused.to_string().contains("more than a day ahead"), "{refused}");
    }
    assert_eq!(leader.role(), Role::Leads);
    leader.write_wait(one("k", "v")).unwrap();
}

/// Its last record is in a checkpoint alone, and the store that it asks has another one in that place.
#[test]
fn a_last_record_that_only_a_checkpoint_has_is_taken_for_the_same_within_one_epoch_alone() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, other) = followed(parent.path(), 2);
    other.promote().unwrap();
    for store in [&leader, &other] {
        write_announced(store, one("k", "alike"));
    }
    other.checkpoint().unwrap();
    other.close().unwrap();
    let other = open(&parent.path().join("b"), Some("a:1"));
    let has = other.position().unwrap();
    assert_eq!((has.sequence, has.mark), (3, None));
    // The old leader, promoted after all: its record 3 is of the first epoch.
    assert!(matches!(pull(&leader, has), Err(PullError::NotLeader(_))));
    leader.promote().unwrap();
    write_announced(&leader, one("more", "v"));
    assert!(matches!(pull(&leader, has), Err(PullError::Gone(3))));
}

/// It was promoted, wrote nothing, and follows again: its leader's next records are older than its epoch.
#[test]
fn a_follower_that_was_promoted_by_mistake_is_told_to_begin_with_a_copy() {
    let parent = tempfile::tempdir().unwrap();
    let (leader, follower) = followed(parent.path(), 2);
    follower.promote().unwrap();
    follower.close().unwrap();
    write_announced(&leader, one("k", "v"));
    let follower = open(&parent.path().join("b"), Some("a:1"));
    let has = follower.position().unwrap();
    assert!(matches!(pull(&leader, has), Err(PullError::NotLeader(_))));
    leader.promote().unwrap();
    let refused = pull(&leader, has).unwrap_err();
    assert!(refused.to_string().contains("was promoted in epoch"), "{refused}");
}

#[test]
fn a_leader_that_comes_back_from_a_loss_of_power_does_not_replace_the_store_that_was_promoted() {
    let parent = tempfile::tempdir().unwrap();
    let (old, new) = followed(parent.path(), 2);
    let epoch = old.epoch();
    old.close().unwrap();
    let promoted = new.promote().unwrap().epoch;
    new.write_wait(one("k", "v")).unwrap();
    // It begins an epoch, as its log may have lost records, at each of some starts.
    let mut before = epoch;
    for _ in 0..3 {
        std::fs::write(parent.path().join("a/open"), "another run of the system\n").unwrap();
        let old = open(&parent.path().join("a"), None);
        assert!((before + 1..promoted).contains(&old.epoch()));
        before = old.epoch();
        old.close().unwrap();
    }
    std::fs::write(parent.path().join("a/open"), "another run of the system\n").unwrap();
    let old = open(&parent.path().join("a"), Some("b:1"));
    let _ = pull(&new, old.position().unwrap());
    assert_eq!(new.role(), Role::Leads);
    assert_eq!(new.epoch(), promoted);
}

#[test]
fn what_a_leader_writes_in_place_of_what_a_power_cut_took_is_no_continuation() {
    let parent = tempfile::tempdir().unwrap();
    let dirs = ["a", "b", "killed", "cut"].map(|name| parent.path().join(name));
    let [a, b, killed, cut] = &dirs;
    let (leader, follower) = (open(a, None), open(b, Some("a:1")));
    write_announced(&leader, one("k", "1"));
    copy(a, cut);
    write_announced(&leader, one("k", "2"));
    ship_all(&leader, &follower);
    let epoch = leader.epoch();
    copy(a, killed);
    std::fs::copy(a.join("open"), killed.join("open")).unwrap();
    leader.close().unwrap();

    // A kill takes nothing, and neither does a close.
    for dir in [a, killed] {
        let again = open(dir, None);
        assert_eq!(again.epoch(), epoch);
        ship_all(&again, &follower);
        again.close().unwrap();
    }
    // A machine that lost power has taken the second record, and was booted since.
    std::fs::write(cut.join("open"), "another run of the system\n").unwrap();
    let cut_off = open(cut, None);
    assert!(cut_off.epoch() > epoch);
    cut_off.write_wait(one("k", "other")).unwrap();
    cut_off.write_wait(one("k", "another")).unwrap();
    let refused = pull(&cut_off, follower.position().unwrap()).unwrap_err();
    assert!(matches!(refused, PullError::Diverged(_)), "{refused}");
    // Nor may a copy take the place of what the follower alone has.
    cut_off.checkpoint().unwrap();
    let refused = ask(&cut_off, &follower, Wanted::Checkpoint, 1 << 20).unwrap_err();
    assert!(matches!(refused, CopyError::Refused(_)), "{refused}");
    cut_off.close().unwrap();
    // Once is enough: it was closed.
    let again = open(cut, None);
    assert_eq!(again.last_sequence(), 3);
    let epoch = again.epoch();
    again.close().unwrap();
    // A store that is synced from then on has lost what was not, too.
    std::fs::write(cut.join("open"), "another run of the system\n").unwrap();
    let synced = Options {
        durability: Durability::Synced,
        ..options(None)
    };
    let (again, _) = Store::open(cut, synced).unwrap();
    assert!(again.epoch() > epoch && !cut.join("open").exists());
    again.close().unwrap();
}

#[test]
fn a_leader_that_lost_all_its_records_or_was_replaced_before_it_lost_some_goes_another_way_too() {
    let parent = tempfile::tempdir().unwrap();
    let dirs = ["a", "b", "bare", "some"].map(|name| parent.path().join(name));
    let [a, b, bare, some] = &dirs;
    let (leader, follower) = (open(a, None), open(b, Some("a:1")));
    copy(a, bare);
    write_announced(&leader, one("k", "1"));
    copy(a, some);
    write_announced(&leader, one("k", "2"));
    ship_all(&leader, &follower);
    let epoch = leader.epoch();
    leader.close().unwrap();
    for dir in [bare, some] {
        std::fs::write(dir.join("open"), "another run of the system\n").unwrap();
    }
    // The header alone is left, and with it the epoch that its followers have records of.
    let again = open(bare, None);
    assert_eq!(again.last_sequence(), 0);
    assert!(again.epoch() > epoch);
    for _ in 0..3 {
        again.write_wait(one("k", "other")).unwrap();
    }
    let refused = pull(&again, follower.position().unwrap()).unwrap_err();
    assert!(matches!(refused, PullError::Diverged(_)), "{refused}");
    again.checkpoint().unwrap();
    let refused = ask(&again, &follower, Wanted::Checkpoint, 1 << 20).unwrap_err();
    assert!(matches!(refused, CopyError::Refused(_)), "{refused}");
    again.close().unwrap();
    // Another leads, and a person says that it does not.
    std::fs::write(some.join("fenced"), format!("{}\n", u64::MAX / 2)).unwrap();
    let replaced = open(some, None);
    assert!(matches!(replaced.role(), Role::Fenced { .. }) && replaced.epoch() > epoch);
    replaced.close().unwrap();
    std::fs::remove_file(some.join("fenced")).unwrap();
    let again = open(some, None);
    again.write_wait(one("k", "other")).unwrap();
    again.write_wait(one("k", "another")).unwrap();
    let refused = pull(&again, follower.position().unwrap()).unwrap_err();
    assert!(matches!(refused, PullError::Diverged(_)), "{refused}");
}
