//! From the text of a scenario and its `--set` overrides to typed keys, with messages that name line and hint.
//!
//! Its invariant: an override is held to the same names and types as the file.

use toml::{Table, Value};

use super::keys::File;
use crate::Error;

/// Parses `text`, the content of the file `name`, and lays the overrides over it.
pub(crate) fn parse(name: &str, text: &str, overrides: &[String]) -> Result<File, Error> {
    let in_file = |error: toml::de::Error| Error::Scenario {
        place: match error.span() {
            Some(span) => format!("{name}, line {}", line_of(text, span.start)),
            None => name.to_owned(),
        },
        message: explain(&error),
    };
    let file: File = toml::from_str(text).map_err(in_file)?;
    if overrides.is_empty() {
        return Ok(file);
    }
    let mut table: Table = toml::from_str(text).map_err(in_file)?;
    for text in overrides {
        let bad = |message: String| Error::Scenario {
            place: format!("--set {text}"),
            message,
        };
        lay_over(&mut table, text).map_err(bad)?;
        // Checked one by one, so that the override to blame is known.
        Value::Table(table.clone())
            .try_into::<File>()
            .map_err(|error: toml::de::Error| bad(explain(&error)))?;
    }
    Value::Table(table)
        .try_into()
        .map_err(|error: toml::de::Error| Error::Scenario {
            place: name.to_owned(),
            message: explain(&error),
        })
}

/// Sets one dotted key. What is not a TOML value is taken as a string, so that quotes are rarely needed.
fn lay_over(table: &mut Table, text: &str) -> Result<(), String> {
    let Some((path, value)) = text.split_once('=') else {
        return Err("there is no `=`; write --set section.key=value".into());
    };
    let value = toml::from_str::<Table>(&format!("value = {}", value.trim()))
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(value.trim().to_owned()));
    let mut keys: Vec<&str> = path.trim().split('.').collect();
    let last = keys.pop().unwrap_or_default();
    if last.is_empty() || keys.iter().any(|key| key.is_empty()) {
        return Err("the key has an empty part; write --set section.key=value".into());
    }
    let mut at = table;
    let mut keys = keys.into_iter();
    while let Some(key) = keys.next() {
        let inner = at.entry(key).or_insert_with(|| Value::Table(Table::new()));
        // `targets.0.address`: the element of a list of sections, by its place.
        let inner = match inner {
            Value::Array(elements) => {
                let place = keys.next().unwrap_or(last);
                let element = place
                    .parse()
                    .ok()
                    .and_then(|place: usize| elements.get_mut(place));
                element.ok_or_else(|| format!("`{key}` has no element {place}; they are counted from 0"))?
            }
            other => other,
        };
        let Value::Table(inner) = inner else {
            return Err(format!("`{key}` is a {}, not a section", inner.type_str()));
        };
        at = inner;
    }
    at.insert(last.to_owned(), value);
    Ok(())
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
}

/// The parser's words; for an unknown key, with the nearest known one.
fn explain(error: &toml::de::Error) -> String {
    let message = error.message().trim();
    let mut quoted = message.split('`').skip(1).step_by(2);
    if !message.starts_with("unknown field") && !message.starts_with("unknown variant") {
        return message.to_owned();
    }
    let unknown = quoted.next().unwrap_or_default();
    let nearest = quoted
        .map(|known| (distance(unknown, known), known))
        .min()
        .filter(|&(distance, known)| distance <= 2.max(known.len() / 3));
    match nearest {
        Some((_, known)) => format!("{message}; did you mean `{known}`?"),
        None => message.to_owned(),
    }
}

/// Edits (insert, remove, replace) from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_a_list_are_reached_by_their_place() {
        let mut table: Table = toml::from_str("[[targets]]\na = 1\n[[targets]]\na = 2").unwrap_or_default();
        assert_eq!(lay_over(&mut table, "targets.1.a=3"), Ok(()));
        let written = table.to_string();
        assert!(
            written.contains("a = 1") && written.contains("a = 3"),
            "{written}"
        );
        assert!(lay_over(&mut table, "targets.2.a=3").is_err());
    }

    #[test]
    fn distances_are_counted_in_edits() {
        assert_eq!(distance("connections", "conections"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
