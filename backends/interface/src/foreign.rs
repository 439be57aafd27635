//! What code that this workspace did not build says of itself: element types by number, and signatures that may be nonsense.
//!
//! It loads nothing. Its invariants: a number means one type for ever, since plugins and workers are built with it; and a signature that
//! [`Signature::check_foreign`] lets through is one that runs, answers and messages can be held against.

use crate::{Port, Signature};
use millpond_tensor::{Bytes, ElementType};

/// Inputs or outputs at most.
pub const PORTS_MAX: usize = 64;
/// Dimensions of a tensor at most.
pub const RANK_MAX: usize = 16;
/// Bytes of a name at most.
pub const NAME_BYTES_MAX: usize = 256;

/// The numbers of `millpond_plugin.h` and of workers' messages; none is ever used again for another type.
const NUMBERS: &[(&str, u32)] = &[
    ("f32", 1),
    ("f64", 2),
    ("f16", 3),
    ("bf16", 4),
    ("i64", 5),
    ("i32", 6),
    ("u8", 7),
    ("bool", 8),
    ("bytes", 9),
    ("i8", 10),
    ("i16", 11),
    ("u16", 12),
    ("u32", 13),
    ("u64", 14),
];

/// The number of a type; 0 for one that foreign code does not know.
pub fn number_of(element_type: ElementType) -> u32 {
    let name = element_type.as_str();
    let mut numbers = NUMBERS.iter();
    numbers
        .find(|(known, _)| *known == name)
        .map_or(0, |(_, number)| *number)
}

/// The type of a number.
pub fn type_of(number: u32) -> Option<ElementType> {
    let (name, _) = NUMBERS.iter().find(|(_, known)| *known == number)?;
    ElementType::parse(name)
}

impl Signature {
    /// What is wrong with a signature that foreign code gave.
    ///
    /// # Errors
    /// The problem, by the name or the number of the input or output.
    pub fn check_foreign(&self) -> Result<(), String> {
        for (what, ports) in [("input", &self.inputs), ("output", &self.outputs)] {
            if !(1..=PORTS_MAX).contains(&ports.len()) {
                return Err(format!(
                    "it has {} {what}s; expected 1 to {PORTS_MAX}",
                    ports.len()
                ));
            }
            for (at, port) in ports.iter().enumerate() {
                let name = &port.name;
                if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
                    return Err(format!(
                        "{what} {at} has no usable name; expected 1 to {NAME_BYTES_MAX} bytes of text without control characters"
                    ));
                }
                if ports[..at].iter().any(|other| other.name == *name) {
                    return Err(format!("two {what}s are called `{name}`"));
                }
                if port.shape.len() > RANK_MAX {
                    return Err(format!(
                        "{what} `{name}` has {} dimensions; expected at most {RANK_MAX}",
                        port.shape.len()
                    ));
                }
                if self.batched && port.shape.first() != Some(&None) {
                    return Err(format!(
                        "the model is batched, and the first dimension of {what} `{name}` is not free"
                    ));
                }
                let width = port.element_type.bytes().unwrap_or(size_of::<u64>());
                let mut sizes = port.shape.iter().flatten();
                let bytes = sizes.try_fold(width, |bytes, size| bytes.checked_mul(*size));
                if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
                    return Err(format!("{what} `{name}` is larger than any memory"));
                }
            }
        }
        Ok(())
    }
}

impl Port {
    /// The shape of an output that foreign code gave, and how many elements it has; it must be as the port says, and have so many `rows`
    /// where there is a batch. `number` is that of its type.
    ///
    /// # Errors
    /// What does not fit, to be read behind the output's name.
    pub fn check_output(
        &self,
        number: u32,
        shape: impl Iterator<Item = u64>,
        rows: Option<usize>,
    ) -> Result<(Vec<usize>, usize), String> {
        let expected = self.element_type;
        if type_of(number) != Some(expected) {
            return Err(format!(
                "has type {number}, and its signature says {expected} ({})",
                number_of(expected)
            ));
        }
        let size = |size| usize::try_from(size).unwrap_or(usize::MAX);
        let shape: Vec<usize> = shape.map(size).collect();
        if !self.fits(&shape) || rows.is_some_and(|rows| shape.first() != Some(&rows)) {
            let rows = rows.map_or(String::new(), |rows| format!(" with {rows} rows"));
            return Err(format!(
                "has shape {shape:?}, and its signature says {self}{rows}"
            ));
        }
        let len = shape.iter().try_fold(1usize, |len, size| len.checked_mul(*size));
        Ok((shape, len.ok_or("is too large")?))
    }
}

/// The strings that end there in `joined`; the last of them must end where it does.
///
/// # Errors
/// What does not fit, to be read behind the output's name.
pub fn strings(joined: &[u8], ends: impl ExactSizeIterator<Item = u64>) -> Result<Bytes, String> {
    let mut strings = Bytes::with_capacity(ends.len(), joined.len());
    let mut start = 0;
    for (index, end) in ends.enumerate() {
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        let string = joined.get(start..end).ok_or_else(|| {
            format!(
                "has a string {index} from byte {start} to {end} of {}",
                joined.len()
            )
        })?;
        strings.push(string);
        start = end;
    }
    if start != joined.len() {
        return Err(format!(
            "has {} bytes of strings, and the last ends at {start}",
            joined.len()
        ));
    }
    Ok(strings)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_type_has_a_number_of_its_own() {
        for &element_type in ElementType::ALL {
            let number = number_of(element_type);
            assert_eq!(type_of(number), Some(element_type), "{element_type}: {number}");
        }
        assert_eq!((type_of(0), type_of(77)), (None, None));
    }

    fn check(change: impl FnOnce(&mut Signature), expected: Option<&str>) {
        let port = |name: &str| Port {
            name: name.to_owned(),
            element_type: ElementType::F32,
            shape: vec![None, Some(2)],
        };
        let mut signature = Signature {
            inputs: vec![port("a"), port("b")],
            outputs: vec![port("y")],
            batched: true,
        };
        change(&mut signature);
        match (signature.check_foreign(), expected) {
            (Ok(()), None) => {}
            (Err(found), Some(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("expected {expected:?}, found {found:?}"),
        }
    }

    #[test]
    fn signatures_of_nonsense_are_refused_by_name() {
        check(|_| {}, None);
        check(|s| s.inputs.clear(), Some("it has 0 inputs"));
        check(
            |s| s.outputs = vec![s.outputs[0].clone(); 65],
            Some("it has 65 outputs"),
        );
        check(|s| s.inputs[1].name.clear(), Some("input 1 has no usable name"));
        check(
            |s| s.inputs[1].name = "a\n".into(),
            Some("input 1 has no usable name"),
        );
        check(
            |s| s.inputs[1].name = "x".repeat(257),
            Some("input 1 has no usable name"),
        );
        check(
            |s| s.inputs[1].name = "a".into(),
            Some("two inputs are called `a`"),
        );
        check(
            |s| s.outputs[0].shape = vec![None; 17],
            Some("output `y` has 17 dimensions"),
        );
        check(
            |s| s.outputs[0].shape = vec![],
            Some("first dimension of output `y`"),
        );
        check(
            |s| s.inputs[0].shape[0] = Some(3),
            Some("first dimension of input `a`"),
        );
        check(
            |s| s.inputs[0].shape = vec![None, Some(1 << 62), Some(8)],
            Some("input `a` is larger than any memory"),
        );
        check(
            |s| {
                s.batched = false;
                s.outputs[0].shape = vec![];
            },
            None,
        );
    }
}
