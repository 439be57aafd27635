//! Conditions of filters: `boxes.items == 0`, `score.max < 0.5`, `kind.value != "cat"`, `none boxes`.
//!
//! A small notation over one value, and no language. Its invariant: a condition about a number that is not there does not hold, and
//! one about NaN is an error of the request.

use crate::{Items, Kind, Value};
use millpond_tensor::{Elements, Tensor, element_types};
use std::fmt;

/// What is asked of one value.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// As it was written.
    text: String,
    /// What it is asked of, as stages name it.
    pub(crate) of: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq)]
enum Test {
    /// There is no value, or no item of it.
    None,
    /// There is one.
    Some,
    Number(Property, Order, f64),
    /// The one text; whether it is to be equal.
    Text(bool, String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Property {
    Items,
    Rows,
    Min,
    Max,
    Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Equal,
    Other,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

/// The longer ones first: `<=` begins with `<`.
const ORDERS: [(&str, Order); 6] = [
    ("==", Order::Equal),
    ("!=", Order::Other),
    ("<=", Order::LessOrEqual),
    (">=", Order::MoreOrEqual),
    ("<", Order::Less),
    (">", Order::More),
];

impl Eq for Condition {}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Condition {
    /// Reads one; the error is what is wrong, and how to write it.
    pub(crate) fn parse(text: &str) -> Result<Condition, (String, String)> {
        let wrong = |what: &str| {
            (
                format!("`{text}` {what}"),
                "write STAGE.items, .rows, .min, .max or .value, then ==, !=, <, <=, > or >=, then a number or a 'text'; or none STAGE, or some STAGE".to_owned(),
            )
        };
        let of = |of: &str, test| Condition {
            text: text.to_owned(),
            of: of.to_owned(),
            test,
        };
        let trimmed = text.trim();
        for (word, test) in [("none ", Test::None), ("some ", Test::Some)] {
            if let Some(stage) = trimmed.strip_prefix(word) {
                return Ok(of(stage.trim(), test));
            }
        }
        let found = ORDERS
            .iter()
            .filter_map(|(sign, order)| Some((trimmed.find(sign)?, sign, *order)));
        let Some((at, sign, order)) = found.min_by_key(|(at, sign, _)| (*at, usize::MAX - sign.len())) else {
            return Err(wrong("compares nothing"));
        };
        let (left, right) = (trimmed[..at].trim(), trimmed[at + sign.len()..].trim());
        let Some((stage, property)) = left.rsplit_once('.') else {
            return Err(wrong("does not say what of a value"));
        };
        let property = match property {
            "items" => Property::Items,
            "rows" => Property::Rows,
            "min" => Property::Min,
            "max" => Property::Max,
            "value" => Property::Value,
            other => return Err(wrong(&format!("asks for `{other}`, which no value has"))),
        };
        let quoted = ['\'', '"']
            .iter()
            .find_map(|quote| right.strip_prefix(*quote)?.strip_suffix(*quote));
        if let Some(expected) = quoted {
            return match (property, order) {
                (Property::Value, Order::Equal) => Ok(of(stage, Test::Text(true, expected.to_owned()))),
                (Property::Value, Order::Other) => Ok(of(stage, Test::Text(false, expected.to_owned()))),
                _ => Err(wrong("compares a text, which .value == and .value != can alone")),
            };
        }
        match right.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(of(stage, Test::Number(property, order, number))),
            _ => Err(wrong(&format!("compares with `{right}`, which is no number"))),
        }
    }

    /// The kinds of values that it can be asked of.
    pub(crate) fn kinds(&self) -> &'static [Kind] {
        match &self.test {
            Test::None | Test::Some | Test::Number(Property::Items | Property::Rows, ..) => &[Kind::Any],
            Test::Number(..) => &[Kind::Floats, Kind::Scores],
            Test::Text(..) => &[Kind::Texts],
        }
    }

    /// Whether it holds; the error is a value that has no answer.
    pub(crate) fn holds(&self, value: &Value) -> Result<bool, String> {
        let (property, order, number) = match &self.test {
            Test::None => return Ok(value.items.is_empty()),
            Test::Some => return Ok(!value.items.is_empty()),
            Test::Text(equal, expected) => return self.is_text(value, *equal, expected),
            Test::Number(property, order, number) => (*property, *order, *number),
        };
        let found = match property {
            Property::Items => Some(value.items.len() as f64),
            Property::Rows => Some(value.row_count() as f64),
            Property::Min | Property::Max | Property::Value => self.number(value, property)?,
        };
        Ok(found.is_some_and(|found| match order {
            Order::Equal => found == number,
            Order::Other => found != number,
            Order::Less => found < number,
            Order::LessOrEqual => found <= number,
            Order::More => found > number,
            Order::MoreOrEqual => found >= number,
        }))
    }

    /// Whether it holds where there is no value; `None`: it says nothing of that.
    pub(crate) fn holds_of_nothing(&self) -> Option<bool> {
        match self.test {
            Test::None => Some(true),
            Test::Some => Some(false),
            _ => None,
        }
    }

    fn is_text(&self, value: &Value, equal: bool, expected: &str) -> Result<bool, String> {
        let Items::Bytes(bytes) = &value.items else {
            return Err(format!(
                "`{}` is asked of {}; expected texts",
                self.text,
                value.items.kind().as_str()
            ));
        };
        let mut texts = bytes.iter();
        match (texts.next(), texts.next()) {
            (None, _) => Ok(false),
            (Some(text), None) => Ok((text == expected.as_bytes()) == equal),
            _ => Err(format!(
                "`{}` is asked of {} texts; expected one",
                self.text,
                bytes.len()
            )),
        }
    }

    fn number(&self, value: &Value, property: Property) -> Result<Option<f64>, String> {
        let Items::Tensor(tensor) = &value.items else {
            return Err(format!(
                "`{}` is asked of {}; expected floats",
                self.text,
                value.items.kind().as_str()
            ));
        };
        if property == Property::Value && tensor.len() > 1 {
            return Err(format!(
                "`{}` is asked of {} numbers; expected one",
                self.text,
                tensor.len()
            ));
        }
        let numbers = numbers(tensor).ok_or_else(|| format!("`{}` is asked of byte strings", self.text))?;
        if let Some(at) = numbers.iter().position(|number| number.is_nan()) {
            return Err(format!("`{}` has no answer: element {at} is NaN", self.text));
        }
        let numbers = numbers.into_iter();
        Ok(match property {
            Property::Min => numbers.reduce(f64::min),
            _ => numbers.reduce(f64::max),
        })
    }
}

macro_rules! declare {
    ($($variant:ident $type:ident $kind:ident,)*) => {
        /// The elements as f64; `None` for byte strings.
        fn numbers(tensor: &Tensor) -> Option<Vec<f64>> {
            match tensor.elements() {
                $(Elements::$variant(values) => Some(values.iter().map(|value| nearest!($kind *value)).collect()),)*
                Elements::Bytes(_) => None,
            }
        }
    };
}

/// An element as the nearest f64.
macro_rules! nearest {
    (float $value:expr) => {
        f64::from($value)
    };
    (truth $value:expr) => {
        f64::from(u8::from($value))
    };
    ($kind:ident $value:expr) => {
        $value as f64
    };
}

element_types!(declare);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn floats(values: &[f32]) -> Value {
        Value::rows(Items::Tensor(
            Tensor::new(vec![values.len()], values.to_vec()).unwrap(),
        ))
    }

    fn check(text: &str, value: &Value, expected: Result<bool, &str>) {
        let condition = Condition::parse(text).unwrap();
        assert_eq!(condition.to_string(), text);
        let found = condition.holds(value);
        assert_eq!(
            found.as_ref().map_err(String::as_str),
            expected.as_ref().map_err(|error| *error),
            "{text}"
        );
    }

    #[test]
    fn conditions_hold_or_do_not() {
        let some = floats(&[0.25, 3.0]);
        check("a.items == 2", &some, Ok(true));
        check("a.rows>1", &some, Ok(true));
        check("a.max <= 3", &some, Ok(true));
        check("a.min < 0.25", &some, Ok(false));
        check("none a", &some, Ok(false));
        check("some a", &some, Ok(true));
        check("a.b.value != -1e3", &floats(&[1.0]), Ok(true));
        let flag = Value::rows(Items::Tensor(Tensor::new(vec![], vec![true]).unwrap()));
        check("a.value == 1", &flag, Ok(true));
        let text = Value::rows(Items::Bytes(["cat"].into_iter().collect()));
        check("a.value == 'cat'", &text, Ok(true));
        check("a.value != \"cat\"", &text, Ok(false));
        // About nothing only none holds.
        check("a.max < 9", &floats(&[]), Ok(false));
        check("none a", &floats(&[]), Ok(true));
    }

    #[test]
    fn what_has_no_answer_is_an_error() {
        check(
            "a.max < 1",
            &floats(&[0.0, f32::NAN]),
            Err("`a.max < 1` has no answer: element 1 is NaN"),
        );
        check(
            "a.value < 1",
            &floats(&[0.0, 1.0]),
            Err("`a.value < 1` is asked of 2 numbers; expected one"),
        );
        let keys = Value::rows(Items::Keys(vec![1]));
        check(
            "a.max < 1",
            &keys,
            Err("`a.max < 1` is asked of keys; expected floats"),
        );
        check(
            "a.value == 'x'",
            &keys,
            Err("`a.value == 'x'` is asked of keys; expected texts"),
        );
        check("a.items == 1", &keys, Ok(true));
    }

    #[test]
    fn what_is_no_condition_is_quoted() {
        for (text, expected) in [
            ("", "`` compares nothing"),
            ("a", "`a` compares nothing"),
            ("a == 1", "`a == 1` does not say what of a value"),
            ("a.mean == 1", "`a.mean == 1` asks for `mean`, which no value has"),
            ("a.max == x", "`a.max == x` compares with `x`, which is no number"),
            (
                "a.max == NaN",
                "`a.max == NaN` compares with `NaN`, which is no number",
            ),
            (
                "a.max < 'x'",
                "`a.max < 'x'` compares a text, which .value == and .value != can alone",
            ),
        ] {
            let (problem, hint) = Condition::parse(text).unwrap_err();
            assert_eq!(problem, expected);
            assert!(hint.contains("none STAGE"));
        }
    }
}
