//! Lookups of more keys than one answer holds: as many calls as that takes, one behind the other, whose rows are joined.
//!
//! How many rows an answer holds is the server's to say: a part that it refuses as too large is halved. Its invariant: all rows are of
//! one version and in the order of the keys, or the lookup fails.

use crate::{CallError, Client, Code};
use millpond_wire_schema::features_lookup::{Asked, Call, Lookup, Merge, Missing, Part, Pool, Rows, Unfit};
use millpond_wire_schema::payload::{Encoder, Encoding, Payload};
use millpond_wire_schema::{FeaturesLookup, Field as _, Method as _};
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

/// The parts of a lookup that have come.
struct Joined {
    merge: Merge,
    missing: Vec<Missing<'static>>,
    /// Upserts up to this one are in all parts.
    overlay_sequence: Option<u64>,
    active: Option<u64>,
}

impl Client {
    /// `features.lookup` of one table with any number of keys: where the server refuses a call as too large, it is made again for half of the
    /// keys at a time, all of one version. A lookup that pools rows or asks for different ones (`unique`) goes as it is. Rows that are upserted
    /// meanwhile may be in later parts alone.
    ///
    /// # Errors
    /// As [`Client::call_raw`]; one row that is too large alone is [`Code::TooLarge`] still. With a deadline it is that of all parts
    /// together.
    pub async fn features_lookup_split(
        &self,
        lookup: &Lookup<'_>,
        deadline: Option<Duration>,
    ) -> Result<Rows<'static>, CallError> {
        if lookup.pool != Pool::None || lookup.unique {
            let mut rows = self.features_lookup(&Call::One(lookup.clone()), deadline).await?;
            return rows.pop().ok_or_else(|| {
                let nothing = io::Error::other("it has no rows");
                self.misread(FeaturesLookup::NAME, "the answer", &nothing)
            });
        }
        let started = Instant::now();
        let count = key_count(lookup);
        let mut joined = Joined {
            merge: Merge::new(count, lookup.row_type, usize::MAX),
            missing: Vec::new(),
            overlay_sequence: None,
            active: None,
        };
        let (mut at, mut most) = (0, count.max(1));
        loop {
            let part = at..count.min(at + most);
            let left = deadline.map(|deadline| deadline.saturating_sub(started.elapsed()));
            match self.look_up_part(lookup, part.clone(), &mut joined, left).await {
                Err(error) if is_too_large(&error) && part.len() > 1 => most = part.len().div_ceil(2),
                Err(error) => return Err(error),
                Ok(()) if part.end == count => break,
                Ok(()) => at = part.end,
            }
        }
        let Joined {
            merge,
            missing,
            overlay_sequence,
            active,
        } = joined;
        Ok(Rows {
            overlay_sequence,
            active,
            ..merge.into_rows(missing)
        })
    }

    /// Asks for some of the keys, of the version of those before.
    async fn look_up_part(
        &self,
        lookup: &Lookup<'_>,
        part: Range<usize>,
        joined: &mut Joined,
        deadline: Option<Duration>,
    ) -> Result<(), CallError> {
        let at_version = lookup.at_version.or(joined.merge.version());
        let asked = Lookup {
            keys: lookup
                .keys
                .as_ref()
                .map(|keys| keys.get(part.clone()).unwrap_or_default().to_vec()),
            texts: lookup
                .texts
                .as_ref()
                .map(|texts| texts.get(part.clone()).unwrap_or_default().to_vec()),
            at_version,
            ..lookup.clone()
        };
        let mut payload = Vec::new();
        Lookup::write(&asked, &mut Encoder::new(&mut payload, Encoding::Msgpack, false));
        let answer = self.call(FeaturesLookup::NAME, &payload, deadline).await?;
        let misread = |error: &dyn std::error::Error| self.misread(FeaturesLookup::NAME, "the answer", error);
        let answer = Payload::new(Encoding::Msgpack, &answer).map_err(|error| misread(&error))?;
        let (rows, _) = Rows::decode(&answer).map_err(|error| misread(&error))?;
        let came = Part::decode(&answer).map_err(|error| misread(&error))?;
        let positions: Vec<u32> = part.map(|at| at as u32).collect();
        let held = Asked {
            table: &lookup.table,
            positions: &positions,
            at_version,
            pooled: None,
            beside: 0,
        };
        joined.merge.check(&came, &held).map_err(|unfit| match unfit {
            Unfit::Node(error) => misread(&error),
            Unfit::Call(status) => CallError::Status(status),
        })?;
        joined
            .merge
            .place(&came, &positions)
            .map_err(|error| misread(&error))?;
        let is_first = positions.first() == Some(&0);
        joined.overlay_sequence = match (is_first, joined.overlay_sequence, rows.overlay_sequence) {
            (false, Some(before), Some(now)) => Some(before.min(now)),
            (_, _, now) => now,
        };
        joined.active = rows.active;
        joined.missing.extend(rows.missing);
        Ok(())
    }
}

fn key_count(lookup: &Lookup<'_>) -> usize {
    let keys = lookup.keys.as_ref().map(Vec::len);
    let texts = lookup.texts.as_ref().map(Vec::len);
    keys.or(texts).unwrap_or_default()
}

/// Whether fewer keys could be answered: the call is no frame, or its answer would not be.
fn is_too_large(error: &CallError) -> bool {
    match error {
        CallError::Status(status) => status.code == Code::TooLarge,
        CallError::Unsendable { .. } => true,
        _ => false,
    }
}
