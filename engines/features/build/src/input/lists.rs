//! What the rows of a block have in one column: lists of numbers, or strings of bytes, one behind another.
//!
//! Its invariant: a list that is ended has a number, and each is finite unless the table keeps others.

use millpond_engines_features::{Cell, NotFinite};

use crate::error::Problem;

/// Bytes that count as one number where a block is filled.
const NUMBER_BYTES: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Lists {
    numbers: Vec<f32>,
    bytes: Vec<u8>,
    /// Where each list ends.
    ends: Vec<usize>,
    /// What becomes of NaN and infinities.
    not_finite: NotFinite,
    is_bytes: bool,
}

impl Lists {
    /// Empties it.
    pub(super) fn begin(&mut self, not_finite: NotFinite, is_bytes: bool) {
        self.numbers.clear();
        self.bytes.clear();
        self.ends.clear();
        (self.not_finite, self.is_bytes) = (not_finite, is_bytes);
    }

    pub(super) fn is_bytes(&self) -> bool {
        self.is_bytes
    }

    /// How much it holds, in numbers.
    pub(super) fn size(&self) -> usize {
        self.numbers.len() + self.bytes.len() / NUMBER_BYTES
    }

    /// Adds a number to the list that is not ended.
    pub(super) fn push(&mut self, value: f64) -> Result<(), Problem> {
        let narrow = value as f32;
        // A number that becomes infinite by being narrowed was lost, which is never asked for.
        if !narrow.is_finite() && (value.is_finite() || self.not_finite == NotFinite::Refused) {
            let position = self.open_len();
            return Err(Problem::NotFinite { position, value });
        }
        self.numbers.push(narrow);
        Ok(())
    }

    /// Takes `count` lists of `dim` numbers each, which were checked, where it has none yet.
    pub(super) fn take(&mut self, numbers: &mut Vec<f32>, count: usize, dim: usize) {
        std::mem::swap(&mut self.numbers, numbers);
        self.ends.extend((1..=count).map(|at| at * dim));
    }

    /// Whether every list has `dim` numbers.
    pub(crate) fn is_even(&self, dim: usize) -> bool {
        let ends = self.ends.iter().zip(1..);
        !self.is_bytes && ends.fold(true, |is_even, (&end, at)| is_even & (end == at * dim))
    }

    /// All numbers, one list behind another.
    pub(crate) fn numbers(&self) -> &[f32] {
        &self.numbers
    }

    /// Adds bytes to the string that is not ended.
    pub(super) fn push_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn len(&self) -> usize {
        match self.is_bytes {
            true => self.bytes.len(),
            false => self.numbers.len(),
        }
    }

    /// How many numbers the list has that is not ended, or bytes the string.
    pub(super) fn open_len(&self) -> usize {
        self.len() - self.ends.last().copied().unwrap_or(0)
    }

    pub(super) fn end(&mut self) -> Result<(), Problem> {
        if self.open_len() == 0 && !self.is_bytes {
            return Err(Problem::EmptyVector);
        }
        self.ends.push(self.len());
        Ok(())
    }

    /// What row `at` has.
    pub(crate) fn cell(&self, at: usize) -> Cell<'_> {
        let begin = match at {
            0 => 0,
            at => self.ends.get(at - 1).copied().unwrap_or(0),
        };
        let end = self.ends.get(at).copied().unwrap_or(begin);
        match self.is_bytes {
            true => Cell::Bytes(self.bytes.get(begin..end).unwrap_or_default()),
            false => Cell::Numbers(self.numbers.get(begin..end).unwrap_or_default()),
        }
    }

    /// The numbers of row `at`; none where it has bytes.
    pub(crate) fn row(&self, at: usize) -> &[f32] {
        match self.cell(at) {
            Cell::Numbers(numbers) => numbers,
            Cell::Bytes(_) => &[],
        }
    }
}
