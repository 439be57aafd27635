//! The two small notations inside a pipeline's strings: where a hash stage reads from,
//! and the prefix of a scan with the request's values in it. Not a template language.
//! Invariant: what parses here refers to one request field and nothing else.

use crate::{Form, Kind, PerRow, RequestKind, Rows};
use std::fmt;

/// Samples have at most this many strings; more is taken for a slip of the pen.
const SAMPLE_WIDTH_MAX: usize = 64;

/// A part of the request that a stage reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `user.FIELD`: one row; a list is several values.
    User(String),
    /// `user.FIELD` where one text is needed.
    UserText(String),
    /// `items`: a row an item.
    Items,
    /// `samples.J`: a row a sample, its `J`-th string, from 0.
    Sample(usize),
    /// `inputs.NAME`: a value with rows of its own.
    Input(String),
}

impl Source {
    /// The requests that have it.
    pub fn request(&self) -> RequestKind {
        match self {
            Source::User(_) | Source::UserText(_) | Source::Items => RequestKind::Rank,
            Source::Sample(_) => RequestKind::Samples,
            Source::Input(_) => RequestKind::Values,
        }
    }

    /// The form of the value that is read there.
    pub(crate) fn form(&self) -> Form {
        let (kind, rows, per_row) = match self {
            Source::User(_) => (Kind::Texts, Rows::One, PerRow::OneOrSeveral),
            Source::UserText(_) => (Kind::Texts, Rows::One, PerRow::One),
            Source::Items | Source::Sample(_) => (Kind::Texts, Rows::Each, PerRow::One),
            Source::Input(_) => (Kind::Any, Rows::Each, PerRow::OneOrSeveral),
        };
        Form { kind, rows, per_row }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::User(field) | Source::UserText(field) => write!(f, "user.{field}"),
            Source::Items => f.write_str("items"),
            Source::Sample(at) => write!(f, "samples.{at}"),
            Source::Input(name) => write!(f, "inputs.{name}"),
        }
    }
}

/// What `from` says before stage names are resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reference<'a> {
    Request(Source),
    Stage(&'a str),
    /// A stage, and one of its outputs.
    Output(&'a str, &'a str),
}

impl Reference<'_> {
    /// The error of a text that refers to nothing.
    pub(crate) fn unknown(text: &str) -> (String, String) {
        (
            format!("`{text}` is no source of text"),
            "write inputs.NAME, user.FIELD, items, samples.J, or the name of a stage that gives texts"
                .to_string(),
        )
    }

    /// Reads `from`; the error is what is wrong and a hint.
    pub(crate) fn parse(text: &str) -> Result<Reference<'_>, (String, String)> {
        match text.split_once('.') {
            None if text == "items" => Ok(Reference::Request(Source::Items)),
            None if is_name(text) && !is_reserved(text) => Ok(Reference::Stage(text)),
            Some(("user", field)) if !field.is_empty() => {
                Ok(Reference::Request(Source::User(field.to_owned())))
            }
            Some(("inputs", input)) if !input.is_empty() => {
                Ok(Reference::Request(Source::Input(input.to_owned())))
            }
            Some((stage, output)) if is_name(stage) && !is_reserved(stage) && !output.is_empty() => {
                Ok(Reference::Output(stage, output))
            }
            Some(("samples", index)) => match index.parse() {
                Ok(index) if index < SAMPLE_WIDTH_MAX => Ok(Reference::Request(Source::Sample(index))),
                _ => Err((
                    format!("`{text}` does not name one string of a sample"),
                    format!("write samples.J with J from 0 to {}", SAMPLE_WIDTH_MAX - 1),
                )),
            },
            _ => Err(Reference::unknown(text)),
        }
    }
}

/// Whether `text` can name a stage.
pub(crate) fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|other| other.is_ascii_alphanumeric() || other == '_' || other == '-')
}

/// Names that mean a part of the request.
pub(crate) fn is_reserved(text: &str) -> bool {
    matches!(text, "user" | "items" | "samples" | "inputs")
}

/// A part of a text with fields in it: `to {user.name}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'t> {
    Text(&'t str),
    /// What stands between braces.
    Field(&'t str),
}

/// The parts of such a text, none of them empty; the error says what is wrong.
pub(crate) fn parts(text: &str) -> Result<Vec<Part<'_>>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(brace) = rest.find(['{', '}']) {
        let (before, after) = rest.split_at(brace);
        if !before.is_empty() {
            parts.push(Part::Text(before));
        }
        let Some((inside, behind)) = after.strip_prefix('{').and_then(|open| open.split_once('}')) else {
            return Err(format!("`{text}` has a brace without its partner"));
        };
        if inside.is_empty() || inside.contains('{') {
            return Err(format!("`{{{inside}}}` in `{text}` is no field of the request"));
        }
        parts.push(Part::Field(inside));
        rest = behind;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest));
    }
    Ok(parts)
}

/// A text with fields of the request in it: `u/{user.id}/`, `u/{inputs.user}/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// `user.id`.
    Field(String),
}

impl Template {
    /// Reads a template; the error says what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Template, String> {
        let mut pieces = Vec::new();
        for part in parts(text)? {
            pieces.push(match part {
                Part::Text(text) => Piece::Text(text.to_owned()),
                Part::Field(inside) => match inside.split_once('.') {
                    Some(("user" | "inputs", name)) if !name.is_empty() => Piece::Field(inside.to_owned()),
                    _ => return Err(format!("`{{{inside}}}` in `{text}` is no field of the request")),
                },
            });
        }
        if pieces.is_empty() {
            return Err("it is empty, which would read the whole store".to_string());
        }
        Ok(Template { pieces })
    }

    /// The text for one request, with `values` in the places of [`Template::fields`], which are as many.
    pub fn fill<'v>(&self, values: impl IntoIterator<Item = &'v [u8]>) -> Vec<u8> {
        let mut values = values.into_iter();
        let mut filled = Vec::new();
        for piece in &self.pieces {
            filled.extend_from_slice(match piece {
                Piece::Text(text) => text.as_bytes(),
                Piece::Field(_) => values.next().unwrap_or_default(),
            });
        }
        filled
    }

    /// The fields that it holds, in their order: `user.FIELD` or `inputs.NAME`.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Field(field) => Some(field.as_str()),
        })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => f.write_str(text),
            Piece::Field(field) => write!(f, "{{{field}}}"),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn check_reference(text: &str, expected: Option<Reference<'_>>) {
        assert_eq!(Reference::parse(text).ok(), expected, "{text}");
    }

    #[test]
    fn sources_are_told_apart() {
        let source = |source| Some(Reference::Request(source));
        check_reference("items", source(Source::Items));
        check_reference("user.id", source(Source::User("id".to_owned())));
        check_reference("user.a.b", source(Source::User("a.b".to_owned())));
        check_reference("samples.0", source(Source::Sample(0)));
        check_reference("samples.63", source(Source::Sample(63)));
        check_reference("inputs.x.y", source(Source::Input("x.y".to_owned())));
        check_reference("events", Some(Reference::Stage("events")));
        check_reference("model.0", Some(Reference::Output("model", "0")));
        for wrong in [
            "",
            "user",
            "user.",
            "samples",
            "samples.",
            "samples.x",
            "samples.-1",
            "samples.64",
            "inputs",
            "inputs.",
            "events.",
        ] {
            check_reference(wrong, None);
        }
        for wrong in ["items.0", "1st", "two words"] {
            check_reference(wrong, None);
        }
    }

    fn check_template(text: &str, expected: Result<&str, &str>) {
        let parsed = Template::parse(text);
        let filled = parsed.as_ref().map_err(String::as_str).map(|template| {
            assert_eq!(template.to_string(), text);
            let values: Vec<String> = template.fields().map(|field| format!("<{field}>")).collect();
            String::from_utf8(template.fill(values.iter().map(String::as_bytes))).unwrap()
        });
        assert_eq!(filled.as_deref(), expected.as_ref().copied());
    }

    #[test]
    fn templates_are_filled_from_the_request() {
        check_template("u/{user.id}/", Ok("u/<user.id>/"));
        check_template("all", Ok("all"));
        check_template("{user.a}{inputs.b}", Ok("<user.a><inputs.b>"));
        check_template("", Err("it is empty, which would read the whole store"));
        check_template("u/{user.id", Err("`u/{user.id` has a brace without its partner"));
        check_template("u/user.id}", Err("`u/user.id}` has a brace without its partner"));
        check_template("{item}", Err("`{item}` in `{item}` is no field of the request"));
        check_template(
            "{user.}",
            Err("`{user.}` in `{user.}` is no field of the request"),
        );
        check_template(
            "{{user.id}}",
            Err("`{{user.id}` in `{{user.id}}` is no field of the request"),
        );
    }
}
