//! Whether a shared library is whole. It loads nothing and resolves nothing.
//!
//! The loader maps a file by what its headers promise. Where the file ends earlier, the first touch of a page behind its end kills
//! the process by SIGBUS, and no error can be had any more. So the invariant: what [`check`] lets through has every byte that its
//! headers say will be mapped.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes of the header of a 64-bit ELF file, and of one of its program headers.
const HEADER: usize = 64;
const PROGRAM_HEADER: u64 = 56;
/// A program header of this type is mapped.
const PT_LOAD: u32 = 1;

/// What is wrong with a file that should be a shared library.
#[derive(Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It cannot be read.
    Unreadable(String),
    /// It is another kind of file.
    NotALibrary,
    /// It has fewer bytes than it promises.
    Cut {
        /// What it promises.
        promised: u64,
        /// What it has.
        has: u64,
    },
}

/// Reads the headers of the file at `path`.
///
/// # Errors
/// What is wrong with it.
///
/// ```
/// use millpond_backends_elf::{Flaw, check};
///
/// let this = std::env::current_exe()?;
/// assert_eq!(check(&this), Ok(())); // a program is as good as a library here
/// assert_eq!(check("/dev/null".as_ref()), Err(Flaw::NotALibrary));
/// # std::io::Result::Ok(())
/// ```
pub fn check(path: &Path) -> Result<(), Flaw> {
    let unreadable = |error: io::Error| Flaw::Unreadable(error.to_string());
    let mut file = File::open(path).map_err(unreadable)?;
    let has = file.metadata().map_err(unreadable)?.len();
    let mut header = Vec::with_capacity(HEADER);
    (&mut file)
        .take(HEADER as u64)
        .read_to_end(&mut header)
        .map_err(unreadable)?;
    // Magic, 64 bits, little-endian.
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Err(Flaw::NotALibrary);
    }
    let cut = |promised| Flaw::Cut { promised, has };
    if header.len() < HEADER {
        return Err(cut(HEADER as u64));
    }
    let number = |bytes: &[u8], at: usize, len: usize| {
        let bytes = bytes.get(at..at + len).unwrap_or_default();
        bytes
            .iter()
            .rev()
            .fold(0u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let (table, size, count) = (
        number(&header, 32, 8),
        number(&header, 54, 2),
        number(&header, 56, 2),
    );
    if size != PROGRAM_HEADER || count == 0 {
        return Err(Flaw::NotALibrary);
    }
    let end = table.saturating_add(size * count);
    if end > has {
        return Err(cut(end));
    }
    file.seek(SeekFrom::Start(table)).map_err(unreadable)?;
    let mut programs = Vec::new();
    file.take(size * count)
        .read_to_end(&mut programs)
        .map_err(unreadable)?;
    let ends = programs
        .chunks_exact(PROGRAM_HEADER as usize)
        .filter(|program| number(program, 0, 4) == u64::from(PT_LOAD))
        .map(|program| number(program, 8, 8).saturating_add(number(program, 32, 8)));
    match ends.max() {
        None => Err(Flaw::NotALibrary),
        Some(promised) if promised > has => Err(cut(promised)),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

    /// A program is as good as a library here.
    fn whole() -> Vec<u8> {
        fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    fn check_bytes(bytes: &[u8]) -> Result<(), Flaw> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("library.so");
        fs::write(&path, bytes).unwrap();
        check(&path)
    }

    #[test]
    fn whole_files_pass_and_cut_ones_do_not() {
        let whole = whole();
        assert_eq!(check_bytes(&whole), Ok(()));
        for length in [20, HEADER, 200, whole.len() / 10] {
            let found = check_bytes(&whole[..length]);
            assert!(
                matches!(found, Err(Flaw::Cut { has, promised }) if has == length as u64 && promised > has),
                "{length}: {found:?}"
            );
        }
    }

    #[test]
    fn other_files_are_told_apart() {
        assert_eq!(check_bytes(b""), Err(Flaw::NotALibrary));
        assert_eq!(check_bytes(b"text"), Err(Flaw::NotALibrary));
        let mut no_programs = whole();
        no_programs[56..58].fill(0);
        assert_eq!(check_bytes(&no_programs), Err(Flaw::NotALibrary));
        let mut far = whole();
        far[32..40].fill(0xff);
        assert!(matches!(check_bytes(&far), Err(Flaw::Cut { .. })));
        assert!(matches!(
            check(Path::new("/nowhere/at/all")),
            Err(Flaw::Unreadable(_))
        ));
    }
}
