//! The catalog that serves, behind one atomic pointer, and every way to change it.
//!
//! It decides no change. Its invariant: a change either serves whole and warm, or leaves everything as it was; no call waits for
//! one, and none is refused by one.

use crate::versions;
use crate::{Catalog, Error, ModelSection, Resources, Sections, Serving};
use arc_swap::{ArcSwap, Guard};
use millpond_engines_features::{Folded, Overlay, Table};
use millpond_threads::ends_by;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A catalog that a call holds. It is meant for one turn of a thread: what outlives that holds its own pipeline or model.
pub type Pinned = Guard<Arc<Catalog>>;

/// The catalog that serves.
pub struct Handle {
    current: Arc<ArcSwap<Catalog>>,
    /// What served before the last change, for a way back. It is held while a change goes on, so that there is one at a time.
    before: Mutex<Option<Sections>>,
    resources: Resources,
}

impl Handle {
    /// Opens what the sections describe, and reads every byte of the tables.
    ///
    /// # Errors
    /// The first thing that cannot be opened, or does not fit another.
    pub fn open(sections: Sections, resources: Resources) -> Result<Handle, Error> {
        Handle::open_serving(sections, &BTreeMap::new(), resources)
    }

    /// Like [`Handle::open`], with tables that serve what they serve elsewhere: neither `ACTIVE` nor the highest version there
    /// is decides about those.
    ///
    /// # Errors
    /// As [`Handle::open`].
    pub fn open_serving(
        mut sections: Sections,
        serving: &BTreeMap<String, Serving>,
        resources: Resources,
    ) -> Result<Handle, Error> {
        for (name, section) in &mut sections.features {
            if let Some(serving) = serving.get(name) {
                section.version = Some(serving.version);
            }
        }
        let mut catalog = Catalog::open(sections, &Catalog::default(), None, &resources)?;
        for (name, past) in &mut catalog.past {
            if let Some(serving) = serving.get(name) {
                past.before = serving.before;
                past.highest = past.highest.max(serving.highest);
            }
        }
        // Of upserts over nodes a start took nothing out yet, as versions that are held may have less of them.
        for (name, table) in &catalog.tables {
            forget_folded(&catalog, name, table);
            warn_of_hidden(&catalog, name);
        }
        Ok(Handle {
            current: Arc::new(ArcSwap::from_pointee(catalog)),
            before: Mutex::new(None),
            resources,
        })
    }

    /// Runs every model at its warm-up sizes.
    ///
    /// # Errors
    /// A model that fails, or a table that was damaged meanwhile.
    pub fn warm(&self) -> Result<(), Error> {
        self.pin().warm(&Catalog::default())
    }

    /// The catalog that serves now, as long as the caller holds it. Costs a few nanoseconds.
    #[inline]
    pub fn pin(&self) -> Pinned {
        self.current.load()
    }

    /// The pointer to the catalog that serves, for those who load it once for several calls.
    pub fn current(&self) -> Arc<ArcSwap<Catalog>> {
        Arc::clone(&self.current)
    }

    /// Serves another version of a table; pipelines that read it follow.
    ///
    /// # Errors
    /// As [`Handle::change`].
    pub fn activate(&self, table: &str, version: u64) -> Result<(), Error> {
        self.prepare_version(table, version)?.commit(|_| ());
        Ok(())
    }

    /// Opens another version of a table beside the one that serves, and warms what reads it; [`Prepared::commit`] switches.
    ///
    /// # Errors
    /// As [`Handle::change`].
    pub fn prepare_version(&self, table: &str, version: u64) -> Result<Prepared<'_>, Error> {
        let before = self.lock();
        versions::check_is_of_folder(&self.pin(), table, version)?;
        let mut sections = self.pin().sections().clone();
        match sections.features.get_mut(table) {
            Some(section) => section.version = Some(version),
            None => return Err(not_served("features", table)),
        }
        self.prepare(before, sections, None)
    }

    /// Serves a model under that name, in the place of the one that it may have now. It is loaded whatever serves: its file may
    /// be another one by now.
    ///
    /// # Errors
    /// As [`Handle::change`].
    pub fn load_model(&self, name: &str, section: ModelSection) -> Result<(), Error> {
        let before = self.lock();
        let mut sections = self.pin().sections().clone();
        sections.models.insert(name.to_owned(), section);
        self.serve(before, sections, Some(name))
    }

    /// Takes a model away. It has answered the calls that hold it when this returns.
    ///
    /// # Errors
    /// As [`Handle::change`]; also while a pipeline runs it.
    pub fn unload_model(&self, name: &str) -> Result<(), Error> {
        self.change(|sections| match sections.models.remove(name) {
            Some(_) => Ok(()),
            None => Err(not_served("models", name)),
        })
    }

    /// Serves what served before the last change; a second time undoes the first. A store that was added stays.
    ///
    /// # Errors
    /// As [`Handle::change`]; also when nothing was changed.
    pub fn roll_back(&self) -> Result<(), Error> {
        let before = self.lock();
        let Some(mut sections) = before.clone() else {
            return Err(Error::Unfit(
                "nothing was changed, so there is nothing to roll back".into(),
            ));
        };
        // Stores stay as they were opened; one that was added changes no default.
        sections.default_store = sections.store_default().map(str::to_owned);
        sections.ordered = self.pin().sections().ordered.clone();
        self.serve(before, sections, None)
    }

    /// Serves what `edit` makes of the sections: builds the next catalog beside the one that serves, sharing what did not change,
    /// warms it, and swaps. It waits for the calls that hold what was taken away, as long as [`Resources::drain`] allows, so it
    /// is not for a thread that serves calls.
    ///
    /// # Errors
    /// What `edit` says, a section that does not fit, or what cannot be opened; then nothing has changed.
    pub fn change(&self, edit: impl FnOnce(&mut Sections) -> Result<(), Error>) -> Result<(), Error> {
        let before = self.lock();
        let mut sections = self.pin().sections().clone();
        edit(&mut sections)?;
        self.serve(before, sections, None)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Sections>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves these sections; the model `anew` is loaded even if its section is what it was.
    fn serve(
        &self,
        before: MutexGuard<'_, Option<Sections>>,
        sections: Sections,
        anew: Option<&str>,
    ) -> Result<(), Error> {
        self.prepare(before, sections, anew)?.commit(|_| ());
        Ok(())
    }

    fn prepare<'h>(
        &'h self,
        before: MutexGuard<'h, Option<Sections>>,
        sections: Sections,
        anew: Option<&str>,
    ) -> Result<Prepared<'h>, Error> {
        sections.check().map_err(|problem| Error::Unfit(problem.text))?;
        let current = self.pin();
        let next = Catalog::open(sections, &current, anew, &self.resources)?;
        next.warm(&current)?;
        Ok(Prepared {
            handle: self,
            before,
            next: Box::new(next),
            is_lasting: true,
        })
    }
}

/// The next catalog, open and warm beside the one that serves. No other change begins while it is there; dropped, it leaves
/// everything as it was.
pub struct Prepared<'h> {
    handle: &'h Handle,
    before: MutexGuard<'h, Option<Sections>>,
    next: Box<Catalog>,
    is_lasting: bool,
}

impl Prepared<'_> {
    /// Says which version a way back of the table leads to, where that is known better than by what this handle served.
    #[must_use]
    pub fn with_before(mut self, table: &str, before: Option<u64>) -> Self {
        if let Some(past) = self.next.past.get_mut(table) {
            past.before = before;
        }
        self
    }

    /// Says what is known elsewhere of the highest version of the table that ever served.
    #[must_use]
    pub fn with_highest(mut self, table: &str, highest: u64) -> Self {
        if let Some(past) = self.next.past.get_mut(table) {
            past.highest = past.highest.max(highest);
        }
        self
    }

    /// Says whether a restart serves what serves then. Where it does not, overlays keep what was folded: a start over another
    /// version has it from their logs alone.
    #[must_use]
    pub fn with_lasting(mut self, is_lasting: bool) -> Self {
        self.is_lasting = is_lasting;
        self
    }

    /// Serves it. `on_switch` is called at once; then this waits for the calls that hold what was taken away, as long as
    /// [`Resources::drain`] allows.
    pub fn commit(self, on_switch: impl FnOnce(&Catalog)) {
        let Prepared {
            handle,
            mut before,
            next,
            is_lasting,
        } = self;
        let next = Arc::<Catalog>::from(next);
        let old = handle.current.swap(Arc::clone(&next));
        *before = Some(old.sections().clone());
        on_switch(&next);
        // It reads manifests, for which nobody waits.
        for (name, table) in &next.tables {
            if old.tables.get(name).is_none_or(|old| !Arc::ptr_eq(old, table)) {
                warn_of_hidden(&next, name);
            }
        }
        let until = Instant::now() + handle.resources.drain;
        retire(&old, &next, is_lasting, until);
    }
}

/// Waits until nobody can call what serves no more, neither through the old catalog nor from a pipeline of it that still runs for
/// a call, and ends its models. What goes with the old catalog, as a table's mapping, then goes on this thread.
fn retire(old: &Arc<Catalog>, next: &Catalog, is_lasting: bool, until: Instant) {
    let mut has_ended = ends_by(until, || Arc::strong_count(old) == 1);
    for pipeline in old.pipelines.values() {
        has_ended &= ends_by(until, || Arc::strong_count(pipeline) == 1);
    }
    forget_all_folded(next, is_lasting, has_ended);
    for threads in old.stage_threads().filter(|threads| !threads.stop_by(until)) {
        let stage = threads.name();
        tracing::warn!(
            stage,
            "a run of the stage has not ended; its thread is left to it"
        );
    }
    for (name, model) in old.models_beside(next) {
        match model.batcher.stop_by(until) {
            true => tracing::info!(model = name, version = model.version, "model unloaded"),
            false => tracing::warn!(
                model = name,
                "a run of the model has not ended; its thread is left to it"
            ),
        }
    }
}

/// Takes out of overlays what the version that serves now has folded, where nobody reads the version before any more and a restart
/// serves it too.
fn forget_all_folded(next: &Catalog, is_lasting: bool, has_ended: bool) {
    for (name, table) in &next.tables {
        match (is_lasting, has_ended) {
            _ if to_forget(next, name, table).is_none() => {}
            (true, true) => forget_folded(next, name, table),
            (false, _) => tracing::warn!(
                table = name,
                "a restart serves another version; what was folded stays in memory and in the log"
            ),
            // A call that has not ended may still read it over the version before; the next switch takes it out, or a restart.
            (true, false) => tracing::warn!(
                table = name,
                "calls on the version before have not ended; what was folded stays in memory"
            ),
        }
    }
}

/// Says which upserts a version does not show that begins to serve.
fn warn_of_hidden(catalog: &Catalog, name: &str) {
    if let Some(hidden) = catalog.hidden(name) {
        tracing::warn!(table = name, "{hidden}");
    }
}

/// What is to go of a table's overlay, if anything is.
fn to_forget(next: &Catalog, name: &str, table: &Table) -> Option<Folded> {
    let overlay = table.overlay()?;
    let folded = folded_everywhere(next, name, overlay).unwrap_or(overlay.folded_in(table));
    let forgotten = overlay.forgotten();
    (folded != forgotten && folded.covers(forgotten)).then_some(folded)
}

fn forget_folded(next: &Catalog, name: &str, table: &Table) {
    let (Some(overlay), Some(folded)) = (table.overlay(), to_forget(next, name, table)) else {
        return;
    };
    match overlay.forget(folded) {
        Ok(()) => tracing::info!(
            table = name,
            sequence = folded.sequence,
            before_ms = folded.before_ms,
            entries = overlay.len(),
            "overlay folded"
        ),
        Err(error) => tracing::warn!(table = name, %error, "what was folded stays in the overlay"),
    }
}

/// Of a table that is on several servers: up to where all of its versions that are open have what was upserted. Calls over nodes ask
/// for the version that all nodes serve, which may be one that is only held here.
fn folded_everywhere(next: &Catalog, name: &str, overlay: &Overlay) -> Option<Folded> {
    let section = next.sections().features.get(name)?;
    let versions = next.versions(name).filter(|_| section.spread);
    let folded = versions.map(|table| overlay.folded_in(table));
    folded.reduce(Folded::shared_with)
}

fn not_served(section: &str, name: &str) -> Error {
    Error::Unfit(format!("{section}.{name}: nothing of that name is served"))
}
