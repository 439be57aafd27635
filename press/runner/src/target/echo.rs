//! Raw TCP echo: what comes back must be what was sent, byte for byte.
//!
//! There is no framing: an answer is as long as its request. Its invariant: one byte that differs is a wrong answer, and the
//! connection goes on, because the lengths still hold.

use millpond_press_workload::RequestSet;

use super::{Answer, Found, Malformed, Prepared, Protocol, Read, Said};

/// The prepared requests.
pub(crate) struct Echo {
    requests: Prepared,
}

impl Echo {
    pub(crate) fn new(requests: &RequestSet) -> Echo {
        let mut prepared = Prepared::default();
        for body in requests.iter() {
            prepared.push(|out| out.extend_from_slice(body));
        }
        Echo { requests: prepared }
    }
}

impl Protocol for Echo {
    const NUMBERED: bool = false;

    fn requests(&self) -> &Prepared {
        &self.requests
    }

    #[inline]
    fn read<'b>(
        &self,
        index: usize,
        bytes: &'b [u8],
        _ended: bool,
        _scratch: &'b mut Vec<u8>,
    ) -> Result<Read<'b>, Malformed> {
        let used = self.requests.get(index).len();
        Ok(match bytes.get(..used) {
            Some(answer) => Read::Found(Found {
                used,
                serial: 0,
                said: Said::Answer(Answer::Bytes(answer)),
                closes: false,
            }),
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
