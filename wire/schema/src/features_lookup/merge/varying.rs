//! Rows that vary in length, each at the place of its key.
//!
//! They lie behind each other in one buffer, in the order in which they came: a key takes eight bytes beside its row, and no allocation.
//! Its invariants: it knows what all of its rows take, whichever were replaced; and what replaced rows left behind takes no more
//! than the rows did when they took most, and a byte a key.

/// A buffer of rows of any length, addressed by the place of their key.
#[derive(Debug, Default)]
pub(super) struct Varying {
    places: Vec<Place>,
    /// The rows, and what was left of those that were replaced.
    buffer: Vec<u8>,
    /// Of all rows.
    bytes: usize,
}

/// Where a row lies in the buffer: offsets of an answer have 32 bits too.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    start: u32,
    len: u32,
}

impl Place {
    fn range(self) -> std::ops::Range<usize> {
        let start = self.start as usize;
        start..start + self.len as usize
    }
}

impl Varying {
    /// Rows without bytes.
    pub(super) fn of(keys: usize) -> Varying {
        Varying {
            places: vec![Place::default(); keys],
            ..Varying::default()
        }
    }

    /// Sets a row, where there is such a place.
    pub(super) fn set(&mut self, at: usize, row: &[u8]) {
        let Some(place) = self.places.get_mut(at) else {
            return;
        };
        self.bytes = self.bytes - place.len as usize + row.len();
        if row.len() <= place.len as usize {
            place.len = row.len() as u32;
            if let Some(before) = self.buffer.get_mut(place.range()) {
                before.copy_from_slice(row);
            }
            return;
        }
        place.len = 0;
        let kept = self.bytes - row.len();
        let end = self.buffer.len() + row.len();
        // So seldom that a row is moved once for each byte that was replaced, at most.
        if self.buffer.len() - kept > kept + self.places.len() || u32::try_from(end).is_err() {
            self.close_gaps();
        }
        let start = self.buffer.len() as u32;
        self.buffer.extend_from_slice(row);
        if let Some(place) = self.places.get_mut(at) {
            let len = row.len() as u32;
            *place = Place { start, len };
        }
    }

    pub(super) fn get(&self, at: usize) -> &[u8] {
        let place = self.places.get(at).copied().unwrap_or_default();
        self.buffer.get(place.range()).unwrap_or_default()
    }

    /// Bytes of all rows but those that are about to be replaced.
    pub(super) fn bytes_without(&self, positions: &[u32]) -> usize {
        let replaced = positions.iter().filter_map(|at| self.places.get(*at as usize));
        let replaced: usize = replaced.map(|place| place.len as usize).sum();
        self.bytes.saturating_sub(replaced)
    }

    /// All rows, one behind the other, and where each one begins and the last ends. They fit a frame, which is shorter than 4 GiB.
    pub(super) fn joined(&self) -> (Vec<u8>, Vec<u32>) {
        let (mut bytes, mut offsets) = (
            Vec::with_capacity(self.bytes),
            Vec::with_capacity(self.places.len() + 1),
        );
        offsets.push(0);
        for at in 0..self.places.len() {
            bytes.extend_from_slice(self.get(at));
            offsets.push(bytes.len() as u32);
        }
        (bytes, offsets)
    }

    /// Leaves nothing in the buffer but the rows.
    fn close_gaps(&mut self) {
        let (buffer, offsets) = self.joined();
        for (place, start) in self.places.iter_mut().zip(offsets) {
            place.start = start;
        }
        self.buffer = buffer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_are_what_was_set_last_and_replaced_ones_take_little(
            sets in prop::collection::vec((0_usize..7, prop::collection::vec(any::<u8>(), 0..40)), 0..200),
        ) {
            let (mut varying, mut expected) = (Varying::of(6), vec![Vec::new(); 6]);
            let mut most = 0;
            for (at, row) in sets {
                varying.set(at, &row);
                if let Some(place) = expected.get_mut(at) {
                    *place = row;
                }
                let bytes = expected.iter().map(Vec::len).sum();
                most = most.max(bytes);
                prop_assert_eq!(varying.bytes_without(&[]), bytes);
                prop_assert_eq!(varying.bytes_without(&[1, 4]), bytes - expected[1].len() - expected[4].len());
                prop_assert!(varying.buffer.len() <= 2 * most + 6);
                for (at, row) in expected.iter().enumerate() {
                    prop_assert_eq!(varying.get(at), row.as_slice());
                }
            }
            let (bytes, offsets) = varying.joined();
            prop_assert_eq!(bytes, expected.concat());
            prop_assert_eq!(offsets.len(), 7);
        }
    }
}
