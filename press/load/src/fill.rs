//! A store is filled over one blocking connection, before anything is measured.
//!
//! Its invariant: every request was answered, and with no error.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::kind::Given;
use crate::protocol::{Input, OnWire, Protocol, Read, Said};

/// How many requests are on their way at once.
const IN_FLIGHT: usize = 128;

/// Sends every request once, and wants an answer to each.
pub(crate) fn fill_over<P: Protocol>(
    given: &Given<'_>,
    address: SocketAddr,
    timeout: Duration,
) -> Result<(), String> {
    let OnWire { protocol, requests } = OnWire::<P>::new(given)?;
    let words = |error: io::Error| error.to_string();
    let mut stream = TcpStream::connect_timeout(&address, timeout).map_err(words)?;
    stream.set_read_timeout(Some(timeout)).map_err(words)?;
    stream.set_write_timeout(Some(timeout)).map_err(words)?;
    let in_flight = if P::TAKES.pipelined { IN_FLIGHT } else { 1 };
    let mut state = P::State::default();
    let (mut out, mut bytes, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
    let mut buffer = vec![0; 64 << 10];
    let (mut sent, mut answered) = (0, 0);
    let count = requests.len();
    while answered < count {
        out.clear();
        while sent < count && sent - answered < in_flight {
            protocol.write(&mut state, requests.get(sent), sent as u32 + 1, &mut out);
            sent += 1;
        }
        stream.write_all(&out).map_err(words)?;
        let read = stream.read(&mut buffer).map_err(words)?;
        if read == 0 {
            return Err(format!(
                "the server closed the connection after {answered} answers"
            ));
        }
        bytes.extend_from_slice(&buffer[..read]);
        let mut used = 0;
        while answered < sent {
            let input = Input {
                bytes: &bytes[used..],
                ended: false,
                bytes_max: given.target.answer_bytes_max,
                scratch: &mut scratch,
            };
            match protocol.read(&mut state, requests.get(answered), input) {
                Ok(Read::Needs(_)) => break,
                Ok(Read::Found(found)) => match found.said {
                    Said::Answer(_) => {
                        used += found.used;
                        answered += 1;
                    }
                    other => return Err(format!("request {}: {other:?}", answered + 1)),
                },
                Err(malformed) => return Err(malformed.to_string()),
            }
        }
        bytes.drain(..used);
    }
    Ok(())
}
