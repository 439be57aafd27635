//! Callers that mean no good, on sockets of their own: some ask and read nothing, others begin requests and never finish them.
//!
//! They send what fits and then nothing more. Its invariant: no write waits for the server, so that a crowd is there in bounded
//! time whatever the server does with it.

use anyhow::Context as _;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A method whose answer is many times its request.
pub(super) const BIG: &str = "big";
/// Bytes of its answer.
pub(super) const BIG_BYTES: usize = 32 << 10;
/// Requests that a caller sends which reads none of the answers: with 32 KiB each more than a socket and the server's bound take.
const ASKED: usize = 64;
/// Bytes of a request that is never finished, and those that its head promises.
const BEGUN_BYTES: usize = 128 << 10;
const PROMISED_BYTES: u32 = 4 << 20;
/// How often the crowd is gone through for what did not fit.
const ROUNDS: usize = 6;
const BETWEEN: Duration = Duration::from_millis(100);
/// How long a server may take no more of what it is sent.
const TAKEN_MAX: Duration = Duration::from_secs(5);
/// How long a flood goes on against a server that does not close it.
const FLOOD_MAX: Duration = Duration::from_secs(20);

/// What a connection of the crowd does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Habit {
    /// Asks for much and reads nothing.
    ReadsNothing,
    /// Begins a frame.
    BeginsFrame,
    /// Begins an HTTP body.
    BeginsBody,
    /// Begins an HTTP head.
    BeginsHead,
}

/// One after the other.
const HABITS: [Habit; 6] = [
    Habit::ReadsNothing,
    Habit::BeginsFrame,
    Habit::ReadsNothing,
    Habit::BeginsBody,
    Habit::ReadsNothing,
    Habit::BeginsHead,
];

/// A connection and what it has yet to send.
struct Caller {
    stream: TcpStream,
    habit: Habit,
    sent: usize,
}

/// Many of them; they are closed when it is dropped.
pub(super) struct Crowd {
    callers: Vec<Caller>,
    /// Connections that the server closed while they sent.
    pub(super) closed: usize,
    pub(super) sent_bytes: usize,
}

/// A frame of FPNN with a map in msgpack.
pub(super) fn frame(method: &str, payload: &[u8], payload_bytes: u32, seq: u32) -> Vec<u8> {
    let mut bytes = b"FPNN\x01\x80\x01".to_vec();
    bytes.push(method.len() as u8);
    bytes.extend(payload_bytes.to_le_bytes());
    bytes.extend(seq.to_le_bytes());
    bytes.extend(method.as_bytes());
    bytes.extend(payload);
    bytes
}

/// All that a caller of this habit would send.
fn script(habit: Habit) -> Vec<u8> {
    match habit {
        // 0x80 is the empty map.
        Habit::ReadsNothing => (1..=ASKED as u32)
            .flat_map(|seq| frame(BIG, &[0x80], 1, seq))
            .collect(),
        Habit::BeginsFrame => frame("echo", &vec![0xc0; BEGUN_BYTES], PROMISED_BYTES, 1),
        Habit::BeginsBody => {
            let head = format!(
                "POST /service/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {PROMISED_BYTES}\r\n\r\n"
            );
            [head.into_bytes(), vec![b' '; BEGUN_BYTES]].concat()
        }
        Habit::BeginsHead => {
            let head = "POST /service/echo HTTP/1.1\r\nHost: localhost\r\n".to_owned();
            (head + &"X-More: abcdefghijklmnopqrstuvwxyz\r\n".repeat(40)).into_bytes()
        }
    }
}

impl Crowd {
    /// Connects so many callers and lets them send what they have.
    pub(super) fn gather(address: &str, count: usize) -> anyhow::Result<Crowd> {
        let mut callers = Vec::with_capacity(count);
        for number in 0..count {
            let stream = TcpStream::connect(address)
                .with_context(|| format!("cannot open connection {number} of a crowd to {address}"))?;
            stream.set_nonblocking(true)?;
            callers.push(Caller {
                stream,
                habit: HABITS[number % HABITS.len()],
                sent: 0,
            });
        }
        let mut crowd = Crowd {
            callers,
            closed: 0,
            sent_bytes: 0,
        };
        let scripts = HABITS.map(|habit| (habit, script(habit)));
        for _ in 0..ROUNDS {
            crowd.send(&scripts);
            std::thread::sleep(BETWEEN);
        }
        Ok(crowd)
    }

    /// Writes what fits.
    fn send(&mut self, scripts: &[(Habit, Vec<u8>)]) {
        let (mut closed, mut sent) = (0, 0);
        self.callers.retain_mut(|caller| {
            let script = scripts.iter().find(|(habit, _)| *habit == caller.habit);
            let script = script.map_or(&[][..], |(_, bytes)| bytes);
            while caller.sent < script.len() {
                match caller.stream.write(&script[caller.sent..]) {
                    Ok(0) => break,
                    Ok(count) => {
                        caller.sent += count;
                        sent += count;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => {
                        closed += 1;
                        return false;
                    }
                }
            }
            true
        });
        self.closed += closed;
        self.sent_bytes += sent;
    }

    /// Those that the server did not close while they sent.
    pub(super) fn len(&self) -> usize {
        self.callers.len()
    }
}

/// Sends the same call many times over each of some connections, which then wait for answers that nobody reads.
///
/// # Errors
/// Where the server did not take all of it.
pub(super) fn calls(
    address: &str,
    connections: usize,
    each: u32,
    method: &str,
    payload: &[u8],
) -> anyhow::Result<Vec<TcpStream>> {
    let bytes: Vec<u8> = (1..=each)
        .flat_map(|seq| frame(method, payload, payload.len() as u32, seq))
        .collect();
    let call = |_| {
        let mut stream =
            TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        stream.set_write_timeout(Some(TAKEN_MAX))?;
        let sent = stream.write_all(&bytes);
        sent.with_context(|| format!("a server did not take {} bytes of calls", bytes.len()))?;
        Ok(stream)
    };
    (0..connections).map(call).collect()
}

/// Calls on some connections, several in flight on each, until the server closes all of them. `once` is a call whose answer is no
/// longer than itself.
pub(super) fn flood(address: &str, connections: usize, once: &[u8]) -> anyhow::Result<()> {
    const IN_FLIGHT: usize = 16;
    let mut callers = Vec::with_capacity(connections);
    for _ in 0..connections {
        let mut stream =
            TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        stream.write_all(&once.repeat(IN_FLIGHT))?;
        stream.set_nonblocking(true)?;
        callers.push(stream);
    }
    let until = Instant::now() + FLOOD_MAX;
    let mut answers = [0; 4096];
    while !callers.is_empty() && Instant::now() < until {
        callers.retain_mut(|stream| match stream.read(&mut answers) {
            Ok(0) => false,
            // As many again as were answered where an answer is as long as its request, and one at least.
            Ok(count) => stream.write_all(&once.repeat(count.div_ceil(once.len()))).is_ok(),
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_those_of_the_protocol() {
        let bytes = frame("big", &[0x80], 1, 7);
        assert_eq!(bytes, b"FPNN\x01\x80\x01\x03\x01\0\0\0\x07\0\0\0big\x80");
    }

    #[test]
    fn what_is_begun_is_not_finished() {
        for habit in [Habit::BeginsFrame, Habit::BeginsBody] {
            assert!(script(habit).len() < PROMISED_BYTES as usize);
        }
        assert!(!script(Habit::BeginsHead).ends_with(b"\r\n\r\n"));
    }
}
