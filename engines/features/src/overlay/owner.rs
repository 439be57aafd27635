//! `TABLE` in the folder of an overlay's log: the name of the table whose upserts the log has.
//!
//! Not the server's name of the table: its manifests have this one, so that a fold knows it too, and folders may move. Invariant: a
//! log that names a table is neither opened over nor folded into another one.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::files;
use crate::table::Table;

/// The name of the file.
const FILE: &str = "TABLE";
/// Until it is whole. The folder's lock is held, so nobody else writes it.
const UNFINISHED: &str = ".TABLE.unfinished";
/// More than any such file has: names have 128 bytes at most.
const BYTES_MAX: u64 = 1024;

/// Whether the log names the table; a log from before there were names does not.
///
/// # Errors
/// [`Error::Overlay`] where the log names another table, or the file says anything else or cannot be read.
pub(super) fn check(dir: &Path, table: &Table) -> Result<bool, Error> {
    let problem = |problem: String| Error::Overlay {
        path: dir.to_path_buf(),
        problem,
    };
    let named = read(&dir.join(FILE)).map_err(|error| {
        problem(format!(
            "its file {FILE}, which names the log's table, cannot be read: {error}; let this user read it, or remove it if the log has \
             upserts of table {:?}",
            table.name()
        ))
    });
    match named? {
        None => Ok(false),
        Some(Some(name)) if name == table.name() => Ok(true),
        Some(Some(name)) => Err(problem(format!(
            "its log has upserts of table {name:?}, as its file {FILE} says, and not of {expected:?}: name the folder of the log of \
             {expected:?} (features.NAME.overlay.path), or remove {FILE} if {name:?} is another name of the same table",
            expected = table.name()
        ))),
        Some(None) => Err(problem(format!(
            "its file {FILE} names no table in a way that this build reads: remove {FILE} if the log has upserts of table {:?}",
            table.name()
        ))),
    }
}

/// Names the table of a log that names none. The caller holds the folder's lock, and syncs the folder.
///
/// # Errors
/// [`Error::Io`]; the file is as it was.
pub(super) fn write(dir: &Path, table: &Table) -> Result<(), Error> {
    let unfinished = dir.join(UNFINISHED);
    let written = File::create(&unfinished).and_then(|mut file| {
        file.write_all(encode(table.name()).as_bytes())?;
        file.sync_all()
    });
    let named = written.and_then(|()| fs::rename(&unfinished, dir.join(FILE)));
    if named.is_err() {
        // Nobody reads what is left of it.
        let _ = fs::remove_file(&unfinished);
    }
    named.map_err(Error::io("write", &dir.join(FILE)))
}

/// The name in the file, if it has one; nothing where there is no file.
fn read(path: &Path) -> io::Result<Option<Option<String>>> {
    let read = files::open(path).and_then(|file| {
        let mut bytes = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    match read {
        Ok(bytes) => Ok(Some(decode(&bytes))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn encode(name: &str) -> String {
    let said = format!("format 1\ntable {name}\n");
    let checksum = xxh3_64(said.as_bytes());
    format!("{said}checksum {checksum:016x}\n")
}

fn decode(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let name = text.lines().nth(1)?.strip_prefix("table ")?;
    // One way of writing it, checksum and all.
    (encode(name) == text).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Schema;
    use crate::write::Writer;

    fn table(dir: &Path, name: &str) -> Table {
        let writer = Writer::create(&dir.join(name), name, 1, Schema::floats(2), 1).unwrap();
        Table::open(&writer.finish().unwrap().path).unwrap()
    }

    #[test]
    fn a_log_names_one_table() {
        let dir = tempfile::tempdir().unwrap();
        let [films, users] = ["films", "users"].map(|name| table(dir.path(), name));
        let log = dir.path().join("log");
        fs::create_dir(&log).unwrap();
        assert!(!check(&log, &films).unwrap());
        write(&log, &films).unwrap();
        assert!(check(&log, &films).unwrap());
        let refused = check(&log, &users).unwrap_err().to_string();
        let told = [
            log.to_str().unwrap(),
            "\"films\"",
            "\"users\"",
            "overlay.path",
            "remove TABLE",
        ];
        assert!(told.iter().all(|told| refused.contains(told)), "{refused}");
        let names = fs::read_dir(&log)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), [FILE]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let films = table(dir.path(), "films");
        fs::create_dir(dir.path().join(FILE)).unwrap();
        let refused = check(dir.path(), &films).unwrap_err().to_string();
        let told = "its file TABLE, which names the log's table, cannot be read: it is no regular file; let this user read it, or remove it if \
                    the log has upserts of table \"films\"";
        assert!(
            refused.starts_with("overlay ") && refused.ends_with(told),
            "{refused}"
        );
    }

    #[test]
    fn a_flipped_bit_or_a_cut_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let films = table(dir.path(), "films");
        write(dir.path(), &films).unwrap();
        let path = dir.path().join(FILE);
        let whole = fs::read(&path).unwrap();
        let check = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let refused = check(dir.path(), &films).unwrap_err().to_string();
            assert!(refused.contains("remove TABLE if"), "{refused}");
        };
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            check(&bytes);
        }
        (0..whole.len()).for_each(|end| check(&whole[..end]));
        check(&[&whole[..], b"\n"].concat());
    }
}
