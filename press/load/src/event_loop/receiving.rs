//! What a thread receives: bytes, whole answers, the ends of connections, and requests that got none in time.
//!
//! Its invariant: what a server sends ends in an answer that is counted once, or in the loss of its connection; none of it
//! stops the thread.

use millpond_press_recorder::ErrorKind;

use super::ClientThread;
use super::connection::Status;
use crate::check::Answer;
use crate::protocol::{Found, Input, OVERLOADED, OnWire, Protocol, Read, Said};

impl<P: Protocol> ClientThread<P> {
    /// Reads what has come and takes every whole answer in it.
    pub(super) fn on_readable(
        &mut self,
        number: usize,
        ended: bool,
        buffer: &mut [u8],
        scratch: &mut Vec<u8>,
    ) {
        if !matches!(self.connections[number].status, Status::Up | Status::Shaking(_)) {
            return;
        }
        // A socket is told of once, so it is read until it is empty.
        loop {
            let read = self.connections[number].read(buffer);
            let now = self.plan.clock.now();
            match read {
                Ok(None) => break,
                Ok(Some(count)) => {
                    if !self.take_read(number, &buffer[..count], now, scratch) {
                        return;
                    }
                    // A read that does not fill the buffer has emptied the socket, but for the end that was told with it.
                    if count < buffer.len() && !ended {
                        break;
                    }
                }
                Err(error) if matches!(self.connections[number].status, Status::Shaking(_)) => {
                    return self.not_shaken(number, &error.to_string());
                }
                Err(error) => return self.lose(number, ErrorKind::Reset, &error.to_string(), now),
            }
        }
        self.flush(number);
    }

    /// Takes whole answers out of the bytes; 0 bytes are the end. False when the connection has gone.
    pub(super) fn take_bytes(
        &mut self,
        number: usize,
        fresh: &[u8],
        now: u64,
        scratch: &mut Vec<u8>,
    ) -> bool {
        let ended = fresh.is_empty();
        let mut kept = std::mem::take(&mut self.connections[number].inbox);
        if !kept.is_empty() {
            kept.extend_from_slice(fresh);
        }
        let bytes: &[u8] = if kept.is_empty() { fresh } else { &kept };
        let mut used = 0;
        if bytes.len() >= self.connections[number].needs || ended {
            match self.take_answers(number, bytes, ended, now, scratch) {
                Some(count) => used = count,
                None => return false,
            }
        }
        if ended {
            let left = bytes.len() - used;
            let why = match (left, self.connections[number].outstanding) {
                (0, _) => "the server closed the connection".to_owned(),
                (left, _) => format!("the connection ended after {left} bytes of an answer"),
            };
            self.lose(number, ErrorKind::Closed, &why, now);
            return false;
        }
        let rest = bytes.len() - used;
        if rest
            > self
                .plan
                .answer_bytes_max
                .saturating_mul(2)
                .saturating_add(64 << 10)
        {
            self.lose(number, ErrorKind::TooLarge, "an answer grew without an end", now);
            return false;
        }
        if rest > 0 {
            let connection = &mut self.connections[number];
            if kept.is_empty() {
                kept.extend_from_slice(&fresh[used..]);
            } else {
                kept.drain(..used);
            }
            connection.inbox = kept;
        }
        true
    }

    /// The bytes that whole answers took; nothing when the connection has gone.
    fn take_answers(
        &mut self,
        number: usize,
        bytes: &[u8],
        ended: bool,
        now: u64,
        scratch: &mut Vec<u8>,
    ) -> Option<usize> {
        let mut used = 0;
        self.connections[number].needs = 0;
        let target = self.target.clone();
        while used < bytes.len() {
            // What has not been handed to the kernel cannot have an answer.
            let front = self.connections[number].sent.front().filter(|sent| sent.at != 0);
            let front = front.map(|sent| sent.index as usize);
            let request: Option<&[u8]> = match P::NUMBERED {
                true => Some(&[]),
                false => front.map(|index| target.requests.get(index)),
            };
            let Some(request) = request else {
                let why = "bytes came that nothing asked for";
                self.lose(number, ErrorKind::Unexpected, why, now);
                return None;
            };
            let state = &mut self.connections[number].state;
            let input = Input {
                bytes: &bytes[used..],
                ended,
                bytes_max: self.plan.answer_bytes_max,
                scratch,
            };
            match target.protocol.read(state, request, input) {
                Ok(Read::Found(found)) => {
                    used += found.used.max(1);
                    if !self.take_answer(number, &found, now) {
                        return None;
                    }
                }
                Ok(Read::Needs(needed)) => {
                    self.connections[number].needs = needed;
                    break;
                }
                Err(malformed) => {
                    self.lose(number, malformed.kind(), &malformed.to_string(), now);
                    return None;
                }
            }
        }
        Some(used)
    }

    /// Counts one answer and sends the next request; false when the connection has gone.
    fn take_answer(&mut self, number: usize, found: &Found<'_>, now: u64) -> bool {
        let connection = &mut self.connections[number];
        let sent = if P::NUMBERED {
            connection.answered_by_number(found.serial)
        } else {
            connection.answered_in_order()
        };
        let Some(sent) = sent else {
            return self.unexpected(number, found.serial, now);
        };
        self.outstanding -= 1;
        self.listening.answered(now, self.outstanding);
        let mut is_refused = false;
        match &found.said {
            Said::Answer(answer) => {
                self.connections[number].failures = 0;
                let OnWire { protocol, requests } = &*self.target;
                let verify = |index, answer: Answer<'_>| protocol.verify(index, requests.get(index), answer);
                self.counting.answered(&sent, *answer, now, verify);
            }
            Said::Refused {
                code,
                whole_connection,
            } => {
                is_refused = *whole_connection;
                self.counting.refused(&sent, *code, now);
            }
            Said::Failed { code, why } => {
                self.counting
                    .failed(&sent, ErrorKind::Status, Some(*code), why, now);
            }
        }
        if is_refused {
            self.connections[number].refused = true;
            self.connections[number].failures += 1;
            self.counting.tally.counters.connections_refused += 1;
        }
        if found.closes || is_refused {
            self.drop_connection(number, ErrorKind::Closed, "the server closed the connection", now);
            return false;
        }
        self.slot_is_free(number, now);
        true
    }

    /// An answer that no request waits for: a late one is counted, any other ends the connection.
    fn unexpected(&mut self, number: usize, serial: u32, now: u64) -> bool {
        let connection = &mut self.connections[number];
        if connection.given_up > 0 {
            connection.given_up -= 1;
            self.counting.tally.counters.late += 1;
            return true;
        }
        let why =
            format!("an answer to request number {serial} of the connection, which does not wait for one");
        self.lose(number, ErrorKind::Unexpected, &why, now);
        false
    }

    /// The connection broke.
    pub(super) fn lose(&mut self, number: usize, kind: ErrorKind, why: &str, now: u64) {
        self.connections[number].failures += 1;
        // Where no request was on its way to be counted, the breach of the protocol is.
        if kind == ErrorKind::Unexpected && self.connections[number].outstanding == 0 {
            self.counting.failed_unsent(kind, || why.to_owned());
        }
        self.drop_connection(number, kind, why, now);
    }

    fn drop_connection(&mut self, number: usize, kind: ErrorKind, why: &str, now: u64) {
        let was_refused = self.connections[number].refused;
        let lost = self.connections[number].close();
        self.outstanding -= lost.len() as u64;
        for sent in &lost {
            if was_refused {
                self.counting.refused(sent, OVERLOADED, now);
            } else {
                self.counting.failed(sent, kind, None, why, now);
            }
        }
        self.later(number);
    }

    /// Gives up requests that wait for too long, and connections that do not come up.
    pub(super) fn give_up(&mut self, now: u64, timeout: u64) {
        let before = now.saturating_sub(timeout);
        for number in 0..self.connections.len() {
            match self.connections[number].status {
                Status::Connecting(since) | Status::Shaking(since) if since < before => {
                    self.connecting -= 1;
                    let why = format!("no connection within {} ms", timeout / 1_000_000);
                    self.not_connected(number, &why);
                    self.connect_queued();
                }
                Status::Up if self.connections[number].outstanding > 0 => {
                    self.give_up_on(number, before, now, timeout);
                }
                _ => {}
            }
        }
        self.give_up_unsent(now, timeout);
    }

    fn give_up_on(&mut self, number: usize, before: u64, now: u64, timeout: u64) {
        let why = || format!("no answer within {} ms", timeout / 1_000_000);
        let mut any = false;
        while let Some(sent) = self.connections[number].give_up_before(before) {
            any = true;
            self.outstanding -= 1;
            self.counting.failed(&sent, ErrorKind::Timeout, None, &why(), now);
        }
        if !any {
            return;
        }
        if P::NUMBERED {
            self.slot_is_free(number, now);
            self.flush(number);
        } else {
            // The answers that come now could no longer be told apart.
            self.connections[number].failures += 1;
            self.drop_connection(number, ErrorKind::Closed, "given up after a time limit", now);
        }
    }
}
