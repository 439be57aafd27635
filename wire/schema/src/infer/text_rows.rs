//! Rows of text, such as report R1's samples: one list of texts, and where rows end in it.
//!
//! It knows no feature. Its invariant: rows end in ascending order, the last one with the list, and every text is UTF-8.

use crate::field::Field;
use crate::payload::{Encoder, PayloadError, Read, Reader};
use std::borrow::Cow;
use std::fmt;

/// Texts for which space is made before the first is read.
const TEXTS_AT_ONCE: usize = 32;

/// Rows of text, of any widths; a list a row would cost an allocation a row.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct TextRows<'a> {
    texts: Vec<Cow<'a, [u8]>>,
    ends: Vec<usize>,
}

impl<'a> TextRows<'a> {
    /// These rows.
    pub fn new(rows: Vec<Vec<Cow<'a, str>>>) -> TextRows<'a> {
        let mut made = TextRows::default();
        for row in rows {
            made.texts.extend(row.into_iter().map(bytes));
            made.ends.push(made.texts.len());
        }
        made
    }

    /// All texts, row by row: UTF-8.
    pub fn texts(&self) -> &[Cow<'a, [u8]>] {
        &self.texts
    }

    /// Where each row ends among the texts, ascending.
    pub fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// Row by row.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[Cow<'a, [u8]>]> {
        let mut from = 0;
        self.ends.iter().map(move |end| {
            let row = self.texts.get(from..*end).unwrap_or_default();
            from = *end;
            row
        })
    }
}

impl fmt::Debug for TextRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = |row: &[Cow<'_, [u8]>]| {
            row.iter()
                .map(|text| String::from_utf8_lossy(text).into_owned())
                .collect()
        };
        let rows = self.rows().map(texts).collect::<Vec<Vec<String>>>();
        f.debug_list().entries(rows).finish()
    }
}

fn bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// An array of at most so many arrays of text.
pub enum RowsOfText<const MOST: usize> {}

impl<const MOST: usize> Field for RowsOfText<MOST> {
    type Of<'a> = TextRows<'a>;

    fn notation() -> String {
        "[[text]]".to_owned()
    }

    fn expected() -> String {
        "an array of [text]".to_owned()
    }

    fn read<'a>(reader: &mut Reader<'a>) -> Read<TextRows<'a>> {
        let mut texts = Vec::with_capacity(TEXTS_AT_ONCE);
        let ends = reader.array("an array", |reader| {
            reader.array("an array", |reader| {
                texts.push(Cow::Borrowed(reader.text_bytes()?));
                Ok(())
            })?;
            Ok(texts.len())
        })?;
        match ends.len() {
            len if len > MOST => {
                let expected = format!("at most {MOST}");
                Err(PayloadError::invalid(format!("an array of {len}"), expected))
            }
            _ => Ok(TextRows { texts, ends }),
        }
    }

    fn write(value: &TextRows<'_>, out: &mut Encoder<'_>) {
        out.items(value.rows(), |out, row| {
            out.items(row.iter(), |out, text| out.text(&String::from_utf8_lossy(text)));
        });
    }

    fn own(value: TextRows<'_>) -> TextRows<'static> {
        let texts = value.texts.into_iter();
        TextRows {
            texts: texts.map(|text| Cow::Owned(text.into_owned())).collect(),
            ends: value.ends,
        }
    }
}
