//! The grammar of templates.
//!
//! Its invariant: a `{` becomes a placeholder or an error only when a known name follows, in any case, or a single word that is
//! lower-case or close to one; all other text is kept byte for byte but for doubled braces.

use super::{KEYS_EACH_MAX, Piece};
use crate::Error;

const NAMES: [&str; 8] = ["key", "keys", "value", "seq", "random", "repeat", "or", "end"];

/// The largest width of a number: the digits of the largest key and some.
const WIDTH_MAX: usize = 32;

/// Pieces while they are read; neighbouring literals become one.
#[derive(Default)]
struct Pieces {
    done: Vec<Piece>,
    /// The braces that are open, for each whether it was doubled: what a `}` means depends on the `{` it closes.
    open: Vec<bool>,
    /// The `{repeat n}` whose `{end}` has not come.
    repeat: Option<Repeat>,
}

/// A `{repeat n}` while it is read; the pieces of its text are the ones that are done.
struct Repeat {
    count: usize,
    separator: String,
    /// The texts before an `{or}`.
    texts: Vec<Vec<Piece>>,
    /// What was done before it.
    before: Vec<Piece>,
}

/// What stands in braces.
enum Placeholder {
    Piece(Piece),
    Repeat(Repeat),
    Or,
    End,
}

/// Reads the pieces of a template.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece>, Error> {
    let mut pieces = Pieces::default();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        pieces.literal(before);
        rest = if from.starts_with('{') {
            pieces.opening(from)?
        } else {
            pieces.closing(from)
        };
    }
    pieces.literal(rest);
    match pieces.repeat {
        None => Ok(pieces.done),
        Some(repeat) => Err(bad(
            &format!("{{repeat {}}}", repeat.count),
            "its {end} is missing",
        )),
    }
}

impl Pieces {
    fn literal(&mut self, text: &str) {
        if text.is_empty() {
        } else if let Some(Piece::Literal(last)) = self.done.last_mut() {
            last.push_str(text);
        } else {
            self.done.push(Piece::Literal(text.to_owned()));
        }
    }

    /// Takes what begins with `{` off `text` and gives the rest.
    fn opening<'a>(&mut self, text: &'a str) -> Result<&'a str, Error> {
        if let Some(rest) = text.strip_prefix("{{") {
            self.open.push(true);
            self.literal("{");
            return Ok(rest);
        }
        if let Some((found, rest)) = placeholder(text)? {
            match found {
                Placeholder::Piece(piece) => self.done.push(piece),
                Placeholder::Repeat(repeat) => self.begin(repeat)?,
                Placeholder::Or => self.end_text("{or}")?,
                Placeholder::End => self.end()?,
            }
            return Ok(rest);
        }
        self.open.push(false);
        self.literal("{");
        Ok(text.strip_prefix('{').unwrap_or_default())
    }

    fn begin(&mut self, repeat: Repeat) -> Result<(), Error> {
        if self.repeat.is_some() {
            let found = format!("{{repeat {}}}", repeat.count);
            return Err(bad(&found, "it stands in another one, whose {end} has not come"));
        }
        let before = std::mem::take(&mut self.done);
        self.repeat = Some(Repeat { before, ..repeat });
        Ok(())
    }

    /// Ends a text of a `{repeat n}`.
    fn end_text(&mut self, found: &str) -> Result<(), Error> {
        let Some(repeat) = &mut self.repeat else {
            return Err(bad(
                found,
                "there is no {repeat 100} before it; write {{or}} and {{end}} for the texts themselves",
            ));
        };
        if self.done.is_empty() {
            return Err(bad(found, "nothing stands before it to repeat"));
        }
        if self.done.iter().any(|piece| matches!(piece, Piece::Keys { .. })) {
            return Err(bad(
                found,
                "a pass of {repeat 100} has one key: write {key} in it, not {keys 5}",
            ));
        }
        repeat.texts.push(std::mem::take(&mut self.done));
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        self.end_text("{end}")?;
        if let Some(Repeat {
            count,
            separator,
            texts,
            before,
        }) = self.repeat.take()
        {
            self.done = before;
            self.done.push(Piece::Repeat {
                count,
                separator,
                texts,
            });
        }
        Ok(())
    }

    /// Takes the closing brace off `text`, or both when they close a doubled one, and gives the rest.
    fn closing<'a>(&mut self, text: &'a str) -> &'a str {
        self.literal("}");
        let doubled = self.open.last() == Some(&true);
        match text.strip_prefix("}}") {
            Some(rest) if doubled => {
                self.open.pop();
                rest
            }
            _ => {
                if !doubled {
                    self.open.pop();
                }
                text.strip_prefix('}').unwrap_or_default()
            }
        }
    }
}

/// The placeholder at the start of `text` and what follows it; none when the brace is literal.
fn placeholder(text: &str) -> Result<Option<(Placeholder, &str)>, Error> {
    let inside = text.strip_prefix('{').unwrap_or(text);
    let is_name = |c: char| c.is_ascii_alphabetic() || c == '_';
    let end = inside.find(|c| !is_name(c)).unwrap_or(inside.len());
    let (name, after) = inside.split_at(end);
    if !NAMES.contains(&name) {
        return if is_meant(name, after) {
            Err(unknown(name))
        } else {
            Ok(None)
        };
    }
    // The name may go on: `{key1}`, `{keyé}`.
    if after.starts_with(char::is_alphanumeric) {
        return Ok(None);
    }
    if !after.is_empty() && !after.starts_with([' ', ':', '}']) {
        return Err(unclosed(text));
    }
    let Some((arguments, rest)) = after.split_once('}') else {
        return Err(unclosed(text));
    };
    let found = format!("{{{name}{arguments}}}");
    let piece = read(name, arguments).map_err(|reason| bad(&found, reason))?;
    Ok(Some((piece, rest)))
}

/// Whether a word behind a brace that is no name was meant as one: a lower-case word alone in its braces, a name in other
/// letters, or one letter beside it.
fn is_meant(name: &str, after: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    if NAMES.contains(&lower.as_str()) {
        return after.is_empty() || after.starts_with([' ', ':', '}']);
    }
    let is_alone = !name.is_empty() && after.starts_with('}');
    let is_near = || {
        NAMES
            .into_iter()
            .any(|known| known.len() > 3 && edits(&lower, known) == 1)
    };
    is_alone && (name == lower || is_near())
}

/// The placeholder `name` with all that stands between its name and its brace.
fn read(name: &str, arguments: &str) -> Result<Placeholder, &'static str> {
    match (name, arguments) {
        ("repeat", arguments) => read_repeat(arguments),
        ("or", "") => Ok(Placeholder::Or),
        ("end", "") => Ok(Placeholder::End),
        ("or" | "end", _) => Err("it takes no argument"),
        _ => read_piece(name, arguments).map(Placeholder::Piece),
    }
}

fn read_repeat(arguments: &str) -> Result<Placeholder, &'static str> {
    let arguments = arguments.strip_prefix(' ').unwrap_or_default();
    let (count, separator) = read_count(
        arguments,
        "the number of passes is 1 to 100000, as in {repeat 100}",
    )?;
    Ok(Placeholder::Repeat(Repeat {
        count,
        separator,
        texts: Vec::new(),
        before: Vec::new(),
    }))
}

fn read_piece(name: &str, arguments: &str) -> Result<Piece, &'static str> {
    let (width, arguments) = read_width(arguments)?;
    match (name, width, arguments) {
        ("key", _, None) => Ok(Piece::Key {
            width: width.unwrap_or(0),
        }),
        ("key", ..) => {
            Err("it takes no argument; write {keys 5} for several keys, {key:08} for leading zeros")
        }
        ("keys", _, Some(arguments)) => read_keys(width.unwrap_or(0), arguments),
        ("keys", ..) => Err("it needs a number of keys, as in {keys 100} or {keys 100 ,}"),
        ("seq", _, None) => Ok(Piece::Seq {
            width: width.unwrap_or(0),
        }),
        ("seq", ..) => Err("it takes no argument, but a width as in {seq:08}"),
        ("value", None, None) => Ok(Piece::Value),
        ("value", ..) => Err("it takes no argument; the sizes of values are a setting of their own"),
        (_, None, Some(arguments)) => read_random(arguments),
        _ => Err("it needs two whole numbers, as in {random 1 100}"),
    }
}

/// Splits `:08 rest` into the width and the rest, ` rest` and the empty text likewise.
fn read_width(arguments: &str) -> Result<(Option<usize>, Option<&str>), &'static str> {
    let Some(from) = arguments.strip_prefix(':') else {
        return Ok((None, arguments.strip_prefix(' ')));
    };
    let (digits, rest) = match from.split_once(' ') {
        Some((digits, rest)) => (digits, Some(rest)),
        None => (from, None),
    };
    let width = digits
        .strip_prefix('0')
        .and_then(|width| width.parse().ok())
        .filter(|width| (1..=WIDTH_MAX).contains(width))
        .ok_or("a width is a 0 and a number from 1 to 32, as in {key:08}")?;
    Ok((Some(width), rest))
}

fn read_keys(width: usize, arguments: &str) -> Result<Piece, &'static str> {
    let (count, separator) = read_count(arguments, "the number of keys is 1 to 100000, as in {keys 100}")?;
    Ok(Piece::Keys {
        width,
        count,
        separator,
    })
}

/// A number and what stands between so many: a space where nothing is said.
fn read_count(arguments: &str, expected: &'static str) -> Result<(usize, String), &'static str> {
    let (count, separator) = arguments.split_once(' ').unwrap_or((arguments, ""));
    let count = count
        .parse()
        .ok()
        .filter(|count| (1..=KEYS_EACH_MAX).contains(count))
        .ok_or(expected)?;
    let separator = if separator.is_empty() { " " } else { separator };
    Ok((count, separator.to_owned()))
}

fn read_random(arguments: &str) -> Result<Piece, &'static str> {
    let (from, to) = arguments.split_once(' ').unwrap_or((arguments, ""));
    match (from.parse(), to.parse()) {
        (Ok(from), Ok(to)) if from <= to => Ok(Piece::Random { from, to }),
        (Ok(_), Ok(_)) => Err("the first number must not be above the second, as in {random 1 100}"),
        _ => Err("it needs two whole numbers, as in {random 1 100}"),
    }
}

fn unclosed(text: &str) -> Error {
    let found: String = text.chars().take(40).collect();
    bad(
        &found,
        "its closing } is missing; write {{ for a brace that is only text",
    )
}

fn bad(found: &str, reason: impl Into<String>) -> Error {
    Error::new(format!("placeholder `{found}`: {}", reason.into()))
}

fn unknown(name: &str) -> Error {
    let lower = name.to_ascii_lowercase();
    let nearest = NAMES.into_iter().min_by_key(|known| edits(&lower, known));
    let nearest = nearest.unwrap_or("key");
    let name: String = name.chars().take(40).collect();
    bad(
        &format!("{{{name}}}"),
        format!(
            "there is none of that name; did you mean {{{nearest}}}? Write {{{{{name}}}}} for the text itself"
        ),
    )
}

/// How many letters must be added, removed or changed to make one word the other (Levenshtein).
fn edits(one: &str, other: &str) -> usize {
    let other = other.as_bytes();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.bytes().take(40).enumerate() {
        let mut diagonal = line;
        let mut left = line + 1;
        for (above, &wanted) in row.iter_mut().skip(1).zip(other) {
            let changed = diagonal + usize::from(letter != wanted);
            diagonal = *above;
            left = changed.min(left + 1).min(diagonal + 1);
            *above = left;
        }
        if let Some(first) = row.first_mut() {
            *first = line + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        assert_eq!(edits("key", "key"), 0);
        assert_eq!(edits("", "key"), 3);
        assert_eq!(edits("kye", "key"), 2);
        assert_eq!(edits("vlue", "value"), 1);
        assert_eq!(edits("randomly", "random"), 2);
    }
}
