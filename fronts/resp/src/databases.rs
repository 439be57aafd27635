//! What the numbers of SELECT hold, as the server says; and how a key of it is written.
//!
//! It asks no engine. Its invariant: a key means one row, or it is refused with how it is written.

use crate::cursors::Cursors;
use std::fmt;

/// One number, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    /// What SELECT calls it by.
    pub number: u32,
    /// What calls name it by: a table of `[features]`, or a store of `[ordered]`.
    pub name: String,
    /// What it is.
    pub holds: Holds,
}

/// What a database is: each kind has commands of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// A feature table, whose keys are written so.
    Table(Keys),
    /// An ordered store, whose keys are any bytes.
    Store,
}

/// How the keys of a table are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// Decimal digits.
    Decimal,
    /// The eight bytes of a number, little-endian.
    Raw,
    /// Any bytes, of which the table has the hash alone.
    Text,
}

/// All databases, in the order of their numbers.
#[derive(Debug, Default)]
pub struct Databases {
    all: Vec<Database>,
    cursors: Cursors,
}

impl Databases {
    /// These, whose numbers differ.
    pub fn new(mut databases: Vec<Database>) -> Databases {
        databases.sort_by_key(|database| database.number);
        Databases {
            all: databases,
            cursors: Cursors::default(),
        }
    }

    /// The cursors of scans of stores.
    pub(crate) fn cursors(&self) -> &Cursors {
        &self.cursors
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Database> {
        self.all.iter()
    }

    /// The database of a number.
    #[inline]
    pub fn find(&self, number: u32) -> Option<&Database> {
        self.all.iter().find(|database| database.number == number)
    }

    /// The same.
    ///
    /// # Errors
    /// What to answer where it holds nothing.
    #[inline]
    pub fn get(&self, number: u32) -> Result<&Database, String> {
        self.find(number).ok_or_else(|| self.nothing(number))
    }

    #[cold]
    fn nothing(&self, number: u32) -> String {
        let numbers: Vec<String> = self
            .all
            .iter()
            .map(|database| database.number.to_string())
            .collect();
        let numbers = numbers.join(", ");
        format!(
            "ERR DB {number} holds nothing here; SELECT one of {numbers} (resp_database of a table or a store)"
        )
    }
}

impl Database {
    /// How the keys of its table are written, if it is one.
    #[inline]
    pub(crate) fn table_keys(&self) -> Option<Keys> {
        match self.holds {
            Holds::Table(keys) => Some(keys),
            Holds::Store => None,
        }
    }
}

impl Keys {
    /// The number that a key of a command means.
    ///
    /// # Errors
    /// What to answer where it means none.
    #[inline]
    pub(crate) fn read(self, table: &str, word: &[u8]) -> Result<u64, String> {
        let key = match self {
            Keys::Decimal => decimal(word),
            Keys::Raw => word.try_into().ok().map(u64::from_le_bytes),
            Keys::Text => None,
        };
        key.ok_or_else(|| self.refuse(table, word))
    }

    #[cold]
    fn refuse(self, table: &str, word: &[u8]) -> String {
        let expected = match self {
            Keys::Decimal => "digits of a number up to 18446744073709551615",
            Keys::Raw => "8 bytes, as resp_keys = \"raw\" has them",
            Keys::Text => "a text",
        };
        let shown = word.get(..64).unwrap_or(word).escape_ascii();
        format!(
            "ERR '{shown}' is no key of table '{table}'; expected {expected} \
             (if its keys are texts, set features.{table}.resp_keys = \"text\")"
        )
    }

    /// Writes a key as commands have it, in place of what `out` held.
    pub(crate) fn write(self, key: u64, out: &mut Vec<u8>) {
        out.clear();
        match self {
            // Nobody has the text of a hash; SCAN is refused there.
            Keys::Decimal | Keys::Text => out.extend_from_slice(key.to_string().as_bytes()),
            Keys::Raw => out.extend_from_slice(&key.to_le_bytes()),
        }
    }
}

/// Digits, which may begin with zeros.
#[inline]
fn decimal(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.wrapping_sub(b'0');
        match digit {
            0..=9 => number.checked_mul(10)?.checked_add(u64::from(digit)),
            _ => None,
        }
    })
}

impl fmt::Display for Holds {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holds::Table(_) => out.write_str("feature table"),
            Holds::Store => out.write_str("ordered store"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_they_are_read() {
        let check = |keys: Keys, word: &[u8], expected: Result<u64, &str>| {
            let found = keys.read("films", word);
            match (&found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(*found, expected),
                (Err(found), Err(words)) => assert!(found.contains(words), "{found}"),
                _ => panic!("{found:?}, expected {expected:?}"),
            }
        };
        check(Keys::Decimal, b"0", Ok(0));
        check(Keys::Decimal, b"000000000123", Ok(123));
        check(Keys::Decimal, b"18446744073709551615", Ok(u64::MAX));
        check(Keys::Decimal, b"18446744073709551616", Err("expected digits"));
        check(
            Keys::Decimal,
            b"a\r\n",
            Err("'a\\r\\n' is no key of table 'films'; expected digits"),
        );
        check(Keys::Decimal, b"", Err("expected digits"));
        check(Keys::Decimal, b"-1", Err("expected digits"));
        check(Keys::Raw, &[1, 0, 0, 0, 0, 0, 0, 2], Ok(2 << 56 | 1));
        check(Keys::Raw, b"1234567", Err("expected 8 bytes"));
        for keys in [Keys::Decimal, Keys::Raw] {
            let mut word = b"left".to_vec();
            keys.write(u64::MAX - 1, &mut word);
            assert_eq!(keys.read("films", &word), Ok(u64::MAX - 1));
        }
    }

    #[test]
    fn a_number_that_holds_nothing_says_which_do() {
        let table = |number| Database {
            number,
            name: format!("t{number}"),
            holds: Holds::Table(Keys::Decimal),
        };
        let databases = Databases::new(vec![table(7), table(2)]);
        assert_eq!(databases.get(7).map(|found| found.name.as_str()), Ok("t7"));
        let refused = databases.get(0).map(|_| ());
        assert_eq!(
            refused,
            Err(
                "ERR DB 0 holds nothing here; SELECT one of 2, 7 (resp_database of a table or a store)"
                    .to_owned()
            )
        );
    }
}
