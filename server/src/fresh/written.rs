//! Rows of another node, written to this node's own overlay where it does not have them.
//!
//! It waits for the log. Its invariants: a page counts as written once the log has answered for all that was missing of it; and a
//! queue that is full costs time, no row.

use super::Following;
use super::peer::TakeError;
use millpond_engines_features::{
    Overlay, QueueError, Stamp, Table, Upsert, UpsertError, Upserted, stored_rows,
};
use millpond_wire_schema::features_fresh as fresh;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant, SystemTime};

/// Upserts that wait for this node's log at a time.
const WAITING_MAX: usize = 64;
/// Between two tries where the log's queue has no room: twice as long each time, up to a bound.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// What is not here of one upsert.
#[derive(Default)]
struct Missing {
    keys: Vec<u64>,
    rows: Vec<u8>,
    removed: Vec<u64>,
}

/// Writes what is not here of a page of the node `from`: how many rows and removals.
pub(super) fn write(
    following: &Following,
    from: &str,
    name: &str,
    page: &fresh::Answer<'_>,
) -> Result<u64, TakeError> {
    let catalog = following.shared.calls.state().map(|state| Arc::clone(&state));
    let Some(catalog) = catalog else {
        return Err(TakeError::Here("this server serves nothing yet".to_owned()));
    };
    let table = catalog.tables.get(name);
    let Some((table, overlay)) = table.and_then(|table| Some((table, table.overlay()?))) else {
        return Err(TakeError::Unfit(format!("table {name:?} takes no upserts here")));
    };
    let Some(rows) = stored_rows(table.schema(), &page.rows) else {
        let why = format!("table {name:?}: the rows of its page are not whole, or stored in another way");
        return Err(TakeError::Unfit(why));
    };
    let mut pending = missing(overlay, page, &rows);
    refuse_ahead(following, (name, from), &mut pending);
    let mut taken = 0;
    let (mut waiting_max, mut pause, mut moved) = (WAITING_MAX, PAUSE_MIN, Instant::now());
    while !pending.is_empty() {
        let batch = pending.split_off(pending.len().saturating_sub(waiting_max));
        let tried = batch.len();
        let full = hand_over((name, table, overlay), page.layout, batch, |rows| {
            taken += rows;
            following.nodes.fresh.took(rows);
        })?;
        let Some((why, again)) = full else {
            (waiting_max, pause) = ((waiting_max * 2).min(WAITING_MAX), PAUSE_MIN);
            continue;
        };
        let now = Instant::now();
        if again.len() < tried {
            moved = now;
        }
        pending.extend(again);
        // The node is asked again at least once a lease, so that it is known whether it is there.
        if now.saturating_duration_since(moved) >= following.lease || following.halt.within(pause) {
            return Err(TakeError::Here(format!("table {name:?}: {why}")));
        }
        (waiting_max, pause) = ((waiting_max / 2).max(1), (pause * 2).min(PAUSE_MAX));
    }
    Ok(taken)
}

/// Leaves out what has times that no clock has reached, as copies of such are refused: it would beat all upserts until then.
fn refuse_ahead(following: &Following, (name, from): (&str, &str), pending: &mut Vec<(Stamp, Missing)>) {
    let now = SystemTime::now();
    let (mut rows, mut newest_ms) = (0, 0);
    pending.retain(|(stamp, missing)| {
        let is_ahead = stamp.is_ahead(now);
        if is_ahead {
            rows += missing.all_keys().len() as u64;
            newest_ms = newest_ms.max(stamp.ms());
        }
        !is_ahead
    });
    if rows > 0 {
        tracing::error!(
            table = name,
            node = from,
            rows,
            newest_ms,
            "another node has rows with times that are ahead of this node's clock: they were not taken; set the clocks of both"
        );
        following.nodes.fresh.refused_ahead(rows);
    }
}

/// Upserts for which there was no room, with the log's words.
type Full = Option<(UpsertError, Vec<(Stamp, Missing)>)>;

/// Hands upserts to the log, and waits for what it says of each: `taken` hears how many rows and removals it has now, or newer ones.
fn hand_over(
    (name, table, overlay): (&str, &Arc<Table>, &Overlay),
    layout: u64,
    batch: Vec<(Stamp, Missing)>,
    mut taken: impl FnMut(u64),
) -> Result<Full, TakeError> {
    let (done, ended) = sync_channel::<(usize, Result<Upserted, UpsertError>)>(batch.len());
    for (at, (stamp, missing)) in batch.iter().enumerate() {
        let rows = missing.rows.clone();
        let upsert = Upsert::of_stored(table, layout, missing.all_keys(), rows, *stamp);
        let upsert = upsert.map_err(|error| TakeError::Unfit(error.to_string()))?;
        let done = done.clone();
        overlay.upsert(upsert, move |result| drop(done.try_send((at, result))));
    }
    drop(done);
    let mut batch: Vec<Option<(Stamp, Missing)>> = batch.into_iter().map(Some).collect();
    let (mut why, mut again) = (None, Vec::new());
    for (at, result) in ended {
        let Some((stamp, missing)) = batch.get_mut(at).and_then(Option::take) else {
            continue;
        };
        match result {
            Ok(_) => taken(missing.all_keys().len() as u64),
            Err(error) if has_no_room(&error) => {
                why = Some(error);
                again.push((stamp, missing));
            }
            Err(error) => return Err(TakeError::Here(format!("table {name:?}: {error}"))),
        }
    }
    if batch.iter().any(Option::is_some) {
        return Err(TakeError::Here(format!("table {name:?}: its log has ended")));
    }
    Ok(why.map(|why| (why, again)))
}

/// Whether a moment later the same may go.
fn has_no_room(error: &UpsertError) -> bool {
    use QueueError::{BytesFull, Full, Stands};
    matches!(
        error,
        UpsertError::Queue(Full { .. } | BytesFull { .. } | Stands { .. })
    )
}

impl Missing {
    /// First those with a row.
    fn all_keys(&self) -> Vec<u64> {
        [self.keys.as_slice(), &self.removed].concat()
    }
}

/// What this node lacks of a page, by stamp: one upsert each.
fn missing(overlay: &Overlay, page: &fresh::Answer<'_>, rows: &[&[u8]]) -> Vec<(Stamp, Missing)> {
    let mut of_stamps: BTreeMap<Stamp, Missing> = BTreeMap::new();
    let stamps = page.times.iter().zip(&page.origins);
    for ((at, key), (time, origin)) in page.keys.iter().enumerate().zip(stamps) {
        let stamp = Stamp {
            time: *time,
            origin: *origin,
        };
        if !stamp.is_some() || overlay.has(*key, stamp) {
            continue;
        }
        let missing = of_stamps.entry(stamp).or_default();
        match rows.get(at) {
            Some(row) => {
                missing.keys.push(*key);
                missing.rows.extend_from_slice(row);
            }
            None => missing.removed.push(*key),
        }
    }
    of_stamps.into_iter().collect()
}
