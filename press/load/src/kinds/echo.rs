//! Raw TCP echo: what comes back must be what was sent, byte for byte.
//!
//! There is no framing: an answer is as long as its request. Its invariant: one byte that differs is a wrong answer, and the
//! connection goes on, because the lengths still hold.

use crate::check::Answer;
use crate::kind::{Description, Given, Operation, Takes, TargetKind};
use crate::protocol::{Found, Malformed, Prepared, Protocol, Read, Said};

/// The prepared requests.
pub(crate) struct Echo {
    requests: Prepared,
}

impl TargetKind for Echo {
    const NAMES: &'static [&'static str] = &["echo"];
    const TAKES: Takes = Takes {
        pipelined: true,
        any_bytes: true,
        ..Takes::NONE
    };

    fn texts(_: &Description<'_>, operation: &Operation) -> Result<Vec<String>, &'static str> {
        Ok(vec![operation.body.clone().ok_or("body")?])
    }

    fn verified(_: &Given<'_>) -> &'static str {
        "; every byte comes back as it was sent"
    }

    fn prepare(given: &Given<'_>) -> Result<Echo, String> {
        let mut requests = Prepared::default();
        for body in given.set.iter() {
            requests.push(|out| out.extend_from_slice(body));
        }
        Ok(Echo { requests })
    }
}

impl Protocol for Echo {
    type State = ();
    const NUMBERED: bool = false;

    fn requests(&self) -> &Prepared {
        &self.requests
    }

    #[inline]
    fn read<'b>(
        &self,
        _state: &mut (),
        index: usize,
        bytes: &'b [u8],
        _ended: bool,
        _scratch: &'b mut Vec<u8>,
    ) -> Result<Read<'b>, Malformed> {
        let used = self.requests.get(index).len();
        Ok(match bytes.get(..used) {
            Some(answer) => Found::next(used, Said::Answer(Answer::Bytes(answer))),
            None => Read::Needs(used),
        })
    }

    #[inline]
    fn verify(&self, index: usize, answer: Answer<'_>) -> Result<(), String> {
        let Answer::Bytes(found) = answer else {
            return Ok(());
        };
        let expected = self.requests.get(index);
        if found == expected {
            return Ok(());
        }
        let at = found.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(0);
        Err(format!(
            "byte {at} of the echo is {}, sent {}",
            found[at], expected[at]
        ))
    }
}
