//! `features.lookup`: rows of one table, or of several in one call.
//! Its invariant: offsets, where given, are ascending and end at the number of keys.

use crate::declare::{either, schema};
use crate::field::{Block, Bytes, Field, List, Optional, OrDefault, Text, UInt, Within};
use crate::payload::{Encoder, PayloadError, Read, Reader};

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
        lookups: List<Lookup<'static>>,
    }
}

schema! {
    /// One table's part of a call.
    call Lookup {
        /// The table's name.
        table: Text,
        /// Keys, in the order of the answer.
        keys: Block<u64>,
        /// Refuse to answer from another version.
        at_version: Optional<UInt>,
        /// How the rows of a bag become one; "none" when absent: one row a key. A mean is over the keys that were found.
        pool: OrDefault<Pool>,
        /// Where bags begin and end: one more than there are bags.
        offsets: OrDefault<Block<u32>>,
    }
    check offsets_fit
}

schema! {
    /// An answer for several tables.
    answer ManyRows {
        /// One table's rows each, in the order of the call.
        lookups: List<Rows<'static>>,
    }
}

schema! {
    /// One table's part of an answer.
    answer Rows {
        /// The version that answered.
        version: UInt,
        /// Floats a row.
        dim: Within<0, 0xffff_ffff>,
        /// Bit i of byte i / 8 (lowest first) is set where key i was found.
        found: Bytes,
        /// n × dim (or bags × dim) floats; zeros where nothing was found.
        values: Block<f32>,
    }
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
    const NAMES: [(Pool, &str); 4] = [
        (Pool::None, "none"),
        (Pool::Sum, "sum"),
        (Pool::Mean, "mean"),
        (Pool::Max, "max"),
    ];
}

impl Field for Pool {
    type Of<'a> = Pool;

    fn notation() -> String {
        "\"none\", \"sum\", \"mean\" or \"max\"".to_owned()
    }

    fn read(reader: &mut Reader<'_>) -> Read<Pool> {
        let text = reader.text()?;
        let known = Pool::NAMES.iter().find(|(_, name)| *name == text);
        known
            .map(|(pool, _)| *pool)
            .ok_or_else(|| PayloadError::invalid(format!("{text:?}"), Pool::notation()))
    }

    fn write(value: &Pool, out: &mut Encoder<'_>) {
        let named = Pool::NAMES.iter().find(|(pool, _)| pool == value);
        out.text(named.map_or("none", |(_, name)| name));
    }

    fn own(value: Pool) -> Pool {
        value
    }
}

fn offsets_fit(lookup: &Lookup<'_>) -> Read<()> {
    let keys = lookup.keys.len();
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
