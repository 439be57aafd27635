//! What changed between two versions of a table.
//!
//! Rows are compared by their bytes, not by how near their numbers are. Invariant: each key of either version is counted once.

use std::collections::BinaryHeap;
use std::convert::Infallible;
use std::fmt;
use std::path::Path;

use millpond_engines_features::Table;

use crate::error::Error;

/// Two versions, compared.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The version that is compared with.
    pub from: u64,
    /// The version that is compared.
    pub to: u64,
    /// Keys that only `to` has.
    pub added: Changes,
    /// Keys that only `from` has.
    pub removed: Changes,
    /// Keys that both have, with other rows.
    pub changed: Changes,
    /// Keys that both have, with the same row.
    pub same: u64,
}

/// Some keys of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// How many.
    pub count: u64,
    /// The lowest of them, ascending: as many as were asked for at most.
    pub lowest: Vec<u64>,
}

/// Compares version `to` of a table with version `from`, and names the `show` lowest keys of each kind of change.
///
/// # Errors
/// [`Error::Table`]: a version is not there, or damaged: both are read whole. [`Error::Unlike`].
pub fn diff(table_dir: &Path, from: u64, to: u64, show: usize) -> Result<Difference, Error> {
    let before = Table::open_version(table_dir, Some(from))?;
    let after = Table::open_beside(table_dir, Some(to), Some(&before))?;
    let unlike = |problem| Error::Unlike {
        path: table_dir.to_path_buf(),
        from,
        to,
        problem,
    };
    if before.keys() != after.keys() {
        return Err(unlike("their keys are not of one kind"));
    }
    if before.schema().columns != after.schema().columns {
        return Err(unlike("their columns differ"));
    }
    before.verify()?;
    after.verify()?;
    let (mut added, mut removed, mut changed) = (Lowest::new(show), Lowest::new(show), Lowest::new(show));
    let mut same = 0;
    let Ok(()) = after.each_row::<Infallible>(&mut |key, row| {
        match before.row(key) {
            None => added.add(key),
            Some(other) if other == row => same += 1,
            Some(_) => changed.add(key),
        }
        Ok(())
    });
    let Ok(()) = before.each_row::<Infallible>(&mut |key, _| {
        if after.row(key).is_none() {
            removed.add(key);
        }
        Ok(())
    });
    before.check_whole()?;
    after.check_whole()?;
    Ok(Difference {
        from,
        to,
        added: added.into(),
        removed: removed.into(),
        changed: changed.into(),
        same,
    })
}

/// Counts keys, and keeps the lowest of them.
struct Lowest {
    show: usize,
    count: u64,
    /// The highest of those that are kept is on top.
    kept: BinaryHeap<u64>,
}

impl Lowest {
    fn new(show: usize) -> Lowest {
        Lowest {
            show,
            count: 0,
            kept: BinaryHeap::new(),
        }
    }

    fn add(&mut self, key: u64) {
        self.count += 1;
        if self.kept.len() < self.show {
            self.kept.push(key);
        } else if let Some(mut highest) = self.kept.peek_mut()
            && key < *highest
        {
            *highest = key;
        }
    }
}

impl From<Lowest> for Changes {
    fn from(lowest: Lowest) -> Changes {
        Changes {
            count: lowest.count,
            lowest: lowest.kept.into_sorted_vec(),
        }
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.count)?;
        let keys: Vec<String> = self.lowest.iter().map(u64::to_string).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let more = match self.count > keys.len() as u64 {
            true => ", …",
            false => "",
        };
        write!(f, ": {}{more}", keys.join(", "))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "from version {} to version {}", self.from, self.to)?;
        writeln!(f, "added     {}", self.added)?;
        writeln!(f, "removed   {}", self.removed)?;
        writeln!(f, "changed   {}", self.changed)?;
        write!(f, "same      {}", self.same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_keys_are_kept() {
        let check = |keys: &[u64], show, expected: &str| {
            let mut lowest = Lowest::new(show);
            keys.iter().for_each(|&key| lowest.add(key));
            assert_eq!(Changes::from(lowest).to_string(), expected);
        };
        check(&[], 3, "0");
        check(&[5, 1], 3, "2: 1, 5");
        check(&[9, 5, 1, 7, 3], 3, "5: 1, 3, 5, …");
        check(&[9, 5, 1], 3, "3: 1, 5, 9");
        check(&[9, 5, 1], 0, "3");
        check(&[u64::MAX, 0], 1, "2: 0, …");
    }
}
