//! What the overlay's log holds, as docs/formats/overlay-log.md draws it.
//!
//! Not the frame around it: that is the log's. Invariant: what encodes decodes to the same, and no input makes decoding panic or
//! allocate.

use millpond_wal::{Body, Fault, Format};
use xxhash_rust::xxh3::xxh3_64;

use super::folded::Settled;
use super::stamp::Stamp;
use super::stored::{self, StoredRows, VARYING};
use crate::schema::Schema;

const KIND_UPSERT: u8 = 1;
const KIND_FOLDED: u8 = 2;
const KIND_EXPIRED: u8 = 3;
const KIND_STAMPED: u8 = 4;
const KIND_VARYING: u8 = 5;
const KIND_KEPT: u8 = 6;
const KIND_SETTLED: u8 = 7;
const KIND_FOLDED_BEFORE: u8 = 8;
/// Before what is kept.
const KEPT_HEADER_BYTES: usize = 20;
const UPSERT_HEADER_BYTES: usize = 28;
const MARK_BYTES: usize = 16;
/// Of a mark that says two things.
const LONG_MARK_BYTES: usize = 24;
const KEY_BYTES: usize = 8;

/// The most bytes that one upsert's keys and rows may have, as they are stored.
pub const UPSERT_BYTES_MAX: usize = 16 << 20;

/// The overlay's log, format 1. Its number is the log's history: drawn when it began, and the same in every segment.
pub(crate) static FORMAT: Format = Format {
    keeper: "overlay",
    magic: b"MPFO",
    history_from: None,
    version: 1,
    body_bytes_min: MARK_BYTES,
    body_bytes_max: KEPT_HEADER_BYTES + UPSERT_BYTES_MAX + UPSERT_HEADER_BYTES + Stamp::BYTES,
    kinds: &[
        KIND_UPSERT,
        KIND_FOLDED,
        KIND_EXPIRED,
        KIND_STAMPED,
        KIND_VARYING,
        KIND_KEPT,
        KIND_SETTLED,
        KIND_FOLDED_BEFORE,
    ],
    check: |kind, body| decode(kind, body).map(drop),
    number: "history",
    first_number: 0,
    may_begin_late: true,
};

/// A record that is read, or about to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogRecord<'a> {
    /// Rows and removals, in this order.
    Upsert {
        time_ms: u64,
        /// Of an upsert that went to several servers.
        stamp: Stamp,
        /// [`layout_of`] the table.
        layout: u64,
        /// [`VARYING`] where rows vary in length.
        row_bytes: u32,
        /// Little-endian: those of the rows, then those that are removed.
        keys: &'a [u8],
        /// As stored, one behind the other ([`StoredRows`]).
        rows: &'a [u8],
    },
    /// All up to this sequence is in a version that serves, but for upserts over nodes that were made at this time or later.
    Folded {
        time_ms: u64,
        sequence: u64,
        before_ms: u64,
    },
    /// What is here and in the other replicas of the upserts over nodes.
    Settled { time_ms: u64, settled: Settled },
    /// All that was written at this time or before is too old.
    Expired { time_ms: u64, written_ms: u64 },
    /// What is still in force of an upsert whose record is about to be given up.
    Kept {
        /// The upsert's own.
        sequence: u64,
        /// Of the record that it was copied from: all up to there was copied as far as it was in force.
        copied: u64,
        kind: u8,
        /// Of that kind.
        body: &'a [u8],
    },
}

/// One that is written.
pub(crate) struct Written<'a> {
    pub said: LogRecord<'a>,
    pub history: u64,
}

impl Body for Written<'_> {
    fn kind(&self) -> u8 {
        match self.said {
            _ if self.has_varying_rows() => KIND_VARYING,
            LogRecord::Upsert { stamp, .. } if stamp.is_some() => KIND_STAMPED,
            LogRecord::Upsert { .. } => KIND_UPSERT,
            LogRecord::Folded { before_ms: 0, .. } => KIND_FOLDED,
            LogRecord::Folded { .. } => KIND_FOLDED_BEFORE,
            LogRecord::Settled { .. } => KIND_SETTLED,
            LogRecord::Expired { .. } => KIND_EXPIRED,
            LogRecord::Kept { .. } => KIND_KEPT,
        }
    }

    fn number(&self) -> u64 {
        self.history
    }

    fn bytes(&self) -> usize {
        match self.said {
            LogRecord::Upsert {
                stamp, keys, rows, ..
            } => {
                let stamp_bytes = if stamp.is_some() || self.has_varying_rows() {
                    Stamp::BYTES
                } else {
                    0
                };
                UPSERT_HEADER_BYTES + stamp_bytes + keys.len() + rows.len()
            }
            LogRecord::Kept { body, .. } => KEPT_HEADER_BYTES + body.len(),
            LogRecord::Folded { before_ms: 0, .. } | LogRecord::Expired { .. } => MARK_BYTES,
            LogRecord::Folded { .. } | LogRecord::Settled { .. } => LONG_MARK_BYTES,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self.said {
            LogRecord::Upsert {
                time_ms,
                stamp,
                layout,
                row_bytes,
                keys,
                rows,
            } => {
                out.extend_from_slice(&time_ms.to_le_bytes());
                out.extend_from_slice(&layout.to_le_bytes());
                let row_count = StoredRows::new(row_bytes as usize, rows).count();
                let row_bytes = match self.has_varying_rows() {
                    true => rows.len() as u32,
                    false => row_bytes,
                };
                out.extend_from_slice(&row_bytes.to_le_bytes());
                out.extend_from_slice(&(row_count as u64).to_le_bytes());
                if stamp.is_some() || self.has_varying_rows() {
                    out.extend_from_slice(&stamp.time.to_le_bytes());
                    out.extend_from_slice(&stamp.origin.to_le_bytes());
                }
                out.extend_from_slice(keys);
                out.extend_from_slice(rows);
            }
            LogRecord::Folded {
                time_ms,
                sequence,
                before_ms: 0,
            } => push_all(&[time_ms, sequence], out),
            LogRecord::Folded {
                time_ms,
                sequence,
                before_ms,
            } => push_all(&[time_ms, sequence, before_ms], out),
            LogRecord::Expired { time_ms, written_ms } => push_all(&[time_ms, written_ms], out),
            LogRecord::Settled { time_ms, settled } => {
                push_all(&[time_ms, settled.whole_ms, settled.foldable_ms], out);
            }
            LogRecord::Kept {
                sequence,
                copied,
                kind,
                body,
            } => {
                out.extend_from_slice(&sequence.to_le_bytes());
                out.extend_from_slice(&copied.to_le_bytes());
                out.extend_from_slice(&u32::from(kind).to_le_bytes());
                out.extend_from_slice(body);
            }
        }
    }
}

fn push_all(numbers: &[u64], out: &mut Vec<u8>) {
    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

impl Written<'_> {
    /// Removals alone are those of any table.
    fn has_varying_rows(&self) -> bool {
        matches!(self.said, LogRecord::Upsert { row_bytes, rows, .. } if row_bytes as usize == VARYING && !rows.is_empty())
    }
}

impl<'a> LogRecord<'a> {
    pub(crate) fn time_ms(&self) -> u64 {
        match *self {
            LogRecord::Upsert { time_ms, .. }
            | LogRecord::Folded { time_ms, .. }
            | LogRecord::Settled { time_ms, .. }
            | LogRecord::Expired { time_ms, .. } => time_ms,
            LogRecord::Kept { kind, body, .. } => decode(kind, body).map_or(0, |said| said.time_ms()),
        }
    }

    /// When its rows were written. A row that several servers have is as old on each of them: its stamp says how old.
    pub(crate) fn written_ms(&self) -> u64 {
        match *self {
            LogRecord::Upsert { time_ms, stamp, .. } if stamp.is_some() => time_ms.min(stamp.ms()),
            _ => self.time_ms(),
        }
    }

    /// Of an upsert that went to several servers; none of any other record.
    pub(crate) fn stamp(&self) -> Stamp {
        match *self {
            LogRecord::Upsert { stamp, .. } => stamp,
            LogRecord::Kept { kind, body, .. } => {
                decode(kind, body).map_or_else(|_| Stamp::default(), |said| said.stamp())
            }
            LogRecord::Folded { .. } | LogRecord::Settled { .. } | LogRecord::Expired { .. } => {
                Stamp::default()
            }
        }
    }

    /// The upsert that a record has, as it was or as what is kept of it, and the sequence that it was given.
    pub(crate) fn upserted(self, sequence: u64) -> Option<(LogRecord<'a>, u64)> {
        match self {
            LogRecord::Upsert { .. } => Some((self, sequence)),
            LogRecord::Kept {
                sequence, kind, body, ..
            } => Some((decode(kind, body).ok()?, sequence)),
            LogRecord::Folded { .. } | LogRecord::Settled { .. } | LogRecord::Expired { .. } => None,
        }
    }

    /// The kind and the body of what is left of an upsert where only some of its keys are in force.
    pub(crate) fn left(self, is_in_force: impl Fn(u64) -> bool) -> Option<(u8, Vec<u8>)> {
        let LogRecord::Upsert {
            time_ms,
            stamp,
            layout,
            row_bytes,
            ..
        } = self
        else {
            return None;
        };
        let (mut keys, mut rows) = (Vec::new(), Vec::new());
        for (key, row) in self.changes().filter(|(key, _)| is_in_force(*key)) {
            keys.extend_from_slice(&key.to_le_bytes());
            row.into_iter()
                .for_each(|row| stored::push(row_bytes as usize, row, &mut rows));
        }
        let said = LogRecord::Upsert {
            time_ms,
            stamp,
            layout,
            row_bytes,
            keys: &keys,
            rows: &rows,
        };
        let written = Written { said, history: 0 };
        let mut body = Vec::with_capacity(written.bytes());
        written.encode(&mut body);
        (!keys.is_empty()).then(|| (written.kind(), body))
    }

    /// Of an upsert: each key with its row, or none where it is removed.
    pub(crate) fn changes(self) -> impl Iterator<Item = (u64, Option<&'a [u8]>)> {
        let (keys, rows, row_bytes) = match self {
            LogRecord::Upsert {
                keys,
                rows,
                row_bytes,
                ..
            } => (keys, rows, row_bytes as usize),
            _ => (&[][..], &[][..], VARYING),
        };
        let mut rows = StoredRows::new(row_bytes, rows);
        keys.as_chunks()
            .0
            .iter()
            .map(move |key| (u64::from_le_bytes(*key), rows.next()))
    }
}

/// Reads a body.
pub(crate) fn decode(kind: u8, body: &[u8]) -> Result<LogRecord<'_>, Fault> {
    let malformed = |what: String| Err(Fault::Malformed(what));
    if kind == KIND_KEPT {
        return decode_kept(body);
    }
    if !is_upsert(kind) {
        return decode_mark(kind, body);
    }
    let Some((header, rest)) = body.split_first_chunk::<UPSERT_HEADER_BYTES>() else {
        return malformed(format!("{} bytes, too few for an upsert", body.len()));
    };
    let (stamp, rest) = match kind {
        KIND_STAMPED | KIND_VARYING => stamp_of(rest, kind == KIND_VARYING)?,
        _ => (Stamp::default(), rest),
    };
    let (time_ms, layout) = (u64_at(header, 0), u64_at(header, 8));
    let row_bytes = header.get(16..20).and_then(<[u8]>::first_chunk);
    let row_bytes = row_bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let row_count = u64_at(header, 20).unwrap_or_default();
    let rows_bytes = match kind {
        KIND_VARYING => Some(row_bytes.into()),
        _ => row_count.checked_mul(row_bytes.into()),
    };
    let keys_bytes = rows_bytes.and_then(|bytes| (rest.len() as u64).checked_sub(bytes));
    let fits =
        |keys: &u64| keys.is_multiple_of(KEY_BYTES as u64) && keys / KEY_BYTES as u64 >= row_count.max(1);
    let Some(keys_bytes) = keys_bytes.filter(fits) else {
        return malformed(format!(
            "{row_count} rows of {row_bytes} bytes and their keys, in {} bytes",
            rest.len()
        ));
    };
    let (keys, rows) = rest.split_at_checked(keys_bytes as usize).unwrap_or_default();
    let row_bytes = if kind == KIND_VARYING {
        VARYING as u32
    } else {
        row_bytes
    };
    if kind == KIND_VARYING && stored::count(VARYING, rows) != Some(row_count) {
        return malformed(format!("{} bytes that are not {row_count} rows", rows.len()));
    }
    Ok(LogRecord::Upsert {
        time_ms: time_ms.unwrap_or_default(),
        stamp,
        layout: layout.unwrap_or_default(),
        row_bytes,
        keys,
        rows,
    })
}

fn is_upsert(kind: u8) -> bool {
    matches!(kind, KIND_UPSERT | KIND_STAMPED | KIND_VARYING)
}

/// What is no upsert: a time and one number or two.
fn decode_mark(kind: u8, body: &[u8]) -> Result<LogRecord<'_>, Fault> {
    let expected = match kind {
        KIND_SETTLED | KIND_FOLDED_BEFORE => LONG_MARK_BYTES,
        _ => MARK_BYTES,
    };
    let (Some(time_ms), Some(what), true) = (u64_at(body, 0), u64_at(body, 8), body.len() == expected) else {
        return Err(Fault::Malformed(format!(
            "{} bytes, expected {expected}",
            body.len()
        )));
    };
    let more = u64_at(body, 16).unwrap_or_default();
    Ok(match kind {
        KIND_FOLDED_BEFORE if more == 0 => {
            return Err(Fault::Malformed("a fold of upserts before no time".to_owned()));
        }
        KIND_FOLDED | KIND_FOLDED_BEFORE => LogRecord::Folded {
            time_ms,
            sequence: what,
            before_ms: more,
        },
        KIND_SETTLED => LogRecord::Settled {
            time_ms,
            settled: Settled {
                whole_ms: what,
                foldable_ms: more,
            },
        },
        _ => LogRecord::Expired {
            time_ms,
            written_ms: what,
        },
    })
}

/// A stamp, which may be left out by zeros, and what follows it.
fn stamp_of(body: &[u8], may_be_zeros: bool) -> Result<(Stamp, &[u8]), Fault> {
    let (Some(time), Some(origin)) = (u64_at(body, 0), u64_at(body, 8)) else {
        return Err(Fault::Malformed(format!(
            "{} bytes behind the header, too few for a stamp",
            body.len()
        )));
    };
    let stamp = Stamp { time, origin };
    match body.get(Stamp::BYTES..) {
        Some(rest) if stamp.is_some() || may_be_zeros => Ok((stamp, rest)),
        _ => Err(Fault::Malformed("a stamp of zeros".to_owned())),
    }
}

fn decode_kept(body: &[u8]) -> Result<LogRecord<'_>, Fault> {
    let malformed = |what: String| Err(Fault::Malformed(what));
    let Some((header, inner)) = body.split_first_chunk::<KEPT_HEADER_BYTES>() else {
        return malformed(format!("{} bytes, too few for what is kept", body.len()));
    };
    let kind = header.last_chunk().map_or(0, |kind| u32::from_le_bytes(*kind));
    let kind = match u8::try_from(kind) {
        Ok(kind) if is_upsert(kind) => kind,
        _ => return malformed(format!("kind {kind} is kept, expected that of an upsert")),
    };
    decode(kind, inner)?;
    Ok(LogRecord::Kept {
        sequence: u64_at(header, 0).unwrap_or_default(),
        copied: u64_at(header, 8).unwrap_or_default(),
        kind,
        body: inner,
    })
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

/// What the bytes of a row depend on, in one number: the columns.
pub(crate) fn layout_of(schema: &Schema) -> u64 {
    let columns = schema.columns.iter();
    let columns =
        columns.map(|column| format!("{}\0{}\0{}\n", column.name, column.numbers.as_str(), column.dim));
    xxh3_64(columns.collect::<String>().as_bytes())
}

#[cfg(test)]
mod tests;
