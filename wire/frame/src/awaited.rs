//! Which call an answer belongs to: the calls that one side of a connection has sent and that are not answered yet.
//!
//! Bytes only: it opens no connection and reads no clock. Its invariant: a call that was begun is given back once, by its
//! answer, by [`Awaited::take`] or by [`Awaited::drain`].
//!
//! ```
//! use millpond_wire_frame::{Awaited, Encoding, FrameKind, Limits, Parsed, write_frame};
//!
//! let (mut awaited, mut out) = (Awaited::default(), Vec::new());
//! let seq = awaited.write(&mut out, Encoding::Msgpack, "*ping", &[0x80], "mine").unwrap();
//! let mut answer = Vec::new();
//! write_frame(&mut answer, Encoding::Msgpack, FrameKind::Answer { status: 0, seq }, &[0x80]).unwrap();
//! let Parsed::Whole { message, .. } = awaited.read(&answer, Limits::default()).unwrap() else { panic!() };
//! assert_eq!(message.call, Some("mine"));
//! ```

use crate::{Encoding, Frame, FrameError, FrameKind, Limits, Parsed, parse_frame, write_frame};
use std::collections::HashMap;

/// Calls of one connection that await their answers, each with what its caller keeps of it.
#[derive(Debug)]
pub struct Awaited<T> {
    calls: HashMap<u32, T>,
    /// The number of the next call.
    next: u32,
}

impl<T> Default for Awaited<T> {
    fn default() -> Awaited<T> {
        Awaited {
            calls: HashMap::new(),
            next: 1,
        }
    }
}

/// A frame of the peer, and the call that it answers.
#[derive(Debug)]
pub struct Returned<'i, T> {
    /// What its caller kept of the call; nothing where the frame answers none that is awaited.
    pub call: Option<T>,
    /// The frame.
    pub frame: Frame<'i>,
}

impl<T> Awaited<T> {
    /// Appends the frame of a call to `out`, under a number that no awaited call has, and returns the number.
    ///
    /// # Errors
    /// As [`write_frame`], with what was to be kept; nothing is written or awaited then.
    pub fn write(
        &mut self,
        out: &mut Vec<u8>,
        encoding: Encoding,
        method: &str,
        payload: &[u8],
        call: T,
    ) -> Result<u32, (FrameError, T)> {
        // Far fewer calls are awaited than there are numbers.
        while self.calls.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let seq = self.next;
        let kind = FrameKind::Twoway { method, seq };
        if let Err(error) = write_frame(out, encoding, kind, payload) {
            return Err((error, call));
        }
        self.next = seq.wrapping_add(1);
        self.calls.insert(seq, call);
        Ok(seq)
    }

    /// Reads the frame at the front of `input`; where it is an answer, its call is no longer awaited.
    ///
    /// # Errors
    /// As [`parse_frame`].
    pub fn read<'i>(
        &mut self,
        input: &'i [u8],
        limits: Limits,
    ) -> Result<Parsed<Returned<'i, T>>, FrameError> {
        Ok(match parse_frame(input, limits)? {
            Parsed::Partial { needed } => Parsed::Partial { needed },
            Parsed::Whole { message: frame, len } => {
                let call = match frame.kind {
                    FrameKind::Answer { seq, .. } => self.take(seq),
                    FrameKind::Oneway { .. } | FrameKind::Twoway { .. } => None,
                };
                let message = Returned { call, frame };
                Parsed::Whole { message, len }
            }
        })
    }

    /// The call of that number, which is awaited no longer.
    pub fn take(&mut self, seq: u32) -> Option<T> {
        self.calls.remove(&seq)
    }

    /// How many are awaited.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// All of them: no answer comes any more.
    pub fn drain(&mut self) -> Vec<T> {
        self.calls.drain().map(|(_, call)| call).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn answer(seq: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let kind = FrameKind::Answer { status: 0, seq };
        write_frame(&mut bytes, Encoding::Msgpack, kind, &[0x80]).unwrap();
        bytes
    }

    fn read(awaited: &mut Awaited<char>, bytes: &[u8]) -> Option<char> {
        match awaited.read(bytes, Limits::default()).unwrap() {
            Parsed::Whole { message, len } => {
                assert_eq!(len, bytes.len());
                message.call
            }
            Parsed::Partial { .. } => panic!("{bytes:?} is partial"),
        }
    }

    #[test]
    fn answers_in_any_order_find_their_calls_once() {
        let (mut awaited, mut out) = (Awaited::default(), Vec::new());
        let mut begin = |awaited: &mut Awaited<char>, call| {
            awaited
                .write(&mut out, Encoding::Msgpack, "m", &[0x80], call)
                .unwrap()
        };
        let (a, b) = (begin(&mut awaited, 'a'), begin(&mut awaited, 'b'));
        assert_eq!(read(&mut awaited, &answer(b)), Some('b'));
        assert_eq!(read(&mut awaited, &answer(b)), None);
        assert_eq!(read(&mut awaited, &answer(999)), None);
        let c = begin(&mut awaited, 'c');
        assert_eq!(awaited.len(), 2);
        assert_eq!(read(&mut awaited, &answer(a)), Some('a'));
        assert_eq!(awaited.drain(), ['c']);
        assert_eq!(read(&mut awaited, &answer(c)), None);
        assert!(awaited.is_empty());
    }

    #[test]
    fn numbers_wrap_past_those_that_are_awaited() {
        let (mut awaited, mut out) = (Awaited::default(), Vec::new());
        awaited.next = u32::MAX;
        let mut begin = |awaited: &mut Awaited<char>| {
            awaited
                .write(&mut out, Encoding::Msgpack, "m", &[0x80], 'x')
                .unwrap()
        };
        let first = begin(&mut awaited);
        assert_eq!((first, begin(&mut awaited)), (u32::MAX, 0));
        awaited.next = u32::MAX;
        assert_eq!(begin(&mut awaited), 1);
    }

    #[test]
    fn a_call_that_cannot_be_written_is_given_back() {
        let (mut awaited, mut out) = (Awaited::default(), Vec::new());
        let (_, call) = awaited
            .write(&mut out, Encoding::Msgpack, "", &[0x80], 'x')
            .unwrap_err();
        assert_eq!((call, awaited.len(), out.len()), ('x', 0, 0));
    }
}
