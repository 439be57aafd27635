//! What is upserted over several servers, and the part of it that each is sent.
//!
//! It knows no table's columns: the nodes hold it against theirs. Its invariant: a part has whole rows of its keys alone.

use super::shares::Share;
use crate::features_lookup::keys_of;
use millpond_catalog::Catalog;
use millpond_engines_features::ROW_BYTES_MAX;
use millpond_wire_schema::{Code, Status, features_upsert as schema};
use std::borrow::Cow;

/// A decoded upsert, from which the part of each node is cut.
pub(super) struct Content {
    pub(super) table: String,
    pub(super) keys: Vec<u64>,
    pub(super) rows: Rows,
    pub(super) remove: Vec<u64>,
}

/// A whole row for each of the keys.
pub(super) enum Rows {
    /// So many numbers each.
    Numbers(Vec<f32>, usize),
    /// So many bytes each, as they are stored.
    Bytes(Vec<u8>, usize),
    /// Bytes, and where each row begins and the last ends.
    Varying(Vec<u8>, Vec<u32>),
}

fn wrong(ex: String) -> Status {
    Status::new(Code::BadArgument, ex)
}

impl Content {
    pub(super) fn new(catalog: &Catalog, call: schema::Call<'_>) -> Result<Content, Status> {
        if !call.columns.is_empty() {
            return Err(wrong(format!(
                "key \"columns\": table {:?} is on several servers, each of which would complete rows from its own; send all columns, \
                 in the table's order, and leave the key out",
                call.table
            )));
        }
        let table = catalog.tables.get(call.table.as_ref());
        let hashed = |keys: Option<Vec<u64>>, texts: Option<Vec<Cow<'_, [u8]>>>| match (table, &texts) {
            (Some(table), _) => keys_of(table, keys, texts),
            (None, None) => Ok(keys.unwrap_or_default()),
            (None, Some(_)) => Err(wrong(format!(
                "table {:?} is on other servers alone, so this one cannot hash texts for it; send `keys`, or call a server that has some \
                 of the table",
                call.table
            ))),
        };
        let keys = hashed(call.keys, call.texts)?;
        let remove = hashed(call.remove, call.remove_texts)?;
        if keys.is_empty() && remove.is_empty() {
            let ex = "key \"keys\": expected at least one key, or one to remove, found none";
            return Err(wrong(ex.to_owned()));
        }
        if u32::try_from(keys.len().max(remove.len())).is_err() {
            return Err(Status::new(Code::TooLarge, "too many keys in a call; split it"));
        }
        let rows = match (call.rows, call.offsets) {
            (None, _) => {
                let dim = each("values", "numbers", call.values.len(), keys.len())?;
                Rows::Numbers(call.values, dim)
            }
            (Some(bytes), None) => {
                let row_bytes = each("rows", "bytes", bytes.len(), keys.len())?;
                Rows::Bytes(bytes.into_owned(), row_bytes)
            }
            (Some(bytes), Some(offsets)) => {
                check_offsets(&offsets, keys.len(), bytes.len())?;
                Rows::Varying(bytes.into_owned(), offsets)
            }
        };
        Ok(Content {
            table: call.table.into_owned(),
            keys,
            rows,
            remove,
        })
    }

    /// A call with what a node is sent of it.
    pub(super) fn call(&self, share: &Share) -> schema::Call<'_> {
        let keys = |keys: &[u64], positions: &[u32]| {
            let keys = positions.iter().filter_map(|at| keys.get(*at as usize));
            keys.copied().collect()
        };
        let mut call = schema::Call::new(Cow::Borrowed(&self.table));
        call.keys = Some(keys(&self.keys, &share.keys));
        call.remove = Some(keys(&self.remove, &share.remove));
        self.rows.fill(&share.keys, &mut call);
        call
    }

    /// Its rows are needed no more.
    pub(super) fn forget_rows(&mut self) {
        self.rows = Rows::Numbers(Vec::new(), 0);
    }
}

impl Rows {
    /// Gives a call the rows at those positions.
    fn fill(&self, positions: &[u32], call: &mut schema::Call<'_>) {
        fn of_one_length<T: Copy>(all: &[T], length: usize, positions: &[u32]) -> Vec<T> {
            let row = |at: &u32| {
                let from = *at as usize * length;
                all.get(from..from + length).unwrap_or_default()
            };
            positions.iter().flat_map(row).copied().collect()
        }
        match self {
            Rows::Numbers(values, dim) => call.values = of_one_length(values, *dim, positions),
            Rows::Bytes(bytes, row_bytes) => {
                call.rows = Some(of_one_length(bytes, *row_bytes, positions).into());
            }
            Rows::Varying(bytes, offsets) => {
                let (mut rows, mut ends) = (Vec::new(), vec![0]);
                for at in positions.iter().map(|at| *at as usize) {
                    if let Some([begin, end]) = offsets.get(at..at + 2) {
                        rows.extend_from_slice(bytes.get(*begin as usize..*end as usize).unwrap_or_default());
                    }
                    ends.push(rows.len() as u32);
                }
                (call.rows, call.offsets) = (Some(rows.into()), Some(ends));
            }
        }
    }
}

/// How many of something are in a row, where each of the keys has as many.
fn each(key: &str, of: &str, found: usize, keys: usize) -> Result<usize, Status> {
    let in_a_row = found.checked_div(keys).unwrap_or_default();
    match in_a_row * keys == found {
        true => Ok(in_a_row),
        false => Err(wrong(format!(
            "key \"{key}\": expected a whole row for each of {keys} keys, found {found} {of}"
        ))),
    }
}

/// Refuses offsets that a node would refuse which has all of the keys: each has some of them, and would find some of what is wrong.
fn check_offsets(offsets: &[u32], keys: usize, bytes: usize) -> Result<(), Status> {
    let ends = (offsets.first().copied(), offsets.last().copied());
    if offsets.len() != keys + 1 || ends.0 != Some(0) || ends.1.map(|end| end as usize) != Some(bytes) {
        return Err(wrong(format!(
            "key \"offsets\": expected {}, where each of {keys} rows begins and the last ends, from 0 to {bytes}, the bytes of `rows`; \
             found {} from {:?} to {:?}",
            keys + 1,
            offsets.len(),
            ends.0,
            ends.1
        )));
    }
    let is_row = |pair: &[u32; 2]| {
        let length = pair[1].checked_sub(pair[0]);
        length.is_some_and(|length| length as usize <= ROW_BYTES_MAX)
    };
    match offsets.array_windows().find(|pair| !is_row(pair)) {
        None => Ok(()),
        Some([begin, end]) => Err(wrong(format!(
            "key \"offsets\": expected them to ascend, by at most {ROW_BYTES_MAX} bytes a row, found {begin} before {end}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_part_has_the_rows_of_its_keys() {
        let map = "version = 1\nbuckets = 4\nnodes = [{ name = \"a\", addresses = [\"a:1\"] }]";
        let map = millpond_nodes::BucketMap::from_toml(map).unwrap();
        let share = Share {
            keys: vec![0, 2],
            remove: vec![1],
            ..Share::of(map.find("a").unwrap())
        };
        let check = |rows: Rows, expected: fn(&mut schema::Call<'_>)| {
            let content = Content {
                table: "films".into(),
                keys: vec![1, 2, 3],
                rows,
                remove: vec![7, 8],
            };
            let mut call = schema::Call::new("films".into());
            (call.keys, call.remove) = (Some(vec![1, 3]), Some(vec![8]));
            expected(&mut call);
            assert_eq!(content.call(&share), call);
        };
        check(Rows::Numbers(vec![0.5, 1.0, 1.5, 2.0, 2.5, 3.0], 2), |call| {
            call.values = vec![0.5, 1.0, 2.5, 3.0]
        });
        check(Rows::Bytes(b"aabbcc".to_vec(), 2), |call| {
            call.rows = Some(b"aacc"[..].into());
        });
        check(Rows::Varying(b"abbbc".to_vec(), vec![0, 1, 4, 5]), |call| {
            (call.rows, call.offsets) = (Some(b"ac"[..].into()), Some(vec![0, 1, 2]));
        });
        check(Rows::Varying(b"b".to_vec(), vec![0, 0, 1, 1]), |call| {
            (call.rows, call.offsets) = (Some(b""[..].into()), Some(vec![0, 0, 0]));
        });
    }

    #[test]
    fn rows_that_are_not_whole_are_refused_by_whoever_takes_the_call() {
        let check = |rows: &[u8], offsets: Option<&[u32]>, words: &[&str]| {
            let mut call = schema::Call::new("films".into());
            call.keys = Some(vec![1, 2]);
            (call.rows, call.offsets) = (Some(rows.into()), offsets.map(<[u32]>::to_vec));
            let ex = Content::new(&Catalog::default(), call).err().unwrap().ex;
            assert!(words.iter().all(|word| ex.contains(word)), "{ex}");
        };
        check(b"abc", None, &["rows", "2 keys", "3 bytes"]);
        check(b"abc", Some(&[0, 3]), &["offsets", "expected 3", "found 2"]);
        check(b"abc", Some(&[0, 1, 2]), &["from 0 to 3", "Some(2)"]);
        check(b"abc", Some(&[1, 1, 3]), &["from 0 to 3", "Some(1)"]);
        check(b"abc", Some(&[0, 4, 3]), &["ascend", "4 before 3"]);
        let long = vec![0; ROW_BYTES_MAX + 1];
        check(&long, Some(&[0, 0, long.len() as u32]), &["bytes a row"]);
    }
}
