//! Rows that vary in length, each at the place of its key.
//! Its invariant: it knows what all of its rows take, whichever were replaced.

/// See this module.
#[derive(Debug, Default)]
pub(super) struct Varying {
    rows: Vec<Box<[u8]>>,
    /// Of all of them.
    bytes: usize,
}

impl Varying {
    /// Rows without bytes.
    pub(super) fn of(keys: usize) -> Varying {
        Varying {
            rows: vec![Box::default(); keys],
            bytes: 0,
        }
    }

    /// Sets a row, where there is such a place.
    pub(super) fn set(&mut self, at: usize, row: &[u8]) {
        if let Some(place) = self.rows.get_mut(at) {
            self.bytes = self.bytes - place.len() + row.len();
            *place = row.into();
        }
    }

    pub(super) fn get(&self, at: usize) -> &[u8] {
        self.rows.get(at).map_or(&[], |row| row)
    }

    /// Bytes of all rows but those that are about to be replaced.
    pub(super) fn bytes_without(&self, positions: &[u32]) -> usize {
        let replaced = positions.iter().filter_map(|at| self.rows.get(*at as usize));
        let replaced: usize = replaced.map(|row| row.len()).sum();
        self.bytes.saturating_sub(replaced)
    }

    /// All rows, one behind the other, and where each one begins and the last ends. They fit a frame, which is shorter than 4 GiB.
    pub(super) fn joined(&self) -> (Vec<u8>, Vec<u32>) {
        let (mut bytes, mut offsets) = (
            Vec::with_capacity(self.bytes),
            Vec::with_capacity(self.rows.len() + 1),
        );
        offsets.push(0);
        for row in &self.rows {
            bytes.extend_from_slice(row);
            offsets.push(bytes.len() as u32);
        }
        (bytes, offsets)
    }
}
