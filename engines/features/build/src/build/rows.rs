//! The rows of all inputs on their way to the writer.
//!
//! Opens no input. Its invariant: a row that the writer has of a build before is not pushed again.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use millpond_engines_features as features;
use millpond_engines_features::write::{Position, Writer};
use millpond_engines_features::{Cell, Keys, Numbers, ROW_BYTES_MAX, Table};

use super::{BuildOptions, create, is_held};
use crate::error::{Error, Problem};
use crate::input::{Block, Input};

/// The rows of all inputs on their way to the writer.
pub(super) struct Rows<'a> {
    options: &'a BuildOptions,
    base: Option<Arc<Table>>,
    pub(super) writer: Option<Writer>,
    /// Of a build that a later one can go on with.
    identity: Option<String>,
    /// How each column is stored.
    stored: Vec<Numbers>,
    /// Numbers or bytes that the first row has in each column; 0 where rows vary in length.
    dims: Vec<usize>,
    /// The row at hand, where it has several columns.
    row: Vec<f32>,
}

impl Rows<'_> {
    pub(super) fn new(
        options: &BuildOptions,
        base: Option<Arc<Table>>,
        stored: Vec<Numbers>,
        identity: Option<String>,
    ) -> Rows<'_> {
        Rows {
            options,
            base,
            stored,
            writer: None,
            identity,
            dims: Vec::new(),
            row: Vec::new(),
        }
    }

    /// Adds the rows of a block that the writer does not have yet; returns where those end that it has.
    pub(super) fn add_block(
        &mut self,
        input: &Input,
        block: &Block,
        at: Position,
    ) -> Result<Position, Error> {
        let count = block.keys.len();
        if self.writer.is_none() && count > 0 {
            self.writer = Some(self.begin(block)?);
        }
        let there = self.writer.as_ref().map(Writer::position).unwrap_or_default();
        let begin = match there.input.cmp(&at.input) {
            Ordering::Less => 0,
            Ordering::Equal => there.row.saturating_sub(at.row).min(count as u64) as usize,
            Ordering::Greater => count,
        };
        self.add_all(input, block, begin..count)?;
        let end = Position {
            row: at.row + count as u64,
            ..at
        };
        match &mut self.writer {
            Some(writer) if end > there => {
                writer.reached(end, false)?;
                Ok(end)
            }
            _ => Ok(there),
        }
    }

    fn add_all(&mut self, input: &Input, block: &Block, range: Range<usize>) -> Result<(), Error> {
        let even = match (self.dims.as_slice(), block.columns.as_slice()) {
            (&[dim], [lists]) if lists.is_even(dim) && !block.is_text() => {
                lists.numbers().get(range.start * dim..range.end * dim)
            }
            _ => None,
        };
        let keys = block.keys.get(range.clone());
        let (Some(writer), Some(keys), Some(rows), None) = (&mut self.writer, keys, even, &self.options.held)
        else {
            return range.into_iter().try_for_each(|at| self.add(input, block, at));
        };
        let pushed = writer.push_rows(keys, rows);
        pushed.map_err(|(at, error)| self.named(error, input, block, range.start + at))
    }

    /// Begins the version: the first row tells how many numbers there are.
    fn begin(&mut self, block: &Block) -> Result<Writer, Error> {
        let dims = block.columns.iter().zip(&self.options.columns).zip(&self.stored);
        let dims = dims.map(|((lists, column), numbers)| match numbers {
            Numbers::VaryingBytes => 0,
            Numbers::Bytes => column.width.unwrap_or(lists.cell(0).len()),
            _ => lists.cell(0).len(),
        });
        self.dims = dims.collect();
        let keys = match block.is_text() {
            true => Keys::Text {
                slot: block.slot.clone(),
            },
            false => Keys::U64,
        };
        let identity = self.identity.as_deref();
        create(self.options, self.base.clone(), Some(keys), &self.dims, identity)
    }

    /// Adds row `at` of a block.
    fn add(&mut self, input: &Input, block: &Block, at: usize) -> Result<(), Error> {
        let options = self.options;
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        for (number, (lists, column)) in block.columns.iter().zip(&options.columns).enumerate() {
            let numbers = self.stored.get(number).copied().unwrap_or(Numbers::F32);
            let expected = self.dims.get(number).copied().unwrap_or(0);
            check_length(numbers, expected, lists.cell(at).len())
                .map_err(|problem| input.bad(block.place(at), &column.name, problem))?;
        }
        if !is_held(options, block, at) {
            return Ok(());
        }
        if self.stored.iter().any(|numbers| numbers.is_bytes()) {
            let cells: Vec<Cell<'_>> = block.columns.iter().map(|lists| lists.cell(at)).collect();
            let pushed = match block.text(at) {
                Some(text) => writer.push_text_cells(text, &cells),
                None => writer.push_cells(block.keys.get(at).copied().unwrap_or_default(), &cells),
            };
            return pushed.map_err(|error| self.named(error, input, block, at));
        }
        let row = match block.columns.as_slice() {
            [only] => only.row(at),
            several => {
                self.row.clear();
                several.iter().for_each(|lists| self.row.extend(lists.row(at)));
                &self.row
            }
        };
        let pushed = match block.text(at) {
            Some(text) => writer.push_text(text, row),
            None => writer.push(block.keys.get(at).copied().unwrap_or_default(), row),
        };
        pushed.map_err(|error| self.named(error, input, block, at))
    }

    /// The error of a row, with its place.
    fn named(&self, error: features::Error, input: &Input, block: &Block, at: usize) -> Error {
        match error {
            features::Error::NotFinite { position, value, .. } => {
                let (column, position) = self.column_of(position);
                let value = value.into();
                let problem = Problem::NotFinite { position, value };
                input.bad(block.place(at), column, problem)
            }
            other => Error::Table(other),
        }
    }

    /// The column that a number of a row is in, and its place there.
    fn column_of(&self, position: usize) -> (&str, usize) {
        let mut left = position;
        for (column, &dim) in self.options.columns.iter().zip(&self.dims) {
            if left < dim {
                return (&column.name, left);
            }
            left -= dim;
        }
        ("", left)
    }
}

/// Whether a row has as much in a column as the column has.
fn check_length(numbers: Numbers, expected: usize, found: usize) -> Result<(), Problem> {
    match numbers {
        Numbers::VaryingBytes if found > ROW_BYTES_MAX => Err(Problem::TooLong { found }),
        Numbers::VaryingBytes => Ok(()),
        _ if found == expected => Ok(()),
        Numbers::Bytes => Err(Problem::Width { expected, found }),
        _ => Err(Problem::Dim { expected, found }),
    }
}
