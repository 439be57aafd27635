//! A table without its drawing: Markdown and HTML both draw this one.
//!
//! Its invariant: every row has as many cells as there are columns, and a cell holds plain text, never markup.

use crate::Judgement;

/// How a column is set.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// What stands above it.
    pub(crate) name: String,
    /// Whether it holds figures, which stand to the right.
    pub(crate) figures: bool,
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    /// Words or a figure.
    Text(String),
    /// A judgement, drawn as a badge where that is possible.
    Judged(Judgement),
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<Judgement> for Cell {
    fn from(judgement: Judgement) -> Cell {
        Cell::Judged(judgement)
    }
}

/// A table under construction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    /// What it shows.
    pub(crate) caption: String,
    /// Its columns, the first of which names the row.
    pub(crate) columns: Vec<Column>,
    /// Its rows.
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table. Columns are parted by bars; a name in round brackets, as in `(target)`, is a column of words, the
    /// others hold figures: `(target)|ok/s|p50 us`.
    pub(crate) fn new(caption: impl Into<String>, columns: &str) -> Table {
        let columns = columns.split('|').map(|name| {
            let words = name.strip_prefix('(').and_then(|name| name.strip_suffix(')'));
            Column {
                name: words.unwrap_or(name).to_owned(),
                figures: words.is_none(),
            }
        });
        Table {
            caption: caption.into(),
            columns: columns.collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a column of figures, under a name that may hold anything; before the first row.
    pub(crate) fn figures(&mut self, name: &str) {
        self.columns.push(Column {
            name: name.to_owned(),
            figures: true,
        });
    }

    /// Adds a row; missing cells are empty, cells too many are left out.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<Cell> = cells.into_iter().take(self.columns.len()).collect();
        row.resize(self.columns.len(), "".into());
        self.rows.push(row);
    }

    /// Nothing if there is no row.
    pub(crate) fn unless_empty(self) -> Option<Table> {
        (!self.rows.is_empty()).then_some(self)
    }
}

/// The cells of a row, each from whatever makes one.
macro_rules! cells {
    ($($cell:expr),* $(,)?) => { [$($crate::table::Cell::from($cell)),*] };
}
pub(crate) use cells;
