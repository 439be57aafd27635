//! Switches of feature tables to other versions, one at a time: what a call means, the steps of it, and the answer.
//!
//! The steps: open and warm beside what serves; write `ACTIVE`, which is the point of no return; swap. Of several processes
//! each does the first and the last, and their parent the one between. Its invariants: no net thread waits for a step; until
//! `ACTIVE` is written everything is as it was; and a start after a kill at any moment serves the old version or the new one.

mod answer;
mod arrive;
mod deletion;
mod ended;
mod refusal;

pub(crate) use arrive::arrive;
pub(crate) use refusal::Refusal;

use crate::Shared;
use answer::answer;
use millpond_calls::{OnVersions, VersionChange, VersionsCall};
use millpond_catalog::{self as catalog, Catalog, Handle, Prepared, Serving};
use millpond_engines_features::{self as features, Active, Table};
use millpond_wire_schema::{Code, Status};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// Listings that are worked on at a time, each on a thread of its own. Of changes there is one.
const LISTINGS_MAX: usize = 16;

/// What a process keeps for switches.
#[derive(Default)]
pub(crate) struct Switching {
    /// Set once everything is open and warm.
    pub(crate) engines: OnceLock<Arc<Handle>>,
    /// A thread that looked for new versions has ended by a panic.
    pub(crate) has_watcher_died: AtomicBool,
    is_busy: Arc<AtomicBool>,
    listings: Arc<AtomicUsize>,
    /// Held while a listing looks at files: a few hundred versions are a few hundred headers.
    listing: Mutex<()>,
}

/// The one switch that goes on.
struct Turn(Arc<AtomicBool>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// One of the listings that are worked on.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Switching {
    fn begin(&self) -> Result<Turn, Refusal> {
        match self.is_busy.swap(true, Ordering::AcqRel) {
            true => Err(busy()),
            false => Ok(Turn(Arc::clone(&self.is_busy))),
        }
    }

    fn enter(&self) -> Option<Place> {
        let before = self.listings.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(&self.listings));
        (before < LISTINGS_MAX).then_some(place)
    }
}

pub(crate) fn busy() -> Refusal {
    let ex = "another switch goes on, and there is one at a time; nothing was changed, try again when it has ended";
    Refusal::passing(Code::Conflict, ex)
}

/// A switch as it was understood; the same for all processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) table: String,
    pub(crate) version: u64,
    pub(crate) folder: PathBuf,
    pub(crate) step: Step,
    /// Nobody called for it, so it is made only to a version above all that served.
    pub(crate) is_arrival: bool,
}

/// What becomes of the version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// It serves.
    Activate {
        /// The version that a way back leads to then.
        before: Option<u64>,
        /// The versions that are held then, the one served last first.
        held: Vec<u64>,
        /// The configuration names the version that a start serves, so nothing is written.
        is_fixed: bool,
    },
    /// It goes.
    Delete {
        /// Why it stays all the same: folded upserts would go with it, and the caller did not say that they may.
        kept: Option<Box<Refusal>>,
        /// What is to be said of folded upserts that go with it.
        lost: Option<String>,
    },
}

impl Plan {
    /// Reads no table.
    fn of(shared: &Shared, handle: &Handle, call: &VersionsCall) -> Result<Plan, Refusal> {
        let catalog = handle.pin();
        let (active, past, section) = parts(&catalog, &call.table)?;
        let (folder, now) = (section.path.clone(), active.version());
        let fixed = fixed(shared, &call.table);
        let version = match call.change {
            VersionChange::Activate(Some(version)) | VersionChange::Delete { version, .. } => version,
            VersionChange::None => now,
            VersionChange::RollBack => past.before.ok_or_else(|| {
                let ex = format!(
                    "table {:?} has served version {now} alone, so there is nothing to roll back; name a version to \
                     features.activate",
                    call.table
                );
                Refusal::new(Code::Conflict, ex)
            })?,
            VersionChange::Activate(None) => {
                let there = features::versions(&folder).map_err(|error| Refusal::from(&error))?;
                there.last().copied().unwrap_or(now)
            }
        };
        let step = match call.change {
            VersionChange::Delete { lose_upserts, .. } => {
                deletion::plan(shared, &catalog, &call.table, version, lose_upserts)?
            }
            _ => {
                let before = if version == now { past.before } else { Some(now) };
                let is_there = || features::versions(&folder).is_ok_and(|there| there.contains(&version));
                if fixed.is_none() && matches!(Active::read(&folder), Ok(None)) && is_there() {
                    // From now on a start serves what serves now, whatever newer versions there are: one of them may be what
                    // is refused. Where it cannot be written, the answer says so in the end. Of several processes another
                    // one may have switched meanwhile: what was written then stays.
                    let active = Active::of(now, past.before);
                    let held = past.held.iter().map(|held| held.version());
                    let _ = active.holding(held).write_first(&folder);
                }
                let held = [now]
                    .into_iter()
                    .chain(past.held.iter().map(|held| held.version()));
                let held = held.filter(|held| *held != version);
                Step::Activate {
                    before,
                    held: held.take(section.versions_held).collect(),
                    is_fixed: fixed.is_some(),
                }
            }
        };
        Ok(Plan {
            table: call.table.clone(),
            version,
            folder,
            step,
            is_arrival: false,
        })
    }

    /// What is to be said of folded upserts that go with a version.
    fn lost(&self) -> Option<&str> {
        match &self.step {
            Step::Delete { lost, .. } => lost.as_deref(),
            Step::Activate { .. } => None,
        }
    }

    /// Whether a process that starts later could open what is to serve. A lone process may serve a version that it holds and whose
    /// folder is gone: its next start serves another one.
    pub(crate) fn check_lasts(&self) -> Result<(), Refusal> {
        let Step::Activate { .. } = self.step else {
            return Ok(());
        };
        let (version, there) = (self.version, features::versions(&self.folder));
        match there {
            Ok(there) if there.contains(&version) => {
                self.check_opens().map_err(|error| Refusal::from(&error))
            }
            Ok(there) => {
                let ex = format!(
                    "the folder of version {version} is gone, found {there:?}; of several processes one that starts later could not \
                     serve it"
                );
                Err(Refusal::new(Code::Conflict, ex))
            }
            Err(error) => Err(Refusal::from(&error)),
        }
    }

    /// Whether a start could open the version. Where that cannot be looked at, it says nothing of the version: the log has it.
    fn check_opens(&self) -> Result<(), features::Error> {
        match features::check_opens(&self.folder, self.version) {
            Err(error) if error.is_out_of_resources() => {
                let (table, version) = (&self.table, self.version);
                tracing::warn!(
                    table,
                    version,
                    %error,
                    "whether a restart can open the version could not be checked"
                );
                Ok(())
            }
            checked => checked,
        }
    }

    /// The step that cannot be taken back; reads no row but those of files of format 1. Says why a start will not serve what serves then, where it will not.
    pub(crate) fn decide(&self) -> Result<Option<String>, Refusal> {
        match self.step {
            Step::Activate { is_fixed: true, .. } => Ok(None),
            Step::Activate { before, ref held, .. } => {
                // One that is held serves whatever its files are by now; a start could not open it.
                if let Err(error) = self.check_opens() {
                    let why_not = format!("version {} does not open: {error}", self.version);
                    return Ok(Some(why_not));
                }
                let active = Active::of(self.version, before);
                let written = active.holding(held.iter().copied()).write(&self.folder);
                Ok(written.err().map(|error| error.to_string()))
            }
            Step::Delete { .. } => features::delete_unused_version(&self.folder, self.version)
                .map(|()| None)
                .map_err(|error| Refusal::from(&error)),
        }
    }
}

/// What a plan has opened in this process.
pub(crate) enum Opened<'h> {
    Next(Prepared<'h>),
    /// Nothing is to be opened.
    Nothing,
}

impl Opened<'_> {
    /// Says whether a restart serves what serves then.
    fn with_lasting(self, is_lasting: bool) -> Self {
        match self {
            Opened::Next(prepared) => Opened::Next(prepared.with_lasting(is_lasting)),
            Opened::Nothing => Opened::Nothing,
        }
    }

    /// Takes the last step; `on_switch` is called when it is taken.
    pub(crate) fn commit(self, on_switch: impl FnOnce()) {
        match self {
            Opened::Next(prepared) => prepared.commit(|_| on_switch()),
            Opened::Nothing => on_switch(),
        }
    }
}

/// Takes the first step in this process.
pub(crate) fn open<'h>(handle: &'h Handle, plan: &Plan) -> Result<Opened<'h>, Refusal> {
    let (table, version) = (&plan.table, plan.version);
    match plan.step {
        Step::Activate { before, .. } => {
            let next = handle.prepare_version(table, version)?;
            Ok(Opened::Next(next.with_before(table, before)))
        }
        Step::Delete { ref kept, .. } => {
            deletion::check_unused(&handle.pin(), table, version)?;
            kept.as_deref().cloned().map_or(Ok(Opened::Nothing), Err)
        }
    }
}

/// Serves what the others serve before the process accepts: they may have switched while it started.
pub(crate) fn follow(handle: &Handle, all: BTreeMap<String, Serving>) -> Result<(), catalog::Error> {
    let own = handle.pin().serving();
    for (table, serving) in all {
        if own.get(&table).is_some_and(|own| *own != serving) {
            let next = handle.prepare_version(&table, serving.version)?;
            let next = next.with_before(&table, serving.before);
            next.with_highest(&table, serving.highest).commit(|_| ());
        }
    }
    Ok(())
}

/// Does what a call asks for, on a thread of its own. Listings need no token, so they keep no change from its turn.
pub(crate) fn serve(shared: Arc<Shared>, call: VersionsCall, on_done: OnVersions) {
    match call.change {
        VersionChange::None => match shared.switching.enter() {
            Some(place) => on_thread(shared, on_done, move |shared, handle, on_done| {
                let _place = place;
                let listing = shared.switching.listing.lock();
                let _one = listing.unwrap_or_else(PoisonError::into_inner);
                on_done(answer(shared, handle, &call.table, None, None));
            }),
            None => {
                let ex = format!("{LISTINGS_MAX} tables are listed already; try again later");
                on_done(Err(Status::new(Code::Overloaded, ex)));
            }
        },
        _ => match shared.switching.begin() {
            Ok(turn) => on_thread(shared, on_done, move |shared, handle, on_done| {
                switch(shared, handle, &call, turn, on_done);
            }),
            Err(refusal) => on_done(Err(refusal.into())),
        },
    }
}

fn on_thread(
    shared: Arc<Shared>,
    on_done: OnVersions,
    work: impl FnOnce(&Arc<Shared>, &Handle, OnVersions) + Send + 'static,
) {
    let thread = std::thread::Builder::new().name("versions".into());
    // Where there is no thread, the call is dropped, and that answers it.
    let _ = thread.spawn(move || match shared.switching.engines.get() {
        Some(handle) => work(&shared, handle, on_done),
        None => on_done(Err(Status::new(Code::NotReady, "the server is warming up"))),
    });
}

fn switch(shared: &Arc<Shared>, handle: &Handle, call: &VersionsCall, turn: Turn, on_done: OnVersions) {
    let began = Instant::now();
    make(shared, handle, call, (turn, false), |outcome| {
        ended::note(handle, call, &outcome, began);
        on_done(match outcome {
            Ok((plan, why_not)) => answer(shared, handle, &call.table, plan.lost(), why_not),
            Err(refusal) => Err(refusal.into()),
        });
    });
}

/// All steps of a switch, then `on_end`, as soon as it serves or will not.
fn make(
    shared: &Shared,
    handle: &Handle,
    call: &VersionsCall,
    (turn, is_arrival): (Turn, bool),
    on_end: impl FnOnce(Result<(&Plan, Option<String>), Refusal>),
) {
    let on_end = |outcome| {
        drop(turn);
        on_end(outcome);
    };
    let plan = match Plan::of(shared, handle, call) {
        Ok(plan) => Plan { is_arrival, ..plan },
        Err(refusal) => return on_end(Err(refusal)),
    };
    if let Some(member) = &shared.program.member {
        let (told, decided) = sync_channel(1);
        member.ask_to_switch(plan.clone(), move |outcome| {
            let _ = told.try_send(outcome);
        });
        let gone = |_| {
            let ex = "the parent of the processes is gone";
            Err(Refusal::passing(Code::Stopping, ex))
        };
        let outcome = decided.recv().unwrap_or_else(gone);
        return on_end(outcome.map(|why_not| (&plan, why_not)));
    }
    let highest = handle.pin().past.get(&plan.table).map_or(0, |past| past.highest);
    let opened = plan.check_is_above(highest).and_then(|()| open(handle, &plan));
    let decided = opened.and_then(|opened| {
        if shared.calls.is_stopping() {
            let ex = "the server is stopping; nothing was changed";
            return Err(Refusal::passing(Code::Stopping, ex));
        }
        Ok((opened, plan.decide()?))
    });
    match decided {
        Ok((opened, why_not)) => {
            let fixed = fixed(shared, &plan.table);
            let is_lasting = why_not.is_none() && fixed.is_none_or(|fixed| fixed == plan.version);
            let opened = opened.with_lasting(is_lasting);
            opened.commit(|| on_end(Ok((&plan, why_not))));
        }
        Err(refusal) => on_end(Err(refusal)),
    }
}

type Parts<'c> = (&'c Table, catalog::Past, &'c features::Section);

fn parts<'c>(catalog: &'c Catalog, table: &str) -> Result<Parts<'c>, Refusal> {
    let active = catalog.tables.get(table);
    let section = catalog.sections().features.get(table);
    let past = catalog.past.get(table).cloned().unwrap_or_default();
    match active.zip(section) {
        Some((active, section)) => Ok((active, past, section)),
        None => Err(Refusal::new(
            Code::NotFound,
            format!("no feature table {table:?} is served"),
        )),
    }
}

/// The version that the configuration has a start serve.
fn fixed(shared: &Shared, table: &str) -> Option<u64> {
    shared.config.features.get(table)?.version
}

#[cfg(test)]
mod tests;
