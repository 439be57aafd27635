//! `manifest.json`: what a version folder contains, with a checksum over itself.
//!
//! Not a place for settings: the file is written once and an edit is refused. Invariant: a manifest that was read is
//! byte for byte one that a writer wrote.

use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::files;
use crate::format1;
use crate::header::{BYTES_FORMAT, FORMAT, SHARDS_MAX};
use crate::node_share::NodeShare;
use crate::overlay::Folded;
use crate::schema::{Column, Keys, NotFinite, Schema};

/// The name of the file in a version folder.
pub(crate) const FILE: &str = "manifest.json";

/// `{`, a new line and the checksum's line: 16 digits between two fixed parts.
const HEAD_BYTES: usize = "{\n  \"checksum\": \"0123456789abcdef\",\n".len();

/// Everything of the file but its first field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) format: u32,
    pub(crate) name: String,
    pub(crate) version: u64,
    /// Not there where keys are numbers.
    #[serde(default, skip_serializing_if = "KeyKind::is_u64")]
    pub(crate) keys: KeyKind,
    /// What texts are hashed with.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) slot: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) not_finite: NotFinite,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) default_row: Option<Vec<f32>>,
    /// Of a delta: the version that it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<Base>,
    /// Where it has the keys of one node alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<NodeShare>,
    /// Of a version that has what was upserted to an overlay: up to where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) folded: Option<FoldedEntry>,
    /// Of a compaction: the version at the lower end of what was compacted, whose sources its rows come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) oldest_base: Option<u64>,
    /// Rows of the version: those of its base count.
    pub(crate) rows: u64,
    pub(crate) created_unix_s: u64,
    pub(crate) source: String,
    pub(crate) shards: Vec<ShardEntry>,
}

/// What the keys are, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeyKind {
    #[default]
    U64,
    Text,
}

impl KeyKind {
    fn is_u64(&self) -> bool {
        *self == KeyKind::U64
    }

    /// The two fields of a manifest that say what its keys are.
    pub(crate) fn fields(keys: &Keys) -> (KeyKind, String) {
        match keys {
            Keys::U64 => (KeyKind::U64, String::new()),
            Keys::Text { slot } => (KeyKind::Text, slot.clone()),
        }
    }
}

/// The version that a delta changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Base {
    pub(crate) version: u64,
    /// That of its manifest, in hexadecimal: another build of the same number is another version.
    pub(crate) checksum: String,
}

/// What a version has of an overlay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FoldedEntry {
    /// The log's history in hexadecimal, which JSON numbers could not carry exactly.
    pub(crate) history: String,
    pub(crate) sequence: u64,
    /// Of upserts over nodes, in milliseconds of Unix time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) before_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// One shard file, as the manifest describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShardEntry {
    pub(crate) file: String,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    /// The header checksum of the file in hexadecimal, which JSON numbers could not carry exactly.
    pub(crate) checksum: String,
}

/// The name of shard `number`'s file.
pub(crate) fn shard_file(number: u32) -> String {
    format!("shard-{number:05}.mpf")
}

fn head(rest: &[u8]) -> String {
    format!("{{\n  \"checksum\": \"{:016x}\",\n", xxh3_64(rest))
}

impl From<Folded> for FoldedEntry {
    fn from(folded: Folded) -> FoldedEntry {
        FoldedEntry {
            history: format!("{:016x}", folded.history),
            sequence: folded.sequence,
            before_ms: folded.before_ms,
        }
    }
}

impl Manifest {
    /// What it has of an overlay; nothing where the history is none.
    pub(crate) fn folded(&self) -> Option<Folded> {
        let folded = self.folded.as_ref()?;
        Some(Folded {
            history: u64::from_str_radix(&folded.history, 16).ok()?,
            sequence: folded.sequence,
            before_ms: folded.before_ms,
        })
    }

    /// The bytes of the file.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, Error> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::argument("manifest", "a JSON value", error))?;
        let mut rest = text.into_bytes();
        // The opening brace and its new line stand in the head.
        rest.drain(..2);
        rest.push(b'\n');
        let mut bytes = head(&rest).into_bytes();
        bytes.append(&mut rest);
        Ok(bytes)
    }

    /// Reads and checks the manifest of a version folder; its checksum, as deltas name it, is given beside it.
    pub(crate) fn read(version_dir: &Path) -> Result<(Manifest, String), Error> {
        let path = version_dir.join(FILE);
        let bytes = files::read(&path).map_err(Error::io("read", &path))?;
        let manifest = Manifest::decode(&bytes, &path)?;
        manifest.check(&path)?;
        let checksum = xxh3_64(bytes.get(HEAD_BYTES..).unwrap_or_default());
        Ok((manifest, format!("{checksum:016x}")))
    }

    fn decode(bytes: &[u8], path: &Path) -> Result<Manifest, Error> {
        /// Enough of any manifest to tell its format.
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let shown = |bytes: &[u8]| format!("{:?}", String::from_utf8_lossy(bytes));
        let Some((found, rest)) = bytes.split_at_checked(HEAD_BYTES) else {
            let found = format!("{} bytes", bytes.len());
            return Err(Error::damaged(path, "manifest", "a whole manifest", found));
        };
        let expected = head(rest);
        if found != expected.as_bytes() {
            let what = "first line (a checksum of the rest; a manifest is never edited)";
            return Err(Error::damaged(
                path,
                what,
                shown(expected.as_bytes()),
                shown(found),
            ));
        }
        let wrong = |error: serde_json::Error| Error::damaged(path, "content", "a table's manifest", error);
        let Format { format } = serde_json::from_slice(bytes).map_err(wrong)?;
        match format {
            format1::FORMAT => format1::manifest(bytes).map_err(wrong),
            FORMAT | BYTES_FORMAT => serde_json::from_slice(bytes).map_err(wrong),
            found => Err(Error::Format {
                path: path.to_path_buf(),
                expected: BYTES_FORMAT,
                found,
            }),
        }
    }

    /// What its shards hold: rows, and in a delta keys that it removes.
    pub(crate) fn entries(&self) -> u64 {
        self.shards
            .iter()
            .fold(0, |sum, entry| sum.saturating_add(entry.rows))
    }

    /// The columns of its rows.
    pub(crate) fn schema(&self) -> Schema {
        Schema {
            keys: match self.keys {
                KeyKind::U64 => Keys::U64,
                KeyKind::Text => Keys::Text {
                    slot: self.slot.clone(),
                },
            },
            columns: self.columns.clone(),
            not_finite: self.not_finite,
            default_row: self.default_row.clone(),
        }
    }

    fn check(&self, path: &Path) -> Result<(), Error> {
        let count = self.shards.len();
        if count == 0 || count > SHARDS_MAX as usize {
            let expected = format!("1 to {SHARDS_MAX}");
            return Err(Error::damaged(path, "number of shards", expected, count));
        }
        self.schema().check().map_err(|error| match error {
            Error::Argument {
                name,
                expected,
                found,
            } => Error::damaged(path, name, expected, found),
            other => other,
        })?;
        let expected = self.schema().format();
        if self.format != expected && self.format != format1::FORMAT {
            let what = "format, by its columns";
            return Err(Error::damaged(path, what, expected, self.format));
        }
        if self.keys.is_u64() && !self.slot.is_empty() {
            let found = format!("{:?}", self.slot);
            return Err(Error::damaged(path, "slot", "none where keys are numbers", found));
        }
        // The names are fixed, so no manifest can lead out of its folder.
        for (number, entry) in (0..).zip(&self.shards) {
            let expected = shard_file(number);
            if entry.file != expected {
                return Err(Error::damaged(path, "shard file", expected, &entry.file));
            }
        }
        let sum = self
            .shards
            .iter()
            .try_fold(0_u64, |sum, entry| sum.checked_add(entry.rows));
        if let Some(base) = &self.base {
            if base.version >= self.version {
                let expected = format!("a version before {}", self.version);
                return Err(Error::damaged(path, "base", expected, base.version));
            }
        } else if sum != Some(self.rows) {
            let found = format!("{sum:?} in the shards");
            return Err(Error::damaged(path, "rows", self.rows, found));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::schema::Numbers;

    fn manifest() -> Manifest {
        Manifest {
            format: FORMAT,
            name: "films".to_owned(),
            version: u64::MAX,
            keys: KeyKind::U64,
            slot: String::new(),
            columns: Schema::floats(16).columns,
            not_finite: NotFinite::Refused,
            default_row: None,
            base: None,
            node: None,
            folded: None,
            oldest_base: None,
            rows: 3,
            created_unix_s: 1_795_651_200,
            source: "films.parquet".to_owned(),
            shards: vec![ShardEntry {
                file: shard_file(0),
                bytes: 448,
                rows: 3,
                checksum: "00000000000000ff".to_owned(),
            }],
        }
    }

    fn check(manifest: &Manifest, expected: &str) {
        let bytes = manifest.encode().unwrap();
        let path = Path::new("manifest.json");
        let error = Manifest::decode(&bytes, path)
            .and_then(|m| m.check(path))
            .unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = manifest().encode().unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(
            text.starts_with("{\n  \"checksum\": \"") && text.ends_with("]\n}\n"),
            "{text}"
        );
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
        let read = Manifest::decode(&bytes, Path::new("m")).unwrap();
        assert_eq!(read, manifest());
        read.check(Path::new("m")).unwrap();
    }

    #[test]
    fn keys_that_are_texts_are_said() {
        let read = |keys: Keys| {
            let (kind, slot) = KeyKind::fields(&keys);
            let written = Manifest {
                keys: kind,
                slot,
                ..manifest()
            };
            let bytes = written.encode().unwrap();
            let read = Manifest::decode(&bytes, Path::new("m")).unwrap();
            read.check(Path::new("m")).unwrap();
            assert_eq!(read.schema().keys, keys);
            String::from_utf8(bytes).unwrap()
        };
        let said = |slot: &str| {
            read(Keys::Text {
                slot: slot.to_owned(),
            })
        };
        assert!(!read(Keys::U64).contains("keys"));
        assert!(said("").contains("\"keys\": \"text\",\n  \"columns\""));
        assert!(said("genre").contains("\"keys\": \"text\",\n  \"slot\": \"genre\",\n"));
        let wrong = Manifest {
            slot: "genre".to_owned(),
            ..manifest()
        };
        check(
            &wrong,
            "slot: expected none where keys are numbers, found \"genre\"",
        );
    }

    #[test]
    fn columns_of_bytes_are_of_a_format_that_older_programs_refuse() {
        let of = |format, numbers, dim| {
            let mut columns = Schema::floats(dim).columns;
            columns[0].numbers = numbers;
            Manifest {
                format,
                columns,
                ..manifest()
            }
        };
        for (numbers, dim, shown) in [
            (Numbers::Bytes, 16, "\"type\": \"bytes\",\n      \"dim\": 16\n"),
            (Numbers::VaryingBytes, 0, "\"type\": \"varying_bytes\"\n"),
        ] {
            let written = of(BYTES_FORMAT, numbers, dim);
            let bytes = written.encode().unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(text.contains(shown), "{text}");
            let read = Manifest::decode(&bytes, Path::new("m")).unwrap();
            assert_eq!(read, written);
            read.check(Path::new("m")).unwrap();
            check(
                &of(FORMAT, numbers, dim),
                "format, by its columns: expected 3, found 2",
            );
        }
        check(
            &of(BYTES_FORMAT, Numbers::F32, 16),
            "format, by its columns: expected 2, found 3",
        );
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let bytes = manifest().encode().unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            Manifest::decode(&flipped, Path::new("m")).expect_err(&format!("bit {bit}"));
        }
        for length in 0..bytes.len() {
            Manifest::decode(&bytes[..length], Path::new("m")).expect_err(&format!("length {length}"));
        }
    }

    #[test]
    fn contradictions_are_named() {
        let mut wrong = manifest();
        wrong.shards[0].file = "../../etc/passwd".to_owned();
        check(&wrong, "shard file: expected shard-00000.mpf");
        check(
            &Manifest {
                rows: 4,
                ..manifest()
            },
            "rows: expected 4",
        );
        let base = Base {
            version: u64::MAX,
            checksum: String::new(),
        };
        check(
            &Manifest {
                base: Some(base),
                ..manifest()
            },
            "base: expected a version before 18446744073709551615",
        );
        check(
            &Manifest {
                columns: Schema::floats(0).columns,
                ..manifest()
            },
            "dim: expected at least 1 in column \"vector\"",
        );
        check(
            &Manifest {
                shards: vec![],
                rows: 0,
                ..manifest()
            },
            "number of shards",
        );
        check(
            &Manifest {
                format: 9,
                ..manifest()
            },
            "format 9, this build reads formats 1 to 3",
        );
    }
}
