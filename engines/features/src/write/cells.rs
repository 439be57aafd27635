//! Rows by their columns: numbers in some, bytes in others.
//!
//! Not the way of rows that are numbers alone ([`Writer::push`]). Invariant: a row that is refused leaves the writer as it was.

use super::Writer;
use crate::error::Error;
use crate::rows::{self, Cell};
use crate::schema::{Numbers, ROW_BYTES_MAX};

impl Writer {
    /// Adds a row: a cell for each column.
    ///
    /// # Errors
    /// As [`Writer::push`]; [`Error::Cell`] for bytes where the column has numbers, and for bytes of another length than the column's.
    pub fn push_cells(&mut self, key: u64, cells: &[Cell<'_>]) -> Result<(), Error> {
        self.check_number(key)?;
        self.encode_cells(key, cells)?;
        self.push_encoded(key)
    }

    /// Adds the row of a text: a cell for each column.
    ///
    /// # Errors
    /// As [`Writer::push_cells`] and [`Writer::push_text`].
    pub fn push_text_cells(&mut self, text: &str, cells: &[Cell<'_>]) -> Result<(), Error> {
        let key = self.key_of(text)?;
        self.encode_cells(key, cells)?;
        self.keep_text(key, text)?;
        self.push_encoded(key)
    }

    /// Leaves the bytes of a row at hand.
    fn encode_cells(&mut self, key: u64, cells: &[Cell<'_>]) -> Result<(), Error> {
        let columns = &self.schema.columns;
        if cells.len() != columns.len() {
            return Err(Error::argument("cells of a row", columns.len(), cells.len()));
        }
        self.row.clear();
        let mut begin = 0;
        for (column, &cell) in columns.iter().zip(cells) {
            let unfit = |expected: String, found: String| Error::Cell {
                key,
                column: column.name.clone(),
                expected,
                found,
            };
            let (length, found) = (cell.len(), format!("{} bytes", cell.len()));
            match (column.numbers, cell) {
                (Numbers::VaryingBytes, _) if length > ROW_BYTES_MAX => {
                    return Err(unfit(format!("at most {ROW_BYTES_MAX} bytes"), found));
                }
                (Numbers::Bytes, _) if length != column.dim => {
                    return Err(unfit(format!("{} bytes", column.dim), found));
                }
                (numbers, Cell::Bytes(_)) if !numbers.is_bytes() => {
                    return Err(unfit("numbers".to_owned(), found));
                }
                (numbers, Cell::Numbers(_)) if !numbers.is_bytes() && length != column.dim => {
                    let expected = column.dim;
                    let found = length;
                    return Err(Error::Dim { key, expected, found });
                }
                (_, Cell::Bytes(bytes)) => self.row.extend_from_slice(bytes),
                (numbers, Cell::Numbers(values)) => {
                    let encoded = rows::encode_column(numbers, values, self.schema.not_finite, &mut self.row);
                    encoded.map_err(|unfit| {
                        rows::Unfit {
                            position: begin + unfit.position,
                            ..unfit
                        }
                        .of(key)
                    })?;
                }
            }
            begin += length;
        }
        Ok(())
    }
}
