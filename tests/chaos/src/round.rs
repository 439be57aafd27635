//! One round: a server is started, loaded, hurt and ended, and looked at all the while.
//!
//! Its invariant: when it returns, the server and every thread of the round have ended.

use crate::fault::{await_moment, inject};
use crate::finding::{Broken, Finding, Findings};
use crate::invariant::{fresh, memory, mixed, ready, service, stop, store, table};
use crate::life::{FLEET, Life};
use crate::load;
use crate::mixed::Promise;
use crate::plan::{End, Fold, Kind, Moment, Round};
use crate::scene::Scene;
use crate::server::{Launch, Server, ended_by};
use crate::settings::Settings;
use crate::tally::{Counted, Tally, Word};
use rustix::process::Signal;
use std::thread::Scope;
use std::time::{Duration, Instant};

/// Runs a round in a folder and returns what was found.
///
/// # Errors
/// The campaign itself cannot go on: a file, a mount, a program that is missing.
pub fn run(settings: &Settings, life: &Life, round: &Round, tally: &Tally) -> anyhow::Result<Vec<Finding>> {
    let findings = Findings::new(round.number);
    let launch = Launch {
        millpond: &settings.millpond,
        folder: life.folder(),
        processes: if round.kind == Kind::Fleet { FLEET } else { 1 },
        round: round.number,
        set: &[],
    };
    if round.fold == Fold::Before {
        load::fold_between(settings, life, &findings, tally);
    }
    let starting = launch.begin()?;
    if let (Kind::Kill, End::Kill(Moment::Starting(time))) = (round.kind, round.end) {
        std::thread::sleep(time);
        if ended_by(starting.kill()?, Signal::KILL) {
            tally.count(Counted::Fault(Word::KillInStart));
        }
        return Ok(findings.into_inner());
    }
    match starting.ready() {
        Err(error) => findings.tell(Broken::Died, error.to_string()),
        Ok(server) => {
            let was_checked = check(life, &server, &findings, tally, round.kind);
            if was_checked {
                serve(settings, life, round, tally, &findings, &server)?;
            }
            for panic in server.panics() {
                findings.tell(Broken::Died, format!("it panicked: {panic}"));
            }
        }
    }
    Ok(findings.into_inner())
}

/// Holds what a server has after its start against what is known of it.
pub fn check(life: &Life, server: &Server, findings: &Findings, tally: &Tally, kind: Kind) -> bool {
    let store = kind == Kind::Fleet
        || check_store(life, server, findings, tally)
            && check_mixed(life, server, findings, tally)
            && check_fresh(life, server, findings, tally);
    store && check_table(life, server, findings)
}

/// Holds the version of the feature table against those that may be on the disk.
fn check_table(life: &Life, server: &Server, findings: &Findings) -> bool {
    let why = match table::serving(server, &life.authority().client()) {
        Ok(version) => match life.served().restarted(version) {
            Ok(()) => return true,
            Err(possible) => format!("version {version} serves after a start; possible were {possible}"),
        },
        Err(error) => format!("the feature table cannot be read: {error:#}"),
    };
    findings.tell(Broken::Version, why);
    false
}

/// Holds the rows of the table that takes upserts against what is known of them, before anybody upserts.
fn check_fresh(life: &Life, server: &Server, findings: &Findings, tally: &Tally) -> bool {
    match fresh::check(life.fresh(), server, &life.authority().client(), findings, tally) {
        Ok(()) => true,
        Err(error) => {
            findings.tell(
                Broken::UpsertWrong,
                format!("fresh rows cannot be read: {error:#}"),
            );
            false
        }
    }
}

/// Holds the stores under mixed load against what is known of them, before anybody writes.
fn check_mixed(life: &Life, server: &Server, findings: &Findings, tally: &Tally) -> bool {
    life.books().iter().all(|book| {
        let read = mixed::read(server, &life.authority().client(), book.table);
        if let Err(error) = &read {
            findings.tell(
                Broken::Service,
                format!("{} cannot be read: {error:#}", book.table),
            );
        }
        read.is_ok_and(|found| {
            book.settle(&found, Promise::All, findings, tally);
            true
        })
    })
}

/// Holds the store against what is known of it, before anybody puts.
fn check_store(life: &Life, server: &Server, findings: &Findings, tally: &Tally) -> bool {
    match store::read(server) {
        Ok(found) => {
            life.ledger().check(&found, findings, tally);
            true
        }
        Err(error) => {
            findings.tell(Broken::Service, format!("the store cannot be read: {error:#}"));
            false
        }
    }
}

fn serve(
    settings: &Settings,
    life: &Life,
    round: &Round,
    tally: &Tally,
    findings: &Findings,
    server: &Server,
) -> anyhow::Result<()> {
    let scene = Scene::new(settings, life, server, tally, findings, round);
    std::thread::scope(|scope| {
        let done = act(scope, &scene, life, round);
        scene.end();
        // Callers that wait for answers of a server that is still there would wait long: it ends now at the latest.
        if server.ended().is_none() {
            server.signal(Signal::KILL);
            server.signal(Signal::CONT);
        }
        done
    })
}

fn act<'scope>(
    scope: &'scope Scope<'scope, '_>,
    scene: &'scope Scene<'_>,
    life: &Life,
    round: &Round,
) -> anyhow::Result<()> {
    let began = Instant::now();
    let at_rest = scene.server.resident_bytes();
    scope.spawn(move || memory::watch(scene, at_rest));
    scope.spawn(|| ready::watch(scene));
    for number in 0..u64::from(round.writers) {
        scope.spawn(move || load::write(scene, number));
    }
    for number in 0..u64::from(round.callers) {
        scope.spawn(move || load::call(scene, number));
    }
    for number in 0..u64::from(round.readers) {
        scope.spawn(move || load::read(scene, number));
    }
    for book in scene.books.iter().filter(|_| round.mixers > 0) {
        let ground = scene.ground(book);
        for number in 0..u64::from(round.mixers) {
            scope.spawn(move || load::write_mixed(ground, number));
        }
        scope.spawn(move || load::read_mixed(ground, 0));
        scope.spawn(move || load::checkpoint(ground));
    }
    for number in 0..u64::from(round.lookers) {
        scope.spawn(move || load::look_up(scene, number));
    }
    for number in 0..u64::from(round.upserters) {
        scope.spawn(move || load::upsert(scene, number));
    }
    if round.upserters > 0 {
        scope.spawn(|| load::look_at_fresh(scene));
    }
    if round.fold == Fold::Beside {
        scope.spawn(|| load::fold(scene));
    }
    scope.spawn(|| load::switch(scene));
    scope.spawn(|| load::build(scene));
    for (who, (at, fault)) in (100..).zip(&round.faults) {
        scene.sleep(at.saturating_sub(began.elapsed()));
        inject(scope, scene, life.disk(), *fault, who)?;
    }
    if round.kind != Kind::Kill {
        scene.sleep(round.length.saturating_sub(began.elapsed()));
        service::check(scene);
    }
    end(scene, round.end);
    Ok(())
}

fn end(scene: &Scene<'_>, end: End) {
    if let Some(status) = scene.server.ended() {
        return scene.tell(Broken::Died, format!("it ended by itself: {status}"));
    }
    match end {
        End::Stop => stop::terminate(scene),
        End::Kill(moment) => {
            await_moment(scene, moment);
            stop::kill(scene);
        }
        End::KillInStop(time) => {
            std::thread::sleep(Duration::from_millis(100));
            scene.server.signal(Signal::TERM);
            std::thread::sleep(time);
            scene.server.signal(Signal::KILL);
            // It may have ended by itself.
            let status = scene.server.wait(Duration::from_secs(20));
            if status.is_some_and(|status| ended_by(status, Signal::KILL)) {
                scene.tally.count(Counted::Fault(Word::KillInStop));
            }
        }
    }
}
