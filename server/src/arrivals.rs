//! New versions of feature tables: found in the folders that `watch` names, and served.
//!
//! A thread for each watched table, which may wait for its disk and for a switch; of several processes the first one has
//! them. It makes no switch itself: `switch::arrive` does, in all processes or none. Its invariants: a version up to the
//! highest that served is never taken, so that nothing undoes a rollback; and one that was refused is tried again only when
//! its files have changed.

mod fetching;
mod files;
mod seeing;

pub(crate) use fetching::{check_built, fetch_first};

use crate::{Error, Shared, switch};
use fetching::Fetching;
use files::Files;
use millpond_catalog::{Handle, SwitchCounts};
use millpond_engines_features as features;
use millpond_threads::join_by;
use seeing::{Found, Seeing};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a stop waits for a thread that may be opening a version: it touches nothing once the server stops.
const STOP_WAIT: Duration = Duration::from_millis(50);

/// The threads that look for new versions.
#[derive(Default)]
pub(crate) struct Arrivals {
    threads: Vec<(SyncSender<()>, JoinHandle<()>)>,
}

impl Arrivals {
    /// Begins to look, where the configuration says so and no other process does.
    pub(crate) fn start(shared: &Arc<Shared>, engines: &Arc<Handle>) -> Result<Arrivals, Error> {
        let mut arrivals = Arrivals::default();
        let member = shared.program.member.as_ref();
        if member.is_some_and(|member| member.number() != 0) {
            return Ok(arrivals);
        }
        for (table, section) in &shared.config.features {
            let Some(every) = section.watched_every() else {
                continue;
            };
            let watched = Watched {
                shared: Arc::clone(shared),
                engines: Arc::clone(engines),
                table: table.clone(),
                folder: section.path.clone(),
                fetching: Fetching::of(table, section)?,
                seeing: Seeing::default(),
                unreadable: None,
            };
            let (stop, stopped) = sync_channel(1);
            let thread = std::thread::Builder::new()
                .name("arrivals".into())
                .spawn(move || watched.look_every(every, &stopped))
                .map_err(|source| millpond_net::Error::Thread {
                    what: format!("the thread that watches the folder of features.{table}"),
                    source,
                })?;
            tracing::info!(
                table,
                every_ms = every.as_millis() as u64,
                "new versions are served"
            );
            arrivals.threads.push((stop, thread));
        }
        Ok(arrivals)
    }

    /// Ends them. One that opens a version is left to it: nothing is served any more once the server stops.
    pub(crate) fn stop(self) {
        let until = Instant::now() + STOP_WAIT;
        let (stops, threads): (Vec<_>, Vec<_>) = self.threads.into_iter().unzip();
        drop(stops);
        for thread in threads {
            let _ = join_by(thread, until);
        }
    }
}

/// A table whose folder is watched.
struct Watched {
    shared: Arc<Shared>,
    engines: Arc<Handle>,
    table: String,
    folder: PathBuf,
    /// Where else versions come from, if anywhere.
    fetching: Option<Fetching>,
    seeing: Seeing,
    /// What kept the folder from being read last, so that it is said once.
    unreadable: Option<String>,
}

/// However the thread ends, that is seen.
struct Watching<'w>(&'w AtomicBool);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

impl Watched {
    fn look_every(mut self, every: Duration, stopped: &Receiver<()>) {
        let shared = Arc::clone(&self.shared);
        let _watching = Watching(&shared.switching.has_watcher_died);
        while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
            if shared.calls.is_stopping() {
                return;
            }
            self.look();
        }
    }

    /// One look at the folder, and one switch at most.
    fn look(&mut self) {
        let catalog = self.engines.pin();
        let past = catalog.past.get(&self.table);
        let highest = past.map_or(0, |past| past.highest);
        let counts = past.map(|past| Arc::clone(&past.counts)).unwrap_or_default();
        drop(catalog);
        if let Some(fetching) = &mut self.fetching {
            let (shared, unfit) = (&self.shared, self.seeing.refused());
            fetching.look((highest, &unfit), &counts, &|| shared.calls.is_stopping());
        }
        let found = self.found(highest);
        if let Some(next) = self.seeing.look(found) {
            self.serve(next, &counts);
        }
    }

    /// The versions above `highest` whose manifest is there: one without is being copied.
    fn found(&mut self, highest: u64) -> Vec<Found> {
        let versions = match features::versions(&self.folder) {
            Ok(versions) => versions,
            Err(error) => {
                let problem = error.to_string();
                if self.unreadable.as_ref() != Some(&problem) {
                    let table = &self.table;
                    tracing::warn!(table, problem, "no new version can be found; what serves goes on");
                }
                self.unreadable = Some(problem);
                return Vec::new();
            }
        };
        self.unreadable = None;
        let newer = versions.into_iter().filter(|version| *version > highest);
        let found = newer.filter_map(|version| {
            let files = Files::of_chain(&self.folder, version).ok().flatten()?;
            Some(Found { version, files })
        });
        found.collect()
    }

    fn serve(&mut self, next: Found, counts: &SwitchCounts) {
        let (table, version, began) = (&self.table, next.version, Instant::now());
        let bytes = next.files.bytes;
        tracing::info!(table, version, bytes, "a new version was found");
        match switch::arrive(&self.shared, &self.engines, table, version) {
            Ok(why_not) => {
                counts.arrived.fetch_add(1, Ordering::Relaxed);
                let ms = began.elapsed().as_millis() as u64;
                match why_not {
                    None => tracing::info!(table, version, ms, "the new version serves"),
                    Some(why_not) => {
                        tracing::warn!(
                            table,
                            version,
                            ms,
                            why_not,
                            "the new version serves, and a restart will not serve it"
                        );
                    }
                }
            }
            // The next look tries again.
            Err(refusal) if refusal.is_passing => {
                let reason = refusal.ex;
                tracing::info!(table, version, reason, "the new version has to wait");
            }
            Err(refusal) => {
                counts.arrivals_refused.fetch_add(1, Ordering::Relaxed);
                let problem = refusal.ex;
                tracing::warn!(
                    table,
                    version,
                    problem,
                    "the new version is refused, and not tried again before its files change; what serves goes on"
                );
                self.seeing.refuse(next);
            }
        }
    }
}
