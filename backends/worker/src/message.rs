//! What a server and its worker say to each other: `docs/formats/worker.md` draws it. Bytes alone; it sends nothing.
//!
//! Its invariant: whatever the bytes are, reading them ends in a message or in words about what is wrong, and takes no more memory
//! than they do.

use millpond_backends_interface::foreign::{PORTS_MAX, RANK_MAX};

/// The version of the protocol.
pub(crate) const VERSION: u32 = 1;
/// Bytes of a message at most.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 10;
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

/// Where a tensor lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    /// The number of its type.
    pub(crate) element_type: u32,
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) shape: Vec<u64>,
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
    /// Of the worker, when it has loaded: its signature, in JSON.
    Ready { version: u32, signature: String },
    /// Of the worker: loading (number 0) or that run failed.
    Failed { number: u64, text: String },
    /// Of the worker: the outputs of that run.
    Answer { number: u64, tensors: Vec<Placed> },
    /// Of the worker: the outputs of that run need memory of so many bytes.
    Needs { number: u64, bytes: u64 },
}

const START: u32 = 1;
const MEMORY: u32 = 2;
const RUN: u32 = 3;
const READY: u32 = 129;
const FAILED: u32 = 130;
const ANSWER: u32 = 131;
const NEEDS: u32 = 132;

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
                head(&mut out, MEMORY, way);
                out.extend(bytes.to_le_bytes());
            }
            Message::Needs { number, bytes } => {
                head(&mut out, NEEDS, *number);
                out.extend(bytes.to_le_bytes());
            }
            Message::Run { number, tensors } => placed(&mut out, RUN, *number, tensors),
            Message::Answer { number, tensors } => placed(&mut out, ANSWER, *number, tensors),
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Message, String> {
        let mut input = Input(bytes);
        let (kind, count) = (input.u32()?, input.u32()?);
        let number = input.u64()?;
        let is_counted = matches!(kind, RUN | ANSWER);
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
            other => return Err(format!("there is no message {other}")),
        };
        match input.0.len() {
            0 => Ok(message),
            left => Err(format!("{left} bytes behind message {kind}")),
        }
    }
}

/// What every message begins with: its kind, how many tensors it names, a number.
fn head(out: &mut Vec<u8>, kind: u32, number: u64) {
    out.extend(kind.to_le_bytes());
    out.extend(0u32.to_le_bytes());
    out.extend(number.to_le_bytes());
}

fn text(out: &mut Vec<u8>, kind: u32, number: u64, text: &str) {
    head(out, kind, number);
    out.extend(text.as_bytes());
}

fn placed(out: &mut Vec<u8>, kind: u32, number: u64, tensors: &[Placed]) {
    out.extend(kind.to_le_bytes());
    out.extend((tensors.len() as u32).to_le_bytes());
    out.extend(number.to_le_bytes());
    for tensor in tensors {
        out.extend(tensor.element_type.to_le_bytes());
        out.extend((tensor.shape.len() as u32).to_le_bytes());
        out.extend(tensor.at.to_le_bytes());
        out.extend(tensor.bytes.to_le_bytes());
        tensor
            .shape
            .iter()
            .for_each(|size| out.extend(size.to_le_bytes()));
    }
}

/// What is left to read.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or("a message is cut short")?;
        self.0 = rest;
        Ok(*first)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.take().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<String, String> {
        let text = std::str::from_utf8(std::mem::take(&mut self.0));
        text.map(str::to_owned)
            .map_err(|_| "a text that is not UTF-8".to_owned())
    }

    fn words(&mut self) -> String {
        String::from_utf8_lossy(std::mem::take(&mut self.0)).into_owned()
    }

    fn tensors(&mut self, count: u32) -> Result<Vec<Placed>, String> {
        if count as usize > PORTS_MAX {
            return Err(format!("{count} tensors, where {PORTS_MAX} are the most"));
        }
        (0..count).map(|_| self.tensor()).collect()
    }

    fn tensor(&mut self) -> Result<Placed, String> {
        let (element_type, rank) = (self.u32()?, self.u32()?);
        if rank as usize > RANK_MAX {
            return Err(format!(
                "a tensor of {rank} dimensions, where {RANK_MAX} are the most"
            ));
        }
        Ok(Placed {
            element_type,
            at: self.u64()?,
            bytes: self.u64()?,
            shape: (0..rank).map(|_| self.u64()).collect::<Result<_, _>>()?,
        })
    }
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
