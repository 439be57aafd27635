//! `filter`: whether a stage runs, by what others gave: `"run"`, `{ skip = "boxes.items == 0" }`, `{ break = "none boxes" }`,
//! `{ or = "cheap" }`.
//!
//! Its invariant: a filter names one thing to do, and one value that it looks at.

use serde::Deserialize;

/// As the configuration says it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "Written")]
pub enum Filter {
    /// It runs.
    #[default]
    Run,
    /// It is skipped where the condition holds.
    Skip(String),
    /// The pipeline ends before it where the condition holds, with what is there.
    Break(String),
    /// It gives what another stage has given, and runs where that has nothing.
    Or(String),
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected \"run\", { skip = \"CONDITION\" }, { break = \"CONDITION\" } or { or = \"STAGE\" }"
)]
enum Written {
    Word(String),
    One(WrittenOne),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenOne {
    skip: Option<String>,
    r#break: Option<String>,
    or: Option<String>,
}

impl TryFrom<Written> for Filter {
    type Error = String;

    fn try_from(written: Written) -> Result<Filter, String> {
        let expected =
            "expected \"run\", { skip = \"CONDITION\" }, { break = \"CONDITION\" } or { or = \"STAGE\" }";
        match written {
            Written::Word(word) if word == "run" => Ok(Filter::Run),
            Written::Word(word) => Err(format!("filter is {word:?}; {expected}")),
            Written::One(one) => match (one.skip, one.r#break, one.or) {
                (Some(skip), None, None) => Ok(Filter::Skip(skip)),
                (None, Some(condition), None) => Ok(Filter::Break(condition)),
                (None, None, Some(stage)) => Ok(Filter::Or(stage)),
                _ => Err(format!("filter does not say one thing; {expected}")),
            },
        }
    }
}
