//! The text of a request with placeholders for what differs between requests.
//!
//! | placeholder | stands for |
//! |---|---|
//! | `{key}`, `{key:08}` | the first key of the request; with leading zeros to a width |
//! | `{keys 100}`, `{keys 100 ,}`, `{keys:08 100}` | that many keys between spaces; between the given text; with zeros |
//! | `{value}` | the value of the first key: see [`value_of`](crate::value_of) |
//! | `{seq}`, `{seq:08}` | the number of the request, from 0 |
//! | `{random 1 100}` | a uniform whole number, both ends included, another one at each place |
//! | `{repeat 256 ,}…{or}…{end}` | that many passes, in turn of the texts that `{or}` parts, with spaces or the given text between them; the keys of the request pass by pass, so that `{key}` and `{value}` are of the pass |
//!
//! Braces of JSON need no care: a `{` that does not begin one of these names stands as it is. What was meant as one of them is
//! refused with the right one: `{Key}`, `{vlaue}`, `{key` without its `}`. `{{` is a literal `{`, and the
//! `}}` that closes it a literal `}`, so `{{key}}` gives `{key}`; every other `}}`, as at the end of nested JSON, stands as
//! it is. Of a value that is a row of numbers, a backslash and what ends a word of a command are rendered as `\x5c` and alike, so
//! that a value is always one word. Its invariant: a template that was parsed can always be rendered.

mod parse;

use crate::{BYTES_MAX, Draw, Error, Sizes, value_of};

/// The largest number of keys in one `{keys n}`, and of passes of a `{repeat n}`.
pub const KEYS_EACH_MAX: usize = 100_000;

/// A request, or a part of one such as a path or a body, as text with placeholders.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    pieces: Vec<Piece>,
}

/// A stretch of literal text or one placeholder. Widths are the least number of digits.
#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Literal(String),
    Key {
        width: usize,
    },
    Keys {
        width: usize,
        count: usize,
        separator: String,
    },
    Value,
    Seq {
        width: usize,
    },
    Random {
        from: i64,
        to: i64,
    },
    /// A pass for each of so many keys; it has the next of the texts, of which there is at least one.
    Repeat {
        count: usize,
        separator: String,
        texts: Vec<Vec<Piece>>,
    },
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// A placeholder lacks its `}`, its arguments are wrong, or what stands in braces is none but close to one.
    pub fn parse(text: &str) -> Result<Template, Error> {
        Ok(Template {
            pieces: parse::pieces(text)?,
        })
    }

    /// How many keys the template asks for: the largest `n` of its `{keys n}` and `{repeat n}`, at least 1 when it has `{key}` or
    /// `{value}`, 0 when it has none.
    pub fn keys_each(&self) -> usize {
        let each = self.pieces.iter().map(|piece| match piece {
            Piece::Key { .. } | Piece::Value => 1,
            Piece::Keys { count, .. } | Piece::Repeat { count, .. } => *count,
            _ => 0,
        });
        each.max().unwrap_or(0)
    }

    /// Whether it holds `{value}`.
    pub fn has_value(&self) -> bool {
        let is_in = |piece: &Piece| match piece {
            Piece::Repeat { texts, .. } => texts.iter().any(|text| text.contains(&Piece::Value)),
            piece => *piece == Piece::Value,
        };
        self.pieces.iter().any(is_in)
    }

    /// Whether it holds a `{value}` outside of `{repeat n}`, which is that of the first key.
    pub(crate) fn has_value_of_first(&self) -> bool {
        self.pieces.contains(&Piece::Value)
    }

    /// The counts of its `{keys n}` and `{repeat n}` placeholders.
    pub(crate) fn key_counts(&self) -> impl Iterator<Item = usize> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Keys { count, .. } | Piece::Repeat { count, .. } => Some(*count),
            _ => None,
        })
    }

    /// Appends the text of the request `draw` stands at to `out`. It stops once `out` holds more than [`BYTES_MAX`] bytes,
    /// which no set of requests takes.
    pub fn render(&self, draw: &mut Draw, out: &mut Vec<u8>) {
        render(&self.pieces, 0, draw, out);
    }
}

/// Appends pieces in which `{key}` is the key at this place of the request.
fn render(pieces: &[Piece], place: usize, draw: &mut Draw, out: &mut Vec<u8>) {
    for piece in pieces {
        if out.len() > BYTES_MAX {
            return;
        }
        match piece {
            Piece::Literal(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Key { width } => push_decimal(out, draw.key_at(place), *width),
            Piece::Keys {
                width,
                count,
                separator,
            } => {
                for (index, &key) in draw.take(*count).iter().enumerate() {
                    if index > 0 {
                        out.extend_from_slice(separator.as_bytes());
                    }
                    push_decimal(out, key, *width);
                }
            }
            Piece::Value => {
                let key = draw.key_at(place);
                let start = out.len();
                value_of(draw.seed(), key, draw.sizes(), out);
                if matches!(draw.sizes(), Sizes::Rows(_)) {
                    escape_from(out, start);
                }
            }
            Piece::Seq { width } => push_decimal(out, draw.seq(), *width),
            Piece::Random { from, to } => {
                let number = draw.between(*from, *to);
                if number < 0 {
                    out.push(b'-');
                }
                push_decimal(out, number.unsigned_abs(), 0);
            }
            Piece::Repeat {
                count,
                separator,
                texts,
            } => {
                // Where keys are given, the last request has fewer.
                let passes = draw.take(*count).len();
                for (place, text) in (0..passes).zip(texts.iter().cycle()) {
                    if place > 0 {
                        out.extend_from_slice(separator.as_bytes());
                    }
                    render(text, place, draw, out);
                }
            }
        }
    }
}

/// Escapes what stands in `out` from `start` on, so that it is one word.
fn escape_from(out: &mut Vec<u8>, start: usize) {
    let is_plain = |byte: &u8| *byte != b'\\' && !byte.is_ascii_whitespace();
    for byte in out.split_off(start) {
        match is_plain(&byte) {
            true => out.push(byte),
            false => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
}

/// Appends the decimal digits of `number`, with zeros before them up to `width` digits.
fn push_decimal(out: &mut Vec<u8>, mut number: u64, width: usize) {
    let start = out.len();
    while number > 0 || out.len() - start < width.max(1) {
        out.push(b'0' + (number % 10) as u8);
        number /= 10;
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}

#[cfg(test)]
mod tests;
