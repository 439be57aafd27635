//! Raw TCP echo: what comes back must be what was sent, byte for byte.
//!
//! There is no framing: an answer is as long as its request. Its invariant: one byte that differs is a wrong answer, and the
//! connection goes on, because the lengths still hold.

use crate::TargetKind;
use crate::check::{Answer, Verified};
use crate::kind::{Given, Takes};
use crate::protocol::{Found, Input, Malformed, Prepared, Protocol, Read, Said, on_wire};

pub(super) const KIND: TargetKind = TargetKind {
    texts: |_, operation| Ok(vec![operation.body.clone().ok_or("body")?]),
    verified: |_| "; every byte comes back as it was sent",
    // Its answers are held against its own requests.
    knows_rows: |_| true,
    ..on_wire::<Echo>(&["echo"])
};

struct Echo;

impl Protocol for Echo {
    type State = ();
    const TAKES: Takes = Takes {
        pipelined: true,
        any_bytes: true,
        ..Takes::NONE
    };

    fn prepare(given: &Given<'_>, requests: &mut Prepared) -> Result<Echo, String> {
        for body in given.set.iter() {
            requests.push(|out| out.extend_from_slice(body));
        }
        Ok(Echo)
    }

    #[inline]
    fn read<'b>(&self, (): &mut (), request: &[u8], input: Input<'b>) -> Result<Read<'b>, Malformed> {
        let used = request.len();
        Ok(match input.bytes.get(..used) {
            Some(answer) => Found::next(used, Said::Answer(Answer::Bytes(answer))),
            None => Read::Needs(used),
        })
    }

    #[inline]
    fn verify(&self, _index: usize, request: &[u8], answer: Answer<'_>) -> Result<Verified, String> {
        let Answer::Bytes(found) = answer else {
            return Ok(Verified::Nothing);
        };
        if found == request {
            return Ok(Verified::Nothing);
        }
        let at = found.iter().zip(request).position(|(a, b)| a != b).unwrap_or(0);
        Err(format!(
            "byte {at} of the echo is {}, sent {}",
            found[at], request[at]
        ))
    }
}
