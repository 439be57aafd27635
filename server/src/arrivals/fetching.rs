//! Versions of a table that come from its source: when it is asked, and what is said and counted of it.
//!
//! `engines/features/fetch` does the rest. Its invariant: what a source does delays its table's new versions, and nothing else.

use crate::config::Config;
use crate::{Error, Member};
use millpond_catalog::SwitchCounts;
use millpond_engines_features::Section;

#[cfg(feature = "object-store")]
use std::time::Instant;

#[cfg(feature = "object-store")]
use millpond_engines_features_fetch::{Error as FetchError, Fetcher};

/// Versions of a source that a start finds refused before it gives up.
#[cfg(feature = "object-store")]
const REFUSED_MAX: usize = 64;
/// Looks of a start that fail for another reason before it does.
#[cfg(feature = "object-store")]
const FAILED_MAX: usize = 2;

/// Whether this build can ask what the configuration names.
pub(crate) fn check_built(config: &Config) -> Result<(), String> {
    let mut sources = config
        .features
        .iter()
        .filter(|(_, section)| section.source.is_some());
    match sources.next() {
        Some((name, _)) if cfg!(not(feature = "object-store")) => Err(format!(
            "features.{name}.source: this build asks no object store; build it with the feature object-store, which is on by default"
        )),
        _ => Ok(()),
    }
}

/// A table that has no version yet gets its first one from its source, before anything is opened: it could serve nothing. Of
/// several processes the first one opens before the others.
pub(crate) fn fetch_first(config: &Config, member: Option<&Member>) -> Result<(), Error> {
    if member.is_some_and(|member| member.number() != 0) {
        return Ok(());
    }
    for (table, section) in &config.features {
        let is_empty = millpond_engines_features::versions(&section.path).is_err();
        if let Some(mut fetching) = Fetching::of(table, section)?.filter(|_| is_empty) {
            fetching.first(table)?;
        }
    }
    Ok(())
}

/// A table whose source is asked.
#[cfg(feature = "object-store")]
pub(super) struct Fetching {
    table: String,
    fetcher: Fetcher,
    every: std::time::Duration,
    /// When it is asked next.
    next: Instant,
    /// What it failed with last, so that it is said once.
    problem: Option<String>,
}

#[cfg(feature = "object-store")]
impl Fetching {
    pub(super) fn of(table: &str, section: &Section) -> Result<Option<Fetching>, Error> {
        let Some(source) = &section.source else {
            return Ok(None);
        };
        let unfit = |error: FetchError| Error::Unfit(format!("features.{table}.source: {error}"));
        Ok(Some(Fetching {
            table: table.to_owned(),
            fetcher: Fetcher::new(table, source, &section.path).map_err(unfit)?,
            every: source.every(),
            next: Instant::now(),
            problem: None,
        }))
    }

    fn first(&mut self, table: &str) -> Result<(), Error> {
        let unfit = |problem: String| Error::Unfit(format!("features.{table}.source: {problem}"));
        let (mut first, mut failed) = (None, 0);
        for _ in 0..REFUSED_MAX {
            match self.fetcher.fetch(0, &[], &|| false) {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => break,
                // It is not fetched again as it is, or not before the others, and one below it may be right.
                Err(error) => {
                    let problem = error.to_string();
                    failed += usize::from(!matches!(error, FetchError::Refused { .. }));
                    if failed > FAILED_MAX {
                        return Err(unfit(first.unwrap_or(problem)));
                    }
                    tracing::warn!(
                        table,
                        problem,
                        "a version did not come; the one below it is tried"
                    );
                    first.get_or_insert(problem);
                }
            }
        }
        let none = "no whole version is there, and the table's folder has none; build one with `millpond features build` and copy it there";
        Err(unfit(first.unwrap_or_else(|| none.to_owned())))
    }

    /// Asks it where it is time, and fetches what is new above `highest`, but for versions that are there and cannot be served.
    pub(super) fn look(
        &mut self,
        (highest, unfit): (u64, &[u64]),
        counts: &SwitchCounts,
        is_stopped: &dyn Fn() -> bool,
    ) {
        use std::sync::atomic::Ordering::Relaxed;
        if Instant::now() < self.next {
            return;
        }
        let table = &self.table;
        match self.fetcher.fetch(highest, unfit, is_stopped) {
            Ok(fetched) => {
                if self.problem.take().is_some() {
                    tracing::info!(table, "the source answers again");
                }
                if let Some(fetched) = fetched {
                    counts.fetched.fetch_add(1, Relaxed);
                    counts.fetched_bytes.fetch_add(fetched.bytes, Relaxed);
                }
            }
            Err(FetchError::Stopped) => {}
            Err(error) => {
                counts.fetches_failed.fetch_add(1, Relaxed);
                let problem = error.to_string();
                if self.problem.as_ref() != Some(&problem) {
                    tracing::warn!(table, problem, "no new version was fetched; what serves goes on");
                }
                self.problem = Some(problem);
            }
        }
        self.next = Instant::now() + self.every;
    }
}

/// There is none in this build, and [`check_built`] has refused what names one.
#[cfg(not(feature = "object-store"))]
pub(super) struct Fetching(std::convert::Infallible);

#[cfg(not(feature = "object-store"))]
impl Fetching {
    pub(super) fn of(_: &str, _: &Section) -> Result<Option<Fetching>, Error> {
        Ok(None)
    }

    fn first(&mut self, _: &str) -> Result<(), Error> {
        match self.0 {}
    }

    pub(super) fn look(&mut self, _: (u64, &[u64]), _: &SwitchCounts, _: &dyn Fn() -> bool) {
        match self.0 {}
    }
}
