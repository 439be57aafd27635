//! Answers of nodes as a call over several of them merges them: `wire/schema`, from bytes to rows at their places.
//!
//! The input says how many keys a call has, how they went to nodes, and what each node answered (see [`Asked`]). What must hold: nothing
//! panics; a part that is refused changes nothing; one that is taken is where its keys stand, and nowhere else; no answer is
//! larger than it may be; and what is written is read as the same rows.

use millpond_wire_schema::Field as _;
use millpond_wire_schema::features_lookup::{
    self as schema, Answer, Merge, Part, Pool, Pooled, RowType, Unfit,
};
use millpond_wire_schema::payload::{Encoder, Encoding, Payload};

/// Bytes of rows that an answer may have.
const BYTES_MAX: usize = 4096;
const TYPES: [RowType; 6] = [
    RowType::F32,
    RowType::F64,
    RowType::F16,
    RowType::Bf16,
    RowType::U8,
    RowType::None,
];

/// The call: four bytes of the input. Behind them come the answers, each behind its length as two bytes, little-endian.
struct Asked {
    /// 1 to 64.
    keys: usize,
    row_type: RowType,
    /// 0 asks for none.
    at_version: Option<u64>,
    /// 1 to 4: key k is node k mod so many's. They answer in turn, each twice at most: what it sent before is replaced.
    nodes: usize,
}

/// Feeds a call and what came of it; see this module.
///
/// # Panics
/// When a promise is broken.
pub fn merge(data: &[u8]) {
    merged(data);
}

/// How many parts were taken.
fn merged(data: &[u8]) -> usize {
    let Some((&[keys, row_type, version, nodes], mut answers)) = data.split_first_chunk() else {
        return 0;
    };
    let asked = Asked {
        keys: usize::from(keys) % 64 + 1,
        row_type: TYPES[usize::from(row_type) % TYPES.len()],
        at_version: (version > 0).then_some(u64::from(version)),
        nodes: usize::from(nodes) % 4 + 1,
    };
    let mut merge = Merge::new(asked.keys, asked.row_type, BYTES_MAX);
    let mut taken = 0;
    for turn in 0..2 * asked.nodes {
        let Some((len, rest)) = answers.split_first_chunk() else {
            break;
        };
        let (answer, rest) = rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()));
        answers = rest;
        taken += usize::from(take(&mut merge, &asked, turn % asked.nodes, answer));
    }
    check_written(&merge, &asked);
    taken
}

fn take(merge: &mut Merge, asked: &Asked, node: usize, answer: &[u8]) -> bool {
    let Ok(payload) = Payload::new(Encoding::Msgpack, answer) else {
        return false;
    };
    let Ok(part) = Part::decode(&payload) else {
        return false;
    };
    let positions: Vec<u32> = (node..asked.keys)
        .step_by(asked.nodes)
        .map(|at| at as u32)
        .collect();
    let of_part = schema::Asked {
        table: "t",
        positions: &positions,
        at_version: asked.at_version,
        pooled: None,
        beside: 0,
    };
    let before = (merge.version(), merge.found().to_vec(), rows(merge, asked));
    match merge.check(&part, &of_part) {
        Ok(()) => {}
        Err(Unfit::Node(_) | Unfit::Call(_)) => {
            assert_eq!(
                before,
                (merge.version(), merge.found().to_vec(), rows(merge, asked))
            );
            return false;
        }
    }
    if merge.version().is_some_and(|version| version != part.version) {
        merge.reset();
    }
    let before = (merge.found().to_vec(), rows(merge, asked));
    assert_eq!(merge.place(&part, &positions), Ok(()));
    check_placed(merge, asked, &part, &positions, before);
    true
}

fn bit(bits: &[u8], at: usize) -> bool {
    bits[at / 8] >> (at % 8) & 1 == 1
}

/// All rows as they are so far.
fn rows(merge: &Merge, asked: &Asked) -> Vec<Vec<u8>> {
    (0..asked.keys).map(|at| merge.row_at(at).to_vec()).collect()
}

fn check_placed(
    merge: &Merge,
    asked: &Asked,
    part: &Part<'_>,
    positions: &[u32],
    (found, rows): (Vec<u8>, Vec<Vec<u8>>),
) {
    let row_bytes = part.dim * part.row_type.bytes();
    assert!(merge.rows_bytes() <= BYTES_MAX);
    if part.offsets.is_none() {
        assert_eq!(merge.values().len(), asked.keys * row_bytes);
    }
    let sent = |place: usize| match &part.offsets {
        Some(offsets) => &part.values[offsets[place] as usize..offsets[place + 1] as usize],
        None => &part.values[place * row_bytes..][..row_bytes],
    };
    for (at, before) in rows.iter().enumerate() {
        let row = merge.row_at(at);
        match positions.iter().position(|position| *position as usize == at) {
            Some(place) => {
                assert_eq!(bit(merge.found(), at), bit(&part.found, place), "key {at}");
                assert_eq!(row, sent(place), "key {at}");
            }
            None => {
                assert_eq!(bit(merge.found(), at), bit(&found, at), "key {at}");
                assert!(if before.is_empty() {
                    row.iter().all(|byte| *byte == 0)
                } else {
                    row == before
                });
            }
        }
    }
}

fn check_written(merge: &Merge, asked: &Asked) {
    let mut bytes = Vec::new();
    merge.write(&[], &mut Encoder::new(&mut bytes, Encoding::Msgpack, false));
    let payload = Payload::new(Encoding::Msgpack, &bytes).unwrap_or_else(|error| panic!("{error}"));
    let rows = match Answer::decode(&payload) {
        Ok((Answer::One(rows), _)) => rows,
        other => panic!("what is written is no answer of one table: {other:?}"),
    };
    assert_eq!(
        (rows.version, rows.dim),
        (merge.version().unwrap_or(0), merge.dim())
    );
    assert_eq!(rows.found, merge.found());
    if asked.row_type == Pooled::ASKED {
        let keys = asked.keys as u32;
        let Some(pooled) = Pooled::of(Pool::Mean, vec![0, 0, keys / 2, keys], RowType::F16) else {
            panic!("a mean is a pool")
        };
        let bytes = pooled.of_merged(merge, None, [0].into_iter());
        assert_eq!(bytes.len(), pooled.bags() * merge.dim() * RowType::F16.bytes());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_the_corpus_calls_taken_is_taken() {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/merge");
        let mut seen = 0;
        for entry in std::fs::read_dir(corpus).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let taken = merged(&std::fs::read(&path).unwrap());
            // "taken-N-…": so many of its answers.
            if let Some(rest) = name.strip_prefix("taken-") {
                assert_eq!(rest[..1].parse(), Ok(taken), "{name}");
                seen += 1;
            }
        }
        assert!(seen > 3);
    }
}
