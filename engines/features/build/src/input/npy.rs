//! Pairs of NumPy's NPY files: one of keys, of shape `[n]`, and one of rows, of shape `[n, dim]`.
//!
//! Both are read in blocks, never whole. Its invariant: a file is as long as its header says before anything of it is read.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use half::f16;

use super::{BLOCK_NUMBERS, BLOCK_ROWS, Block, Format, Input, Reader, Wanted, bad};
use crate::error::{Error, Place};

pub(super) const FORMAT: Format = Format {
    name: "npy",
    extensions: &["npy"],
    open: |input, wanted| Ok(Box::new(NpyReader::open(input, wanted)?)),
};

const MAGIC: &[u8] = b"\x93NUMPY";
const HEADER_BYTES_MAX: usize = 1 << 16;

struct NpyReader {
    keys: Array,
    rows: Option<Array>,
    row: u64,
    bytes: Vec<u8>,
}

/// An opened file, read up to some row.
struct Array {
    path: PathBuf,
    file: BufReader<File>,
    /// As `<f4`.
    kind: String,
    len: u64,
    /// Elements of a row.
    dim: usize,
}

impl NpyReader {
    fn open(input: &Input, wanted: &Wanted<'_>) -> Result<NpyReader, Error> {
        let keys = Array::open(&input.path)?;
        if keys.dim != 1 {
            return Err(keys.wrong("an array of one dimension", format!("rows of {}", keys.dim)));
        }
        if !["<u8", "<i8"].contains(&keys.kind.as_str()) {
            return Err(keys.wrong("keys of uint64 or int64", &keys.kind));
        }
        let rows = match (wanted.sources, &input.rows_path) {
            ([], _) => None,
            ([_], Some(path)) => Some(Array::open(path)?),
            ([_], None) => return Err(keys.wrong("two files, KEYS.npy,ROWS.npy", "one")),
            _ => {
                return Err(keys.wrong(
                    "one column of numbers from a pair of NPY files",
                    wanted.sources.len(),
                ));
            }
        };
        if let Some(rows) = &rows {
            if rows.len != keys.len {
                return Err(rows.wrong(&format!("as many rows as there are keys, {}", keys.len), rows.len));
            }
            let is_numbers = ["<f2", "<f4", "<f8"].contains(&rows.kind.as_str());
            let is_bytes = rows.kind == "|u1" || ["|S", "|V"].iter().any(|kind| rows.kind.starts_with(kind));
            match wanted.is_bytes(0) {
                true if !is_bytes => return Err(rows.wrong("rows of bytes (S, V or uint8)", &rows.kind)),
                false if !is_numbers => {
                    return Err(rows.wrong("rows of float16, float32 or float64", &rows.kind));
                }
                _ => {}
            }
        }
        Ok(NpyReader {
            keys,
            rows,
            row: 0,
            bytes: Vec::new(),
        })
    }
}

impl Reader for NpyReader {
    fn read(&mut self, block: &mut Block) -> Result<bool, Error> {
        block.begin(self.row, usize::from(self.rows.is_some()));
        let dim = self.rows.as_ref().map_or(1, |rows| rows.dim);
        let most = (BLOCK_NUMBERS / dim.max(1)).clamp(1, BLOCK_ROWS);
        let count = (self.keys.len - self.row).min(most as u64) as usize;
        self.keys.read(count, &mut self.bytes)?;
        for (row, bytes) in (self.row..).zip(self.bytes.as_chunks().0) {
            let pushed = block.push_key(u64::from_le_bytes(*bytes));
            pushed.map_err(|problem| bad(&self.keys.path, Place::Row(row), "key", problem))?;
        }
        if let (Some(rows), Some(lists)) = (&mut self.rows, block.columns.first_mut()) {
            rows.read(count, &mut self.bytes)?;
            let size = rows.element_bytes();
            for (row, bytes) in (self.row..).zip(self.bytes.chunks_exact(size * dim)) {
                if lists.is_bytes() {
                    lists.push_bytes(bytes);
                    let ended = lists.end();
                    ended.map_err(|problem| bad(&rows.path, Place::Row(row), super::VECTOR, problem))?;
                    continue;
                }
                let pushed = bytes
                    .chunks_exact(size)
                    .try_for_each(|bytes| lists.push(number(bytes)));
                let pushed = pushed.and_then(|()| lists.end());
                pushed.map_err(|problem| bad(&rows.path, Place::Row(row), super::VECTOR, problem))?;
            }
        }
        self.row += count as u64;
        Ok(count > 0)
    }

    fn share(&self) -> f64 {
        self.row as f64 / self.keys.len.max(1) as f64
    }
}

/// An element of 2, 4 or 8 bytes.
fn number(bytes: &[u8]) -> f64 {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        f64::from(f32::from_le_bytes(bytes))
    } else if let Ok(bytes) = <[u8; 8]>::try_from(bytes) {
        f64::from_le_bytes(bytes)
    } else {
        let bytes = <[u8; 2]>::try_from(bytes).unwrap_or_default();
        f16::from_le_bytes(bytes).to_f64()
    }
}

impl Array {
    fn open(path: &Path) -> Result<Array, Error> {
        let file = File::open(path).map_err(Error::open(path))?;
        let length = file.metadata().map_err(Error::read(path))?.len();
        let mut array = Array {
            path: path.to_path_buf(),
            file: BufReader::new(file),
            kind: String::new(),
            len: 0,
            dim: 1,
        };
        let (header, header_end) = array.header()?;
        let said =
            Header::parse(&header).ok_or_else(|| array.wrong("a header of NumPy", super::shown(&header)))?;
        if said.fortran_order && said.shape.len() > 1 {
            return Err(array.wrong(
                "rows one behind another (numpy.ascontiguousarray)",
                "columns, fortran_order",
            ));
        }
        (array.len, array.dim) = match said.shape.as_slice() {
            [len] => (*len, 1),
            [len, dim] => (*len, usize::try_from(*dim).unwrap_or(usize::MAX)),
            shape => return Err(array.wrong("shape (n,) or (n, dim)", format!("{shape:?}"))),
        };
        array.kind = said.kind;
        if array.dim == 0 || array.element_bytes() == 0 {
            return Err(array.wrong("rows of numbers", super::shown(&header)));
        }
        let row_bytes = (array.dim as u64).checked_mul(array.element_bytes() as u64);
        let bytes = row_bytes.and_then(|bytes| bytes.checked_mul(array.len));
        let expected = bytes.and_then(|bytes| bytes.checked_add(header_end));
        if expected != Some(length) {
            let expected = expected.map_or("fewer than 2^64".to_owned(), |bytes| bytes.to_string());
            return Err(array.wrong(&format!("{expected} bytes, as its header says"), length));
        }
        Ok(array)
    }

    /// The text of the header, and where the array begins.
    fn header(&mut self) -> Result<(String, u64), Error> {
        let mut head = [0; 10];
        if self.file.read_exact(&mut head).is_err() || !head.starts_with(MAGIC) {
            return Err(self.wrong("a file of NumPy", "another"));
        }
        let (version, short) = (head[6], u16::from_le_bytes([head[8], head[9]]));
        let mut rest = [0; 2];
        let (length, begin) = match version {
            1 => (usize::from(short), 10),
            2 | 3 => {
                let read = self.file.read_exact(&mut rest);
                read.map_err(Error::read(&self.path))?;
                let high = u16::from_le_bytes(rest);
                (usize::from(short) | usize::from(high) << 16, 12)
            }
            other => return Err(self.wrong("version 1, 2 or 3 of the format", other)),
        };
        if length > HEADER_BYTES_MAX {
            return Err(self.wrong(&format!("a header of at most {HEADER_BYTES_MAX} bytes"), length));
        }
        let mut header = vec![0; length];
        if self.file.read_exact(&mut header).is_err() {
            return Err(self.wrong("a whole header", "the end of the file"));
        }
        let text = String::from_utf8_lossy(&header).into_owned();
        Ok((text, begin + length as u64))
    }

    fn element_bytes(&self) -> usize {
        self.kind
            .get(2..)
            .and_then(|bytes| bytes.parse().ok())
            .unwrap_or(0)
    }

    /// Reads the bytes of the next `count` rows.
    fn read(&mut self, count: usize, bytes: &mut Vec<u8>) -> Result<(), Error> {
        bytes.resize(count * self.dim * self.element_bytes(), 0);
        self.file.read_exact(bytes).map_err(Error::read(&self.path))
    }

    fn wrong(&self, expected: &str, found: impl ToString) -> Error {
        Error::Array {
            path: self.path.clone(),
            expected: expected.to_owned(),
            found: found.to_string(),
        }
    }
}

/// What the dictionary in a header says.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    kind: String,
    fortran_order: bool,
    shape: Vec<u64>,
}

impl Header {
    /// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
    fn parse(text: &str) -> Option<Header> {
        let value = |name: &str| {
            let (_, rest) = text.split_once(&format!("'{name}'"))?;
            rest.trim_start().strip_prefix(':').map(str::trim_start)
        };
        let kind = value("descr")?.strip_prefix('\'')?.split_once('\'')?.0;
        let order = value("fortran_order")?;
        let (shape, _) = value("shape")?.strip_prefix('(')?.split_once(')')?;
        let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
        Some(Header {
            kind: kind.to_owned(),
            fortran_order: match (order.starts_with("False"), order.starts_with("True")) {
                (true, _) => false,
                (_, true) => true,
                _ => return None,
            },
            shape: sizes.map(|size| size.parse().ok()).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn headers_are_read_or_refused() {
        let check = |text: &str, expected: Option<(&str, bool, &[u64])>| {
            let expected = expected.map(|(kind, fortran_order, shape)| Header {
                kind: kind.to_owned(),
                fortran_order,
                shape: shape.to_vec(),
            });
            assert_eq!(Header::parse(text), expected, "{text}");
        };
        let usual = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }    \n";
        check(usual, Some(("<f4", false, &[2, 3])));
        check(
            "{'shape':(7,),'fortran_order':True,'descr':'<u8'}",
            Some(("<u8", true, &[7])),
        );
        check(
            "{'descr': '<f4', 'fortran_order': False, 'shape': (), }",
            Some(("<f4", false, &[])),
        );
        check(
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
            None,
        );
        check("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", None);
        check("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", None);
        check("{'descr': '<f4', 'fortran_order': False, 'shape': (2", None);
        check("", None);
    }
}
