//! What a right answer is: a field of so many finite numbers in a range, and the expected ones where those are known.
//!
//! The answer is read once, straight into a vector that is used again; no tree is built. What a pipeline of this process gave is written
//! first as a server writes it. Its invariant: an answer counts
//! as right only if every rule was looked at and held.

mod reading;
mod rules;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millpond_pipelines::Value;
use millpond_press_workload::RequestSet;
use millpond_wire_payload::{Encoder, Encoding};
use millpond_wire_schema::{Field as _, run};

use crate::msgpack::check_one_map;
use reading::{length_of, read};
pub use rules::Rules;

/// An answer's bytes in the format its protocol carries.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer<'a> {
    Json(&'a [u8]),
    Msgpack(&'a [u8]),
    /// Bytes that only their protocol understands.
    Bytes(&'a [u8]),
    /// Rows that were looked up in this process.
    Floats(&'a [f32]),
    /// What a pipeline of this process gave. It is checked as the server's answer to `run` that holds it.
    Values {
        values: &'a [(Arc<str>, Value)],
        skipped: &'a [Arc<str>],
    },
}

impl<'a> Answer<'a> {
    fn bytes(self) -> &'a [u8] {
        match self {
            Answer::Json(bytes) | Answer::Msgpack(bytes) | Answer::Bytes(bytes) => bytes,
            // They hold no text, and are hashed by themselves.
            Answer::Floats(_) => &[],
            // They are written before they are looked at.
            Answer::Values { .. } => &[],
        }
    }
}

/// What a protocol has found of an answer before the rules are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verified {
    /// Nothing of its form.
    Nothing,
    /// That it is one map of msgpack, whole and with nothing behind it.
    OneMap,
}

/// The answer of a server that holds these values.
fn written(values: &[(Arc<str>, Value)], skipped: &[Arc<str>]) -> Result<Vec<u8>, Wrong> {
    let answer = millpond_methods::answered(values.to_vec(), skipped);
    let answer = answer.map_err(|status| Wrong::Unreadable(status.to_string()))?;
    let mut bytes = Vec::new();
    run::Answer::write(&answer, &mut Encoder::new(&mut bytes, Encoding::Msgpack, false));
    Ok(bytes)
}

/// Why an answer is wrong.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum Wrong {
    #[error("it does not hold {0:?}")]
    Lacks(String),
    #[error("it differs from the first answer to the same request")]
    Changed,
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
    #[error("the answer has no field of that name")]
    NoField,
    #[error("expected {expected} numbers, found {found}")]
    Count { expected: usize, found: usize },
    #[error("number {at} is {value}, out of range")]
    Range { at: usize, value: f32 },
    #[error("number {at} is {found}, expected {expected}")]
    Differs { at: usize, expected: f32, found: f32 },
}

/// The rules, made ready for every request of a set.
#[derive(Debug)]
pub struct Checker {
    rules: Rules,
    /// The key of the answer that holds numbers; nothing where no numbers are looked at.
    field: Option<String>,
    /// How many numbers each request asks for; empty where that is not checked.
    lengths: Vec<usize>,
    /// The expected numbers of all requests, one after the other.
    expected: Vec<f32>,
    /// Where each request's expected numbers end; empty where none are known.
    expected_ends: Vec<usize>,
    /// A hash of the first answer to each request, 0 before it came; empty where answers need not stay the same.
    first: Vec<AtomicU64>,
}

impl Checker {
    /// Reads what the rules need out of the requests (where they are JSON) and the expected answers.
    ///
    /// # Errors
    /// A request or an expected answer does not hold what the rules are about.
    pub fn new(
        rules: &Rules,
        requests: Option<&RequestSet>,
        expected: Option<&RequestSet>,
        count: usize,
    ) -> Result<Checker, String> {
        let numbers = rules.field.is_some() || rules.length_of.is_some() || expected.is_some();
        let mut checker = Checker {
            rules: rules.clone(),
            field: numbers.then(|| rules.field.clone().unwrap_or_else(|| "scores".into())),
            lengths: Vec::new(),
            expected: Vec::new(),
            expected_ends: Vec::new(),
            first: Vec::new(),
        };
        if rules.same {
            checker.first.resize_with(count, AtomicU64::default);
        }
        if let Some(key) = &rules.length_of {
            let requests =
                requests.ok_or("check.length_of needs requests of JSON, from `file` or `generate`")?;
            checker.read_lengths(key, requests)?;
        }
        checker.read_expected(expected)?;
        Ok(checker)
    }

    fn read_lengths(&mut self, key: &str, requests: &RequestSet) -> Result<(), String> {
        for (number, body) in requests.iter().enumerate() {
            let length = length_of(key, body).map_err(|error| {
                format!(
                    "check.length_of: request {} has no array `{key}` ({error})",
                    number + 1
                )
            })?;
            self.lengths.push(length);
        }
        Ok(())
    }

    fn read_expected(&mut self, expected: Option<&RequestSet>) -> Result<(), String> {
        let field = self.field.clone().unwrap_or_default();
        let mut numbers = Vec::new();
        for (number, body) in expected.into_iter().flat_map(RequestSet::iter).enumerate() {
            read(&field, Answer::Json(body), &mut numbers)
                .map_err(|wrong| format!("requests.expected, answer {}: {wrong}", number + 1))?;
            self.expected.extend_from_slice(&numbers);
            self.expected_ends.push(self.expected.len());
        }
        Ok(())
    }

    /// The part of the answers to check.
    pub fn share(&self) -> f64 {
        self.rules.share
    }

    /// The rules in words.
    pub fn in_words(&self) -> String {
        let rules = &self.rules;
        let mut words = match &self.field {
            Some(field) => {
                format!(
                    "`{field}` holds finite numbers from {} to {}",
                    rules.min, rules.max
                )
            }
            None => "it is no error".to_owned(),
        };
        if let Some(key) = &rules.length_of {
            words += &format!(", as many as `{key}`");
        }
        if !self.expected_ends.is_empty() {
            words += &format!(", equal to the expected ones within {}", rules.tolerance);
        }
        if let Some(text) = &rules.contains {
            words += &format!("; it holds {text:?}");
        }
        if rules.same {
            words += "; it equals the first answer to the same request";
        }
        words
    }

    /// Checks the answer to request `index`; `numbers` is room to work in.
    pub(crate) fn check(
        &self,
        index: usize,
        answer: Answer<'_>,
        numbers: &mut Vec<f32>,
    ) -> Result<(), Wrong> {
        if let Answer::Values { values, skipped } = answer {
            let written = written(values, skipped)?;
            return self.check(index, Answer::Msgpack(&written), numbers);
        }
        if let Answer::Msgpack(bytes) = answer {
            check_one_map(bytes).map_err(|error| Wrong::Unreadable(error.to_string()))?;
        }
        self.check_content(index, answer, numbers)
    }

    /// The same of an answer that is known to be one map, whole, where its protocol carries msgpack.
    pub(crate) fn check_content(
        &self,
        index: usize,
        answer: Answer<'_>,
        numbers: &mut Vec<f32>,
    ) -> Result<(), Wrong> {
        self.compare_bytes(index, answer)?;
        let Some(field) = &self.field else {
            return Ok(());
        };
        read(field, answer, numbers)?;
        let found = numbers.len();
        if let Some(&expected) = self.lengths.get(index)
            && expected != found
        {
            return Err(Wrong::Count { expected, found });
        }
        // Written so that NaN is out of range.
        let inside = |value: f32| value >= self.rules.min && value <= self.rules.max;
        if let Some(at) = numbers.iter().position(|&value| !inside(value)) {
            return Err(Wrong::Range {
                at,
                value: numbers[at],
            });
        }
        self.compare(index, numbers)
    }

    fn compare_bytes(&self, index: usize, answer: Answer<'_>) -> Result<(), Wrong> {
        let bytes = answer.bytes();
        if let Some(text) = &self.rules.contains
            && !bytes
                .windows(text.len().max(1))
                .any(|part| part == text.as_bytes())
        {
            return Err(Wrong::Lacks(text.clone()));
        }
        let Some(first) = self.first.get(index) else {
            return Ok(());
        };
        // 0 stands for "none yet".
        let hash = match answer {
            Answer::Floats(values) => hash_floats(values),
            _ => hash(bytes),
        };
        let hash = hash.max(1);
        match first.compare_exchange(0, hash, Relaxed, Relaxed) {
            Err(other) if other != hash => Err(Wrong::Changed),
            _ => Ok(()),
        }
    }

    fn compare(&self, index: usize, numbers: &[f32]) -> Result<(), Wrong> {
        let Some(&end) = self.expected_ends.get(index) else {
            return Ok(());
        };
        let start = if index == 0 {
            0
        } else {
            self.expected_ends[index - 1]
        };
        let wanted = &self.expected[start..end];
        let (expected, found) = (wanted.len(), numbers.len());
        if expected != found {
            return Err(Wrong::Count { expected, found });
        }
        let mut pairs = numbers.iter().zip(wanted).enumerate();
        match pairs.find(|(_, (found, expected))| (*found - *expected).abs() > self.rules.tolerance) {
            Some((at, (&found, &expected))) => Err(Wrong::Differs { at, expected, found }),
            None => Ok(()),
        }
    }
}

/// One step of a hash for telling answers apart: multiply and rotate (the method of FxHash, of the Rust compiler).
fn mix(state: u64, word: u64) -> u64 {
    (state.rotate_left(5) ^ word).wrapping_mul(0x51_7c_c1_b7_27_22_0a_95)
}

/// The hash of bytes, eight at a time.
fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let state = words.fold(bytes.len() as u64, mix);
    rest.iter().map(|&byte| u64::from(byte)).fold(state, mix)
}

/// The hash of floats, bit by bit.
fn hash_floats(values: &[f32]) -> u64 {
    let words = values.iter().map(|value| u64::from(value.to_bits()));
    words.fold(values.len() as u64, mix)
}

/// Which answers are checked when only a share of them is.
#[derive(Debug, Default)]
pub(crate) struct Sampling {
    /// Grows by the share with every answer; a whole one is a check.
    credit: f64,
}

impl Sampling {
    /// Whether the next answer is checked.
    #[inline]
    pub(crate) fn takes(&mut self, share: f64) -> bool {
        self.credit += share;
        let takes = self.credit >= 1.0;
        if takes {
            self.credit -= 1.0;
        }
        takes
    }
}

#[cfg(test)]
mod tests;
