//! Which calls are worked on beside each other.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::Program;
use crate::config::Config;
use millpond_wire_schema::features_versions::Answer;
use std::sync::mpsc::Receiver;

/// How a call is answered by a server that has nothing open yet.
fn call(shared: &Arc<Shared>, change: VersionChange) -> Receiver<Code> {
    let (told, answered) = sync_channel(1);
    let table = "films".to_owned();
    let on_done = move |outcome: Result<Answer<'static>, Status>| {
        told.send(outcome.unwrap_err().code).unwrap();
    };
    serve(
        Arc::clone(shared),
        VersionsCall { table, change },
        Box::new(on_done),
    );
    answered
}

/// Anybody may list, and who switches has a token.
#[test]
fn listings_keep_no_change_from_its_turn() {
    let shared = Arc::new(Shared::new(Config::default(), Program::default()));
    let places: Vec<_> = std::iter::from_fn(|| shared.switching.enter()).collect();
    assert_eq!(places.len(), LISTINGS_MAX);
    let listed = call(&shared, VersionChange::None);
    assert_eq!(listed.try_recv(), Ok(Code::Overloaded), "without a thread");
    let switched = call(&shared, VersionChange::RollBack);
    assert_eq!(switched.recv(), Ok(Code::NotReady), "it was its turn");
    drop(places);
    let listed = call(&shared, VersionChange::None);
    assert_eq!(listed.recv(), Ok(Code::NotReady));
}

#[test]
fn of_changes_there_is_one() {
    let shared = Arc::new(Shared::new(Config::default(), Program::default()));
    let turn = shared.switching.begin().ok().unwrap();
    let switched = call(&shared, VersionChange::Activate(None));
    assert_eq!(switched.try_recv(), Ok(Code::Conflict), "without a thread");
    drop(turn);
    let switched = call(&shared, VersionChange::Activate(None));
    assert_eq!(switched.recv(), Ok(Code::NotReady));
}
