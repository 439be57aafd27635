//! The texts of a shard's keys while it is written, for the one question whether two of them have the same key.
//!
//! They are in no version: a shard has keys alone. Invariant: texts of the same key are held against each other byte by byte, in memory
//! that does not grow with their number.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3Default;

use super::incoming::opened_at;
use super::journal::Prefix;
use crate::error::Error;
use crate::hash::text_key;

/// Bytes of a key's text at most: its length takes two.
pub const TEXT_BYTES_MAX: usize = u16::MAX as usize;
const BUFFER_BYTES: usize = 16 * 1024;
/// What a text takes in memory beside its bytes.
const ENTRY_BYTES: usize = 64;

pub(super) struct Texts {
    /// What their keys are derived from beside them.
    slot: String,
    path: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
    /// Over all bytes that were written.
    written: Xxh3Default,
}

impl Texts {
    pub(super) fn create(dir: &Path, number: u32, slot: &str) -> Result<Texts, Error> {
        let path = dir.join(format!("texts-{number:05}"));
        let options = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        let file = options.map_err(Error::io("create", &path))?;
        Ok(Texts {
            slot: slot.to_owned(),
            path,
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            bytes: 0,
            written: Xxh3Default::new(),
        })
    }

    /// Goes on behind the texts that an earlier writer left; none where they are not what it wrote.
    pub(super) fn go_on(dir: &Path, number: u32, slot: &str, left: Prefix) -> Result<Option<Texts>, Error> {
        let path = dir.join(format!("texts-{number:05}"));
        let Some(mut file) = opened_at(&path, left.bytes)? else {
            return Ok(None);
        };
        let (mut written, mut chunk) = (Xxh3Default::new(), vec![0; BUFFER_BYTES]);
        file.rewind().map_err(Error::io("read", &path))?;
        loop {
            let count = file.read(&mut chunk).map_err(Error::io("read", &path))?;
            match chunk.get(..count) {
                Some(read) if count > 0 => written.update(read),
                _ => break,
            }
        }
        Ok((written.digest() == left.checksum).then(|| Texts {
            slot: slot.to_owned(),
            path,
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            bytes: left.bytes,
            written,
        }))
    }

    /// Has all texts that came in the file, and says what that has.
    pub(super) fn flush(&mut self) -> Result<Prefix, Error> {
        self.file.flush().map_err(Error::io("write", &self.path))?;
        Ok(Prefix {
            bytes: self.bytes,
            checksum: self.written.digest(),
        })
    }

    /// The name of its file.
    pub(super) fn name(&self) -> OsString {
        self.path.file_name().unwrap_or_default().to_owned()
    }

    pub(super) fn push(&mut self, text: &str) -> Result<(), Error> {
        let length = u16::try_from(text.len()).map_err(|_| {
            let found = format!("{} bytes", text.len());
            Error::argument("text of a key", format!("at most {TEXT_BYTES_MAX} bytes"), found)
        })?;
        self.bytes += 2 + u64::from(length);
        self.written.update(&length.to_le_bytes());
        self.written.update(text.as_bytes());
        self.file
            .write_all(&length.to_le_bytes())
            .and_then(|()| self.file.write_all(text.as_bytes()))
            .map_err(Error::io("write", &self.path))
    }

    /// Whether all texts of each of the keys `met`, which are in order, are the same.
    ///
    /// # Errors
    /// [`Error::Collision`], naming two that are not; [`Error::Io`].
    pub(super) fn check(&mut self, met: &[u64], memory_bytes: usize) -> Result<(), Error> {
        self.flush()?;
        let mut left = met.to_vec();
        while !left.is_empty() {
            pass(
                self.file.get_mut(),
                &self.path,
                &self.slot,
                &mut left,
                memory_bytes,
            )?;
        }
        Ok(())
    }

    /// They are needed no more.
    pub(super) fn remove(self) -> Result<(), Error> {
        fs::remove_file(&self.path).map_err(Error::io("remove", &self.path))
    }
}

/// Checks as many of the keys `left`, which are in order, as fit into memory with their first texts, and takes them out.
fn pass(
    file: &mut File,
    path: &Path,
    slot: &str,
    left: &mut Vec<u64>,
    memory_bytes: usize,
) -> Result<(), Error> {
    let mut firsts: HashMap<u64, String> = HashMap::new();
    let (mut bytes, mut is_full, mut collision) = (0_usize, false, None);
    let read = each(file, &mut |text| {
        let key = text_key(slot, text);
        if left.binary_search(&key).is_err() {
            return;
        }
        match firsts.get(&key) {
            Some(first) if first == text => {}
            Some(first) => {
                collision = collision.take().or(Some(Error::Collision {
                    key,
                    first: first.clone(),
                    second: text.to_owned(),
                }));
            }
            None => {
                // Once a key had to wait for the next pass, every other does: its later texts would be held against nothing.
                bytes = bytes.saturating_add(text.len() + ENTRY_BYTES);
                is_full |= bytes > memory_bytes && !firsts.is_empty();
                if !is_full {
                    firsts.insert(key, text.to_owned());
                }
            }
        }
    });
    read.map_err(Error::io("read", path))?;
    // A key that no text has is checked as well.
    left.retain(|key| is_full && !firsts.contains_key(key));
    collision.map_or(Ok(()), Err)
}

/// Visits all texts, in the order in which they came.
fn each(file: &mut File, visit: &mut dyn FnMut(&str)) -> std::io::Result<()> {
    file.rewind()?;
    let mut left = file.metadata()?.len();
    let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
    let mut bytes = Vec::new();
    while left > 0 {
        let mut length = [0; 2];
        file.read_exact(&mut length)?;
        let length = u16::from_le_bytes(length);
        bytes.resize(length.into(), 0);
        file.read_exact(&mut bytes)?;
        left = left.saturating_sub(2 + u64::from(length));
        let text = std::str::from_utf8(&bytes);
        visit(text.map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Found by walking the hash in circles; in any other slot their keys differ.
    const MET: [&str; 2] = ["s9YUnHpEmBF", "7MQZR649emD"];

    fn check(slot: &str, texts: &[&str], memory_bytes: usize, expected: Option<&str>) {
        let dir = tempfile::tempdir().unwrap();
        let mut all = Texts::create(dir.path(), 3, slot).unwrap();
        let mut keys: Vec<u64> = texts.iter().map(|text| text_key(slot, text)).collect();
        texts.iter().for_each(|text| all.push(text).unwrap());
        keys.sort_unstable();
        let met = keys.chunk_by(|a, b| a == b).filter(|same| same.len() > 1);
        let met: Vec<u64> = met.map(|same| same[0]).collect();
        let error = all.check(&met, memory_bytes).err().map(|error| error.to_string());
        match expected {
            Some(expected) => assert!(error.as_ref().unwrap().contains(expected), "{error:?}"),
            None => {
                assert_eq!(error, None);
                all.remove().unwrap();
                assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
            }
        }
    }

    #[test]
    fn two_texts_of_one_key_are_named() {
        let [a, b] = MET;
        assert_eq!(text_key("", a), text_key("", b));
        let named = "\"s9YUnHpEmBF\" and \"7MQZR649emD\" have the same key, 14280323590514496615";
        // With memory for one text at a time, and for all.
        for memory_bytes in [0, 1 << 20] {
            check("", &[], memory_bytes, None);
            check("", &["a", "b", "a", "", "b", "a"], memory_bytes, None);
            check("", &["a", a, "b", "a", b, "b"], memory_bytes, Some(named));
            check(
                "",
                &[b, a],
                memory_bytes,
                Some("\"7MQZR649emD\" and \"s9YUnHpEmBF\""),
            );
            check("", &[a, a], memory_bytes, None);
            check("film", &["a", a, "b", "a", b, "b"], memory_bytes, None);
        }
    }

    /// How many times the file is read for keys that are all there twice.
    fn check_passes(texts: &[String], memory_bytes: usize, expected: usize) {
        let dir = tempfile::tempdir().unwrap();
        let mut all = Texts::create(dir.path(), 0, "").unwrap();
        for text in texts.iter().chain(texts) {
            all.push(text).unwrap();
        }
        let mut left: Vec<u64> = texts.iter().map(|text| text_key("", text)).collect();
        left.sort_unstable();
        let mut file = all.file.into_inner().unwrap();
        let mut passes = 0;
        while !left.is_empty() {
            pass(&mut file, &all.path, "", &mut left, memory_bytes).unwrap();
            passes += 1;
        }
        assert_eq!(passes, expected);
    }

    #[test]
    fn the_bytes_of_texts_fill_the_memory_not_the_longest_of_them() {
        let mut texts: Vec<String> = (10_000..12_000).map(|number| number.to_string()).collect();
        // 69 bytes each.
        check_passes(&texts, 2000 * 69, 1);
        check_passes(&texts, 1000 * 69, 2);
        check_passes(&texts, 2000 * 69 - 1, 2);
        texts.push("a".repeat(TEXT_BYTES_MAX));
        check_passes(&texts, 2000 * 69, 2);
        texts.rotate_right(1);
        check_passes(&texts, 2000 * 69, 2);
        check_passes(&texts[..5], 0, 5);
    }

    #[test]
    fn a_text_has_a_length_that_two_bytes_hold() {
        let dir = tempfile::tempdir().unwrap();
        let mut all = Texts::create(dir.path(), 0, "").unwrap();
        let longest = "é".repeat(TEXT_BYTES_MAX / 2) + "a";
        all.push(&longest).unwrap();
        let error = all.push(&(longest + "b")).unwrap_err().to_string();
        assert!(
            error.contains("at most 65535 bytes, found 65536 bytes"),
            "{error}"
        );
    }
}
