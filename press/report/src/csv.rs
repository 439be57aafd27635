//! A run as flat tables for other programs: one row a point, one row a second, and for report R3 one row a minute.
//!
//! Its invariant: RFC 4180 with `\n` at the ends of lines: every row has as many fields as the header, and a field that
//! holds a comma, a quote or an end of a line is quoted. What does not exist is an empty field.

mod controller;
mod points;
mod series;

pub use controller::controller_csv;
pub use points::points_csv;
pub use series::series_csv;

use std::fmt::Display;

use serde::Serialize;
use serde_json::Value;

/// One row under construction.
#[derive(Debug, Default)]
struct Row {
    text: String,
    fields: usize,
}

impl Row {
    /// Adds text.
    fn text(&mut self, text: &str) -> &mut Row {
        if self.fields > 0 {
            self.text.push(',');
        }
        self.fields += 1;
        if text.contains([',', '"', '\n', '\r']) {
            self.text.push('"');
            self.text += &text.replace('"', "\"\"");
            self.text.push('"');
        } else {
            self.text += text;
        }
        self
    }

    /// Adds a count or a flag.
    fn whole(&mut self, value: impl Display) -> &mut Row {
        self.text(&value.to_string())
    }

    /// Adds a figure, empty if it is absent or not finite; three digits behind the point, as far as they are not zero.
    fn figure(&mut self, value: Option<f64>) -> &mut Row {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            return self.text("");
        };
        let text = format!("{value:.3}");
        self.text(text.trim_end_matches('0').trim_end_matches('.'))
    }

    /// Adds a count that may be absent.
    fn count<T: Display>(&mut self, value: Option<T>) -> &mut Row {
        match value {
            Some(value) => self.whole(value),
            None => self.text(""),
        }
    }

    /// Adds a key of `result.json` as it stands there: a count, a flag or a word, a figure, nothing.
    fn value(&mut self, value: &Value) -> &mut Row {
        match value {
            Value::Null => self.text(""),
            Value::String(text) => self.text(text),
            Value::Number(number) if number.is_f64() => self.figure(number.as_f64()),
            other => self.whole(other),
        }
    }

    /// Adds the keys of an object, parted by spaces; empty fields where there is none.
    fn values(&mut self, object: &Value, keys: &str) -> &mut Row {
        for key in keys.split_ascii_whitespace() {
            self.value(&object[key]);
        }
        self
    }

    /// Ends the row.
    fn end(&mut self, into: &mut String) {
        *into += &self.text;
        into.push('\n');
        self.text.clear();
        self.fields = 0;
    }
}

/// As `result.json` holds it.
fn json(part: &impl Serialize) -> Value {
    // A value without keys other than texts always has a form in JSON.
    serde_json::to_value(part).unwrap_or_default()
}

/// The header of `columns`, parted by spaces.
fn header(columns: &str) -> String {
    let mut text = columns.split_ascii_whitespace().collect::<Vec<_>>().join(",");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests;
