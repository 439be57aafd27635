//! A set of request bodies in one block of memory.
//!
//! Bodies are kept as they came, byte for byte; nothing here looks inside them. Its invariant: the set is never empty and
//! never holds more than [`BYTES_MAX`] bytes.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::Error;

/// The bound on the memory of one set: 256 MiB of bodies.
pub const BYTES_MAX: usize = 256 << 20;

/// Request bodies, numbered from 0.
#[derive(Debug, Clone)]
pub struct RequestSet {
    bytes: Vec<u8>,
    /// Where each body ends; the next one begins there.
    ends: Vec<usize>,
    distinct: usize,
}

impl RequestSet {
    /// Reads a JSONL file: every line that is not blank is one body.
    ///
    /// # Errors
    /// The file cannot be read, a line is not JSON, there is none, or there are more than [`BYTES_MAX`] bytes.
    pub fn load(path: &Path) -> Result<RequestSet, Error> {
        let shown = path.display();
        let read_error = |error: std::io::Error| {
            Error::new(format!(
                "cannot read the request file {shown}: {error}; give the path of a JSONL file"
            ))
        };
        let file = File::open(path).map_err(read_error)?;
        let mut reader = BufReader::new(file);
        let mut building = Building::default();
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            // One byte more than the bound tells a line that is too long from one that just fits.
            let limit = BYTES_MAX as u64 + 1;
            if reader
                .by_ref()
                .take(limit)
                .read_until(b'\n', &mut line)
                .map_err(read_error)?
                == 0
            {
                break;
            }
            let body = line.trim_ascii();
            if body.is_empty() {
                continue;
            }
            if building.bytes.len() + body.len() > BYTES_MAX {
                return Err(Error::too_large(shown));
            }
            serde_json::from_slice::<serde::de::IgnoredAny>(body).map_err(|error| {
                Error::new(format!(
                    "{shown}, line {number}: not JSON ({error}); every line must be one complete JSON body"
                ))
            })?;
            building.push(body);
        }
        if building.ends.is_empty() {
            let words = "holds no request; every line must be one complete JSON body";
            return Err(Error::new(format!("{shown} {words}")));
        }
        Ok(building.finish())
    }

    /// A set of the given bodies, whatever their bytes; `what` names it in errors.
    ///
    /// # Errors
    /// There is no body, or there are more than [`BYTES_MAX`] bytes.
    pub fn from_bodies<B: AsRef<[u8]>>(
        what: &str,
        bodies: impl IntoIterator<Item = B>,
    ) -> Result<RequestSet, Error> {
        let mut building = Building::default();
        for body in bodies {
            building.push_bounded(what, body.as_ref())?;
        }
        building.finish_filled(what)
    }

    /// How many bodies there are; at least 1.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Always false: an empty set is refused when it is made.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many different bodies there are.
    pub fn distinct(&self) -> usize {
        self.distinct
    }

    /// The memory of all bodies.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Body `index`; empty when there is none of that number.
    pub fn get(&self, index: usize) -> &[u8] {
        let Some(&end) = self.ends.get(index) else {
            return &[];
        };
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..end]
    }

    /// All bodies in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// A set while it grows. Distinctness is judged by a 64-bit hash with a random key: the chance that two of a million
/// different bodies count as one is under 10^-7, and it only ever makes the printed number smaller.
#[derive(Default)]
pub(crate) struct Building {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ends: Vec<usize>,
    hasher: RandomState,
    seen: HashSet<u64>,
}

impl Building {
    pub(crate) fn push(&mut self, body: &[u8]) {
        self.seen.insert(self.hasher.hash_one(body));
        self.bytes.extend_from_slice(body);
        self.ends.push(self.bytes.len());
    }

    /// Adds a body unless the set would pass the bound: on its bytes, or on its list of ends.
    pub(crate) fn push_bounded(&mut self, what: &str, body: &[u8]) -> Result<(), Error> {
        if self.bytes.len() + body.len() > BYTES_MAX || self.ends.len() >= BYTES_MAX / size_of::<usize>() {
            return Err(Error::too_large(what));
        }
        self.push(body);
        Ok(())
    }

    /// The set, unless nothing was added.
    pub(crate) fn finish_filled(self, what: &str) -> Result<RequestSet, Error> {
        if self.ends.is_empty() {
            return Err(Error::new(format!(
                "{what} holds no request; ask for at least one"
            )));
        }
        Ok(self.finish())
    }

    pub(crate) fn has(&self, body: &[u8]) -> bool {
        self.seen.contains(&self.hasher.hash_one(body))
    }

    pub(crate) fn finish(self) -> RequestSet {
        RequestSet {
            bytes: self.bytes,
            ends: self.ends,
            distinct: self.seen.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use std::io::Write;

    fn load(text: &str) -> Result<RequestSet, Error> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        RequestSet::load(file.path())
    }

    #[test]
    fn lines_are_bodies() {
        let set = load("{\"a\":1}\n\n  {\"b\":2}\r\n{\"a\":1}").unwrap();
        let bodies: Vec<&[u8]> = set.iter().collect();
        assert_eq!(bodies, [&b"{\"a\":1}"[..], b"{\"b\":2}", b"{\"a\":1}"]);
        assert_eq!((set.len(), set.distinct(), set.bytes()), (3, 2, 21));
        assert_eq!(set.get(3), b"");
    }

    #[test]
    fn given_bodies_may_be_any_bytes() {
        let set = RequestSet::from_bodies("a list", [&b"get 1\n\xff"[..], b"", b"{"]).unwrap();
        assert_eq!((set.len(), set.distinct(), set.bytes()), (3, 3, 8));
        assert_eq!(set.get(0), b"get 1\n\xff");
        assert_eq!(set.get(1), b"");
        let none = RequestSet::from_bodies("a list", std::iter::empty::<Vec<u8>>());
        assert!(none.expect_err("refused").to_string().contains("a list holds no"));
        let block = vec![0; BYTES_MAX / 2 + 1];
        let large = RequestSet::from_bodies("a list", [&block, &block]);
        assert!(large.expect_err("refused").to_string().contains("a list needs"));
    }

    #[test]
    fn bad_files_say_what_and_where() {
        let said = |text: &str| load(text).expect_err("refused").to_string();
        assert!(said("{}\n{\"a\":\n").contains("line 2: not JSON"));
        assert!(said("{} {}\n").contains("line 1: not JSON"));
        assert!(said("\n\n").contains("holds no request"));
        let absent = RequestSet::load(Path::new("no/such.jsonl"))
            .expect_err("refused")
            .to_string();
        assert!(absent.contains("no/such.jsonl"), "{absent}");
    }
}
