//! Options as people write them, on the command line and in Python.
//!
//! Reads no file. Its invariant: what is refused is answered with the form that is expected.

use millpond_engines_features::{DIM_MAX, Numbers};

use crate::build::ColumnOptions;
use crate::input::{Format, Source};
use millpond_engines_features::write::Duplicates;

const COLUMN: &str =
    "expected NAME=COLUMNS or NAME=COLUMNS:TYPE, as price=net,gross:f16 or document=body:bytes";
const MEMORY_MIN_BYTES: usize = 1 << 20;

/// How a column is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// As what.
    pub numbers: Numbers,
    /// Of bytes of a fixed length: how many.
    pub width: Option<usize>,
}

impl Stored {
    /// Reads `f16`, `bytes` or `bytes:16`.
    ///
    /// # Errors
    /// What is expected.
    pub fn parse(text: &str) -> Result<Stored, String> {
        let of = |numbers, width| Ok(Stored { numbers, width });
        if text == "bytes" {
            return of(Numbers::VaryingBytes, None);
        }
        if let Some(width) = text.strip_prefix("bytes:") {
            let parsed = width.parse().ok();
            let parsed = parsed.filter(|width| (1..=DIM_MAX).contains(width));
            let expected = || format!("expected bytes:1 to bytes:{DIM_MAX}");
            return of(Numbers::Bytes, Some(parsed.ok_or_else(expected)?));
        }
        let known = || {
            Numbers::ALL
                .into_iter()
                .filter(|(_, numbers)| !numbers.is_bytes())
        };
        let found = known().find(|(name, _)| *name == text);
        let names: Vec<&str> = known().map(|(name, _)| name).collect();
        let (_, numbers) =
            found.ok_or_else(|| format!("expected {}, bytes or bytes:16", names.join(", ")))?;
        of(numbers, None)
    }
}

impl ColumnOptions {
    /// Reads `NAME=COLUMNS` or `NAME=COLUMNS:TYPE`.
    ///
    /// # Errors
    /// What is expected.
    pub fn parse(text: &str) -> Result<ColumnOptions, String> {
        let (name, rest) = text.split_once('=').ok_or(COLUMN)?;
        let (columns, stored) = match rest.rsplit_once(':') {
            None => (rest, None),
            Some((before, width)) if width.parse::<u64>().is_ok() => {
                let (columns, kind) = before.rsplit_once(':').ok_or(COLUMN)?;
                (columns, Some(Stored::parse(&format!("{kind}:{width}"))?))
            }
            Some((columns, kind)) => (columns, Some(Stored::parse(kind)?)),
        };
        if name.is_empty() || columns.split(',').any(str::is_empty) {
            return Err(COLUMN.to_owned());
        }
        Ok(ColumnOptions {
            name: name.to_owned(),
            source: Source::Columns(columns.split(',').map(str::to_owned).collect()),
            numbers: stored.map(|stored| stored.numbers),
            width: stored.and_then(|stored| stored.width),
        })
    }
}

/// The default row: the bytes of a text where these are all that rows have, else numbers with commas between.
///
/// # Errors
/// What is expected.
pub fn parse_default_row(text: &str, columns: &[ColumnOptions]) -> Result<Vec<f32>, String> {
    if let [only] = columns
        && only.numbers == Some(Numbers::VaryingBytes)
    {
        return Ok(text.bytes().map(f32::from).collect());
    }
    let numbers = text.split(',').map(|number| number.trim().parse::<f32>());
    let numbers: Result<Vec<f32>, _> = numbers.collect();
    numbers.map_err(|_| format!("expected numbers for the default row, as 0.5,-1,0, found {text:?}"))
}

/// Reads `error`, `first` or `last`.
///
/// # Errors
/// What is expected.
pub fn parse_duplicates(text: &str) -> Result<Duplicates, String> {
    let known = Duplicates::ALL.into_iter().find(|(name, _)| *name == text);
    known
        .map(|(_, duplicates)| duplicates)
        .ok_or_else(|| "expected error, first or last".to_owned())
}

/// Reads the name of a format.
///
/// # Errors
/// What is expected.
pub fn parse_format(text: &str) -> Result<&'static Format, String> {
    Format::by_name(text).ok_or_else(|| {
        let names: Vec<&str> = Format::all().iter().map(|format| format.name()).collect();
        format!("expected {}", names.join(", "))
    })
}

/// A number of bytes, with a unit of 1,024 or none.
///
/// # Errors
/// What is expected.
pub fn parse_memory(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text.get(digits.len()..).unwrap_or_default() {
        "" | "B" => Some(1_usize),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    let bytes = digits.parse::<usize>().ok().zip(unit);
    bytes
        .and_then(|(count, unit)| count.checked_mul(unit))
        .filter(|bytes| *bytes >= MEMORY_MIN_BYTES)
        .ok_or_else(|| "expected 1MiB or more, as 512MiB or 4GiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name, sources, how they are stored, and a width.
    type Read<'a> = (&'a str, &'a [&'a str], Option<Numbers>, Option<usize>);

    fn check(text: &str, expected: Result<Read<'_>, &str>) {
        let found = ColumnOptions::parse(text);
        let expected = expected.map(|(name, columns, numbers, width)| ColumnOptions {
            name: name.to_owned(),
            source: Source::Columns(columns.iter().map(|&column| column.to_owned()).collect()),
            numbers,
            width,
        });
        match (&found, expected) {
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{text}: {found}"),
            (found, expected) => assert_eq!(found.as_ref().ok(), expected.ok().as_ref(), "{text}"),
        }
    }

    #[test]
    fn columns_have_a_name_sources_and_a_type() {
        check("a=b", Ok(("a", &["b"], None, None)));
        check("a=b,c:f16", Ok(("a", &["b", "c"], Some(Numbers::F16), None)));
        check("a=b:c:bf16", Ok(("a", &["b:c"], Some(Numbers::Bf16), None)));
        check("a=b:bytes", Ok(("a", &["b"], Some(Numbers::VaryingBytes), None)));
        check("a=b:bytes:16", Ok(("a", &["b"], Some(Numbers::Bytes), Some(16))));
        check(
            "a=b:c:bytes:1",
            Ok(("a", &["b:c"], Some(Numbers::Bytes), Some(1))),
        );
        check("a=b:bytes:0", Err("expected bytes:1 to bytes:65536"));
        check("a=b:bytes:65537", Err("expected bytes:1 to bytes:65536"));
        check(
            "a=b:f16:4",
            Err("expected f32, f16, bf16, i8_scaled, bytes or bytes:16"),
        );
        check(
            "a=b:f15",
            Err("expected f32, f16, bf16, i8_scaled, bytes or bytes:16"),
        );
        for wrong in ["a", "=b", "a=", "a=b,", "a=b:4", "a=:bytes:4"] {
            check(wrong, Err("expected NAME=COLUMNS or NAME=COLUMNS:TYPE"));
        }
    }

    #[test]
    fn default_rows_are_numbers_or_the_text_of_bytes() {
        let of = |text, column: &str| {
            let columns = [ColumnOptions::parse(column).ok()];
            parse_default_row(text, &columns.into_iter().flatten().collect::<Vec<_>>())
        };
        assert_eq!(of("0.5, -1", "a=b:f16"), Ok(vec![0.5, -1.0]));
        assert_eq!(of("{}", "a=b:bytes"), Ok(vec![123.0, 125.0]));
        assert_eq!(of("", "a=b:bytes"), Ok(vec![]));
        assert_eq!(of("1,2", "a=b:bytes:2"), Ok(vec![1.0, 2.0]));
        assert!(of("{}", "a=b:bytes:2").is_err());
    }

    #[test]
    fn memory_has_a_unit_or_none() {
        assert_eq!(parse_memory("1048576"), Ok(1 << 20));
        assert_eq!(parse_memory("2MiB"), Ok(2 << 20));
        assert_eq!(parse_memory("1GiB"), Ok(1 << 30));
        for wrong in ["", "1", "1MB", "99999999999GiB", "1 MiB"] {
            assert!(parse_memory(wrong).is_err(), "{wrong}");
        }
    }
}
