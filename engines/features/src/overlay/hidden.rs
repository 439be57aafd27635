//! Upserts that a version does not show, because they were folded into another version and have left the overlay; and those that a
//! version alone has.
//!
//! It changes nothing. Invariant: what a version's sources are to have, because it was built whole after the fold, counts as shown.

use std::fmt;
use std::iter;
use std::path::Path;

use super::{Folded, Overlay};
use crate::error::Error;
use crate::manifest::Manifest;
use crate::table::open::{Origin, chain, origin};
use crate::table::{LAYERS_MAX, Table};
use crate::versions::{version_dir, versions};

/// What a version hides, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hidden {
    /// The version that does not show it.
    pub version: u64,
    /// Up to where that version has the log.
    pub shown: Folded,
    /// Up to where the log has been folded and given up.
    pub folded: Folded,
    /// A version that has all of it.
    pub within: u64,
    /// Whether the log was asked what it gave up. Where it was not, it may still have what no server has served as a version.
    pub is_certain: bool,
}

impl Hidden {
    /// The sequences that are hidden, both ends among them; empty where only upserts over nodes are, which go by their time. The log
    /// counts records of its own too.
    pub fn sequences(&self) -> std::ops::RangeInclusive<u64> {
        self.shown.sequence.saturating_add(1)..=self.folded.sequence
    }
}

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hidden { version, within, .. } = self;
        write!(f, "version {version} hides ")?;
        write!(f, "{}", Upserts(self.shown, self.folded))?;
        write!(f, ": they were folded into version {within}, and ")?;
        match self.is_certain {
            true => write!(f, "are not in the overlay any more")?,
            false => write!(
                f,
                "if a server served version {within} meanwhile, the overlay does not have them any more"
            )?,
        }
        write!(
            f,
            "; to have them back activate version {within}, or upsert them again"
        )
    }
}

/// The upserts that the second has and the first has not, as they are named.
struct Upserts(Folded, Folded);

impl fmt::Display for Upserts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Upserts(kept, Folded { before_ms, .. }) = self;
        if *before_ms > kept.before_ms {
            write!(
                f,
                "the upserts over nodes that were made before {before_ms} ms of Unix time"
            )?;
            if kept.before_ms > 0 {
                write!(f, " and not before {}", kept.before_ms)?;
            }
            return Ok(());
        }
        let (first, last) = (kept.sequence.saturating_add(1), self.1.sequence);
        match last.saturating_sub(first).saturating_add(1) {
            1 => write!(f, "the upserts of sequence {first} of the log"),
            count => write!(
                f,
                "the upserts of {count} sequences of the log ({first} to {last})"
            ),
        }
    }
}

/// Folded upserts that no version has but one, so that they go with it when it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// The version that has them.
    pub version: u64,
    /// Up to where another version has the log.
    pub kept: Folded,
    /// Up to where the log has been folded and given up.
    pub folded: Folded,
    /// Whether the log was asked what it gave up, as of [`Hidden`].
    pub is_certain: bool,
}

impl Lost {
    /// What is to be said once the version is deleted.
    pub fn deleted(&self) -> String {
        let (version, upserts) = (self.version, Upserts(self.kept, self.folded));
        format!(
            "version {version} was the only one that had {upserts}{}: upsert those again that are needed",
            self.gone()
        )
    }

    fn gone(&self) -> String {
        match self.is_certain {
            true => ", which are not in the overlay any more".to_owned(),
            false => format!(
                ", and if a server served version {} meanwhile, the overlay does not have them any more",
                self.version
            ),
        }
    }
}

/// Before it is deleted.
impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, upserts) = (self.version, Upserts(self.kept, self.folded));
        write!(
            f,
            "version {version} is the only one that has {upserts}{}",
            self.gone()
        )
    }
}

/// What of the folded upserts would be in neither a version nor the log if a version were deleted, if anything; the other arguments
/// are as of [`hidden_by`]. Nothing is lost where a version was built whole later, because its sources are to have them. A version
/// that cannot be read counts as having none.
pub fn lost_without(
    table_dir: &Path,
    version: u64,
    overlay: Option<&Overlay>,
    served_max: u64,
) -> Option<Lost> {
    let has = folded_of(table_dir, version)?;
    let (folded, is_certain) = given_up(version, has, overlay, served_max)?;
    let mut kept = Folded::default();
    for other in versions(table_dir).ok()? {
        let read = chain(&version_dir(table_dir, other)).ok();
        let Some((top, bases)) = read.filter(|_| other != version) else {
            continue;
        };
        let of = origin(&top, &bases);
        if of.oldest_base > version {
            return None;
        }
        if let Some(found) = of.folded.filter(|found| found.history == has.history)
            && found.covers(kept)
        {
            kept = found;
        }
    }
    (!kept.covers(folded)).then_some(Lost {
        version,
        kept,
        folded,
        is_certain,
    })
}

/// What of a fold its log has given up, as far as is known, and whether the log was asked: where no overlay of its history is here, a
/// fold counts as given up once its version may have served.
fn given_up(version: u64, has: Folded, overlay: Option<&Overlay>, served_max: u64) -> Option<(Folded, bool)> {
    let forgotten = overlay.map(Overlay::forgotten);
    match forgotten.filter(|forgotten| forgotten.history == has.history) {
        Some(forgotten) => Some((has.shared_with(forgotten), true)),
        None => (version <= served_max).then_some((has, false)),
    }
}

/// What a version of a table does not show of the upserts that were folded into others, if anything. `overlay` is the one that lies over
/// it. Where there is none, a fold counts as taken out of its log where its version is no higher than `served_max`, the highest that
/// ever served.
pub fn hidden_by(table: &Table, overlay: Option<&Overlay>, served_max: u64) -> Option<Hidden> {
    let shown = Shown {
        chain: table.chain(),
        origin: Origin {
            folded: table.folded(),
            oldest_base: table.oldest_base(),
        },
    };
    hidden(table.path().parent()?, &shown, overlay, served_max)
}

/// The same of a version on the disk, of which the manifests alone are read, where no overlay lies over it.
///
/// # Errors
/// A manifest of the version, or of one that it stands on, that is not there or cannot be read.
pub fn hidden_by_version(table_dir: &Path, version: u64, served_max: u64) -> Result<Option<Hidden>, Error> {
    let (top, bases) = chain(&version_dir(table_dir, version))?;
    let shown = Shown {
        origin: origin(&top, &bases),
        chain: iter::once(&top)
            .chain(&bases)
            .map(|layer| layer.manifest.version)
            .collect(),
    };
    Ok(hidden(table_dir, &shown, None, served_max))
}

/// What a version has.
struct Shown {
    /// Its own version first.
    chain: Vec<u64>,
    origin: Origin,
}

fn hidden(table_dir: &Path, of: &Shown, overlay: Option<&Overlay>, served_max: u64) -> Option<Hidden> {
    let Shown { chain, origin } = of;
    let version = chain.first().copied()?;
    // The sources of a version that was built whole later are to have what was folded before.
    let later = versions(table_dir).ok()?.into_iter();
    let later = later.filter(|of| *of > origin.oldest_base);
    let folds: Vec<(u64, Folded)> = later
        .filter(|of| !chain.contains(of))
        .filter_map(|of| Some((of, folded_of(table_dir, of)?)))
        .collect();
    let hidden = |&(within, has): &(u64, Folded)| {
        let shown = origin.folded.filter(|shown| shown.history == has.history);
        let shown = shown.unwrap_or_default();
        let (folded, is_certain) = given_up(within, has, overlay, served_max)?;
        (!shown.covers(folded)).then_some(Hidden {
            version,
            shown,
            folded,
            within,
            is_certain,
        })
    };
    // Of versions that have the same, one that served.
    let all = folds.iter().filter_map(hidden);
    all.max_by_key(|found| {
        let has_served = found.within <= served_max;
        (
            found.folded.sequence,
            found.folded.before_ms,
            has_served,
            found.within,
        )
    })
}

/// The highest version of a table that has as much of a log.
pub(super) fn version_with(table_dir: &Path, wanted: Folded) -> Option<u64> {
    let has_it = |version: &u64| {
        let folded = folded_of(table_dir, *version);
        folded.is_some_and(|folded| folded.history == wanted.history && folded.covers(wanted))
    };
    versions(table_dir).ok()?.into_iter().rev().find(has_it)
}

/// Up to where a version has a log, as its manifest says it, or that of a version it stands on.
fn folded_of(table_dir: &Path, version: u64) -> Option<Folded> {
    let mut at = version;
    for _ in 0..LAYERS_MAX {
        let (manifest, _) = Manifest::read(&version_dir(table_dir, at)).ok()?;
        if let Some(folded) = manifest.folded() {
            return Some(folded);
        }
        at = manifest.base.map(|base| base.version)?;
    }
    None
}
