//! `features.lookup`: rows of one table, or of several in one call.
//! Its invariant: offsets, where given, are ascending and end at the number of keys.

mod merge;
mod missing;
mod part;
mod pooled;
mod rows;
mod template;

pub use merge::{Asked, Merge, Unfit};
pub use missing::Missing;
pub use part::Part;
pub use pooled::Pooled;
pub use rows::{Header, RowType, Rows};
pub use template::Template;

use crate::declare::{either, schema};
use crate::field::{Block, Bool, Bytes, Field, List, Optional, OrDefault, Text, UInt, one_of};
use crate::payload::{Encoder, Number as _, PayloadError, Read, Reader};

/// Tables one call may ask.
pub const LOOKUPS_MAX: usize = 256;

either! {
    /// A call, for one table or for several.
    Call {
        /// In the order of the answer.
        "lookups" => Many(Lookups),
        /// One table.
        else => One(Lookup),
    }
}

either! {
    /// An answer, in the form of its call.
    Answer {
        /// In the order of the call.
        "lookups" => Many(ManyRows),
        /// One table.
        else => One(Rows),
    }
}

schema! {
    /// A call for several tables.
    call Lookups {
        /// One lookup a table, in the order of the answer.
        lookups: List<Lookup<'static>, LOOKUPS_MAX>,
    }
}

schema! {
    /// One table's part of a call.
    call Lookup {
        /// The table's name.
        table: Text,
        /// Keys, in the order of the answer: these, or `texts`.
        keys: Optional<Block<u64>>,
        /// Keys of a table whose keys are texts.
        texts: Optional<List<Bytes>>,
        /// Answer from this version or not at all: the one that serves, or one that is still held.
        at_version: Optional<UInt>,
        /// How the rows of a bag become one; "none" when absent: one row a key. A mean is over the keys that were found.
        pool: OrDefault<Pool>,
        /// Where bags begin and end: one more than there are bags.
        offsets: OrDefault<Block<u32>>,
        /// Columns of the table, in the order of the answer's rows; all when absent.
        columns: OrDefault<List<Text>>,
        /// As what the numbers of the answer come; "u8" are the bytes of the rows as they are stored, which is all that columns of bytes have; "none" says only which keys are there.
        row_type ("type"): OrDefault<RowType>,
        /// One row for each different key, in the order in which they come first, and `inverse` beside them.
        unique: OrDefault<Bool>,
        /// The version of the bucket map by which the caller split its keys over nodes: the server then answers from its own tables alone.
        map: Optional<UInt>,
    }
    check fits
}

schema! {
    /// An answer for several tables.
    answer ManyRows {
        /// One table's rows each, in the order of the call.
        lookups: List<Rows<'static>>,
    }
}

/// Writes the answer to a call for several tables, each part by `write`.
pub fn write_many<T>(parts: &[T], out: &mut Encoder<'_>, mut write: impl FnMut(&T, &mut Encoder<'_>)) {
    out.map(|out| {
        out.key("lookups");
        out.items(parts.iter(), |out, part| write(part, out));
    });
}

/// How the rows of a bag become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pool {
    /// One row a key.
    #[default]
    None,
    /// Their sum.
    Sum,
    /// Their sum over the number found.
    Mean,
    /// The largest number at each place.
    Max,
}

impl Pool {
    const ALL: [(Pool, &str); 4] = [
        (Pool::None, "none"),
        (Pool::Sum, "sum"),
        (Pool::Mean, "mean"),
        (Pool::Max, "max"),
    ];
}

impl Field for Pool {
    type Of<'a> = Pool;

    fn notation() -> String {
        one_of(Pool::ALL.into_iter().map(|(_, name)| name))
    }

    fn read(reader: &mut Reader<'_>) -> Read<Pool> {
        let text = reader.text()?;
        let known = Pool::ALL.iter().find(|(_, name)| *name == text);
        known
            .map(|(pool, _)| *pool)
            .ok_or_else(|| PayloadError::invalid(format!("{text:?}"), Pool::notation()))
    }

    fn write(value: &Pool, out: &mut Encoder<'_>) {
        let named = Pool::ALL.iter().find(|(pool, _)| pool == value);
        out.text(named.map_or("none", |(_, name)| name));
    }

    fn own(value: Pool) -> Pool {
        value
    }
}

impl Lookup<'_> {
    /// Whether a server would take it, as far as it can be said without the table.
    ///
    /// # Errors
    /// The key that is wrong.
    pub fn check(&self) -> Read<()> {
        fits(self)
    }

    /// Keys asked for.
    pub fn count(&self) -> usize {
        let texts = self.texts.as_ref().map(Vec::len);
        self.keys.as_ref().map(Vec::len).or(texts).unwrap_or_default()
    }
}

fn fits(lookup: &Lookup<'_>) -> Read<()> {
    match (&lookup.keys, &lookup.texts) {
        (None, None) => return Err(PayloadError::missing("keys", u64::expected())),
        (Some(_), Some(_)) => {
            return Err(PayloadError::invalid("given", "no `texts` beside `keys`").under("texts"));
        }
        _ => {}
    }
    if lookup.pool != Pool::None {
        let one_row_a_key = |key, expected: &str| Err(PayloadError::invalid("given", expected).under(key));
        if lookup.unique {
            return one_row_a_key("unique", "no `unique` with a pool: its rows are of bags");
        }
        if let RowType::U8 | RowType::None = lookup.row_type {
            return one_row_a_key("type", "a type of floats with a pool");
        }
    }
    offsets_fit(lookup)
}

fn offsets_fit(lookup: &Lookup<'_>) -> Read<()> {
    let keys = lookup.count();
    let bad = |found: String| {
        let expected = format!("ascending offsets from 0 to the number of keys ({keys})");
        Err(PayloadError::invalid(found, expected).under("offsets"))
    };
    match (lookup.pool, lookup.offsets.as_slice()) {
        (Pool::None, []) => Ok(()),
        (Pool::None, _) => {
            let expected = "no offsets without a pool (\"sum\", \"mean\" or \"max\")";
            Err(PayloadError::invalid("given", expected).under("offsets"))
        }
        (_, []) => Err(PayloadError::missing(
            "offsets",
            "u32 offsets of the bags to pool",
        )),
        (_, [first, .., last]) if *first != 0 || *last as usize != keys => bad(format!("{first} … {last}")),
        (_, [only]) if *only != 0 || keys != 0 => bad(format!("[{only}]")),
        (_, offsets) => match offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            Some(at) => bad(format!("descending at {}", at + 1)),
            None => Ok(()),
        },
    }
}
