//! What a server and its worker say to each other: `docs/formats/worker.md` draws it. Bytes alone; it sends nothing.
//!
//! Its invariant: whatever the bytes are, reading them ends in a message or in words about what is wrong, and takes no more memory
//! than they do.

use crate::placed::{Group, Input, Placed, put_groups, put_tensors};

/// The version of the protocol.
pub(crate) const VERSION: u32 = 2;
/// Bytes of a message at most.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Bytes that every message begins with.
pub(crate) const HEAD_BYTES: usize = 16;
/// Bytes of a failure's text at most.
const TEXT_BYTES_MAX: usize = 32 << 10;

/// Which of the two shared memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The server writes it.
    Inputs,
    /// The worker writes it.
    Outputs,
}

/// A message of either side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// To the worker, first: what to load, in JSON.
    Start { version: u32, what: String },
    /// To the worker, with a descriptor: shared memory of that size instead of the one before it.
    Memory { way: Way, bytes: u64 },
    /// To the worker: run the model on these inputs.
    Run { number: u64, tensors: Vec<Placed> },
    /// To the worker: run the model on these requests, which are not joined.
    Requests { number: u64, requests: Vec<Group> },
    /// Of the worker, when it has loaded: its signature, in JSON.
    Ready { version: u32, signature: String },
    /// Of the worker: loading (number 0) or that run failed.
    Failed { number: u64, text: String },
    /// Of the worker: the outputs of that run.
    Answer { number: u64, tensors: Vec<Placed> },
    /// Of the worker: what each request of that run comes to.
    Results { number: u64, results: Vec<Group> },
    /// Of the worker: the outputs of that run need memory of so many bytes.
    Needs { number: u64, bytes: u64 },
}

const START: u32 = 1;
const MEMORY: u32 = 2;
const RUN: u32 = 3;
const REQUESTS: u32 = 4;
const READY: u32 = 129;
const FAILED: u32 = 130;
const ANSWER: u32 = 131;
const NEEDS: u32 = 132;
const RESULTS: u32 = 133;

impl Message {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Message::Start { version, what } => text(&mut out, START, u64::from(*version), what),
            Message::Ready { version, signature } => text(&mut out, READY, u64::from(*version), signature),
            Message::Failed { number, text: words } => {
                let end = (0..=TEXT_BYTES_MAX.min(words.len()))
                    .rev()
                    .find(|end| words.is_char_boundary(*end));
                text(&mut out, FAILED, *number, &words[..end.unwrap_or_default()]);
            }
            Message::Memory { way, bytes } => {
                let way = match way {
                    Way::Inputs => 0,
                    Way::Outputs => 1,
                };
                head(&mut out, MEMORY, 0, way);
                out.extend(bytes.to_le_bytes());
            }
            Message::Needs { number, bytes } => {
                head(&mut out, NEEDS, 0, *number);
                out.extend(bytes.to_le_bytes());
            }
            Message::Run { number, tensors } => placed(&mut out, RUN, *number, tensors),
            Message::Answer { number, tensors } => placed(&mut out, ANSWER, *number, tensors),
            Message::Requests { number, requests } => groups(&mut out, REQUESTS, *number, requests),
            Message::Results { number, results } => groups(&mut out, RESULTS, *number, results),
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Message, String> {
        let mut input = Input::of(bytes);
        let (kind, count) = (input.u32()?, input.u32()?);
        let number = input.u64()?;
        let is_counted = matches!(kind, RUN | ANSWER | REQUESTS | RESULTS);
        if !is_counted && count != 0 {
            return Err(format!("message {kind} counts {count} tensors"));
        }
        let version = || u32::try_from(number).unwrap_or(u32::MAX);
        let message = match kind {
            START => Message::Start {
                version: version(),
                what: input.text()?,
            },
            READY => Message::Ready {
                version: version(),
                signature: input.text()?,
            },
            FAILED => Message::Failed {
                number,
                text: input.words(),
            },
            MEMORY => Message::Memory {
                way: match number {
                    0 => Way::Inputs,
                    1 => Way::Outputs,
                    other => return Err(format!("there is no memory {other}")),
                },
                bytes: input.u64()?,
            },
            NEEDS => Message::Needs {
                number,
                bytes: input.u64()?,
            },
            RUN => Message::Run {
                number,
                tensors: input.tensors(count)?,
            },
            ANSWER => Message::Answer {
                number,
                tensors: input.tensors(count)?,
            },
            REQUESTS => Message::Requests {
                number,
                requests: input.groups(count)?,
            },
            RESULTS => Message::Results {
                number,
                results: input.groups(count)?,
            },
            other => return Err(format!("there is no message {other}")),
        };
        match input.len() {
            0 => Ok(message),
            left => Err(format!("{left} bytes behind message {kind}")),
        }
    }
}

/// What every message begins with: its kind, how many tensors or requests it names, a number.
fn head(out: &mut Vec<u8>, kind: u32, count: usize, number: u64) {
    out.extend(kind.to_le_bytes());
    out.extend((count as u32).to_le_bytes());
    out.extend(number.to_le_bytes());
}

fn text(out: &mut Vec<u8>, kind: u32, number: u64, text: &str) {
    head(out, kind, 0, number);
    out.extend(text.as_bytes());
}

fn placed(out: &mut Vec<u8>, kind: u32, number: u64, tensors: &[Placed]) {
    head(out, kind, tensors.len(), number);
    put_tensors(out, tensors);
}

fn groups(out: &mut Vec<u8>, kind: u32, number: u64, groups: &[Group]) {
    head(out, kind, groups.len(), number);
    put_groups(out, groups);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn all() -> Vec<Message> {
        let tensors = vec![
            Placed {
                element_type: 9,
                at: 64,
                bytes: 17,
                shape: vec![1, 2],
            },
            Placed {
                element_type: 1,
                at: 0,
                bytes: 4,
                shape: vec![],
            },
        ];
        let text = "é".to_owned();
        let requests = vec![Group::of(tensors.clone()), Group::of(Vec::new())];
        let results = vec![
            Group::of(tensors.clone()),
            Group {
                is_failure: true,
                tensors: tensors[1..].to_vec(),
            },
        ];
        vec![
            Message::Start {
                version: 1,
                what: "{}".to_owned(),
            },
            Message::Memory {
                way: Way::Outputs,
                bytes: 1 << 40,
            },
            Message::Run {
                number: 7,
                tensors: tensors.clone(),
            },
            Message::Ready {
                version: 1,
                signature: "{}".to_owned(),
            },
            Message::Failed { number: 7, text },
            Message::Answer { number: 7, tensors },
            Message::Needs { number: 7, bytes: 1 },
            Message::Requests { number: 7, requests },
            Message::Results { number: 7, results },
        ]
    }

    #[test]
    fn messages_come_back_and_cut_ones_are_refused() {
        for message in all() {
            let bytes = message.encode();
            assert_eq!(Message::decode(&bytes), Ok(message.clone()));
            for end in 0..bytes.len() {
                let cut = Message::decode(&bytes[..end]);
                assert_ne!(cut, Ok(message.clone()), "{end}");
            }
            // A text has no end of its own.
            let has_text = matches!(
                message,
                Message::Start { .. } | Message::Ready { .. } | Message::Failed { .. }
            );
            let longer = [&bytes[..], b"x"].concat();
            assert_eq!(Message::decode(&longer).is_ok(), has_text);
        }
    }

    #[test]
    fn numbers_beyond_their_bounds_are_refused() {
        let refused = |kind: u32, count: u32, rest: &[u8]| {
            let mut bytes = [kind.to_le_bytes(), count.to_le_bytes()].concat();
            bytes.extend(0u64.to_le_bytes());
            bytes.extend(rest);
            Message::decode(&bytes).unwrap_err()
        };
        assert!(refused(ANSWER, 65, &[]).contains("65 tensors"));
        assert!(refused(ANSWER, u32::MAX, &[]).contains("tensors"));
        assert!(refused(FAILED, 1, &[]).contains("counts 1 tensors"));
        assert!(refused(99, 0, &[]).contains("no message 99"));
        let rank = [1u32.to_le_bytes(), 17u32.to_le_bytes()].concat();
        assert!(refused(RUN, 1, &rank).contains("17 dimensions"));
        // So many requests take more memory than the message has bytes.
        assert!(refused(REQUESTS, u32::MAX, &[]).contains("cut short"));
        let group = |outcome: u32, count: u32| [outcome.to_le_bytes(), count.to_le_bytes()].concat();
        assert!(refused(RESULTS, 1, &group(2, 0)).contains("the outcome 2"));
        assert!(refused(RESULTS, 1, &group(0, 65)).contains("65 tensors"));
        assert!(refused(RESULTS, 1, &group(0, 1)).contains("cut short"));
    }

    #[test]
    fn a_long_text_is_cut_between_letters() {
        let text = "é".repeat(TEXT_BYTES_MAX);
        let bytes = Message::Failed { number: 1, text }.encode();
        assert!(bytes.len() <= MESSAGE_BYTES_MAX);
        let Message::Failed { text, .. } = Message::decode(&bytes).unwrap() else {
            panic!("it is a failure")
        };
        assert!(text.chars().all(|letter| letter == 'é'));
    }
}
