//! TLS 1.3 as a byte layer, of a connection that came or of one that this side opens.
//!
//! What was read is decrypted where it lies and joins the connection's input. Answers wait in `out` as they were written, and
//! are encrypted once a turn, so that those of a turn share records. It decides nothing but what TLS does. Its invariants:
//! the front of `out` is ciphertext in the order of its records, the rest is not encrypted yet; and between two turns
//! it keeps no byte but those of a record, or of a handshake message, that is not whole.

use crate::layer::{Layer, Opened};
use crate::net_thread::OUT_BYTES_KEPT;
use crate::quiet::{self, limited};
use crate::{Counters, RemoteAddr};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError, UnbufferedStatus,
    WriteTraffic,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes read in one turn: a whole record of the largest size. It bounds how many small ones a turn decrypts.
const READ_BYTES: usize = RECORD_BYTES_MAX + 5 + 256;
/// Content of one record at most. Source: RFC 8446, 5.1.
const RECORD_BYTES_MAX: usize = 16 << 10;
/// What a record has beside its content: header, type, tag.
const RECORD_OVERHEAD: usize = 5 + 1 + 16;
/// Partial records and handshake messages that are kept: the largest message rustls takes has 64 KiB.
const PENDING_BYTES_MAX: usize = 96 << 10;
/// Room for the alert that ends a connection.
const ALERT_BYTES: usize = 64;

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Nothing has come.
    New,
    /// Not all of the handshake has.
    Shaking,
    Open,
    /// The closing message is written, or an alert.
    Over,
}

/// One end of a connection.
pub(crate) trait Side {
    /// What rustls has of it.
    type Data;
    /// This side opened the connection. It speaks first, and calls may wait for its handshake.
    const OPENS: bool;

    /// See rustls.
    fn process<'c, 'i>(&'c mut self, bytes: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// Why it failed and what to do, for those who wait for it; without an error, the peer left before the handshake was done.
    fn explain(&self, _error: Option<&rustls::Error>) -> Option<String> {
        None
    }
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    const OPENS: bool = false;

    fn process<'c, 'i>(&'c mut self, bytes: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, ServerConnectionData> {
        self.process_tls_records(bytes)
    }
}

/// One connection's TLS.
pub(crate) struct TlsLayer<S> {
    tls: S,
    progress: Progress,
    /// Received, and not a whole record or handshake message.
    pending: Vec<u8>,
    /// How much of `out` is ciphertext.
    sealed: usize,
    peer: RemoteAddr,
    counters: Arc<Counters>,
    /// What ended it.
    failure: Option<rustls::Error>,
}

/// What came of bytes.
struct Taken {
    /// Bytes that are done with.
    used: usize,
    /// The peer said that it sends no more.
    ended: bool,
    error: Option<rustls::Error>,
}

impl<S: Side> TlsLayer<S> {
    pub(crate) fn new(tls: S, peer: RemoteAddr, counters: Arc<Counters>) -> TlsLayer<S> {
        TlsLayer {
            tls,
            progress: Progress::New,
            pending: Vec::new(),
            sealed: 0,
            peer,
            counters,
            failure: None,
        }
    }

    /// Decrypts to `plain`; what TLS itself answers goes to `out`.
    fn receive(&mut self, fresh: &mut [u8], plain: &mut Vec<u8>, out: &mut Vec<u8>) -> Taken {
        if self.progress == Progress::New {
            self.progress = Progress::Shaking;
        }
        let taken = if self.pending.is_empty() {
            let taken = self.process(fresh, plain, out);
            self.pending.extend_from_slice(&fresh[taken.used..]);
            taken
        } else {
            let mut pending = std::mem::take(&mut self.pending);
            pending.extend_from_slice(fresh);
            let taken = self.process(&mut pending, plain, out);
            pending.drain(..taken.used);
            if !pending.is_empty() {
                self.pending = pending;
            }
            taken
        };
        if self.pending.len() > PENDING_BYTES_MAX {
            let why = "a handshake message without an end";
            return Taken {
                error: Some(rustls::Error::General(why.into())),
                ..taken
            };
        }
        taken
    }

    fn process(&mut self, bytes: &mut [u8], plain: &mut Vec<u8>, out: &mut Vec<u8>) -> Taken {
        let mut taken = Taken {
            used: 0,
            ended: false,
            error: None,
        };
        loop {
            let rest = bytes.get_mut(taken.used..).unwrap_or_default();
            let UnbufferedStatus {
                mut discard, state, ..
            } = self.tls.process(rest);
            let goes_on = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        discard += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                    true
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    self.sealed = insert(&mut data, out, self.sealed);
                    true
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    true
                }
                Ok(ConnectionState::PeerClosed) => {
                    taken.ended = true;
                    true
                }
                Ok(ConnectionState::WriteTraffic(_)) => {
                    if self.progress == Progress::Shaking {
                        self.progress = Progress::Open;
                    }
                    false
                }
                Ok(ConnectionState::BlockedHandshake) => false,
                Ok(ConnectionState::Closed) => {
                    taken.ended = true;
                    false
                }
                // Early data was not offered, and rustls has no other state now.
                Ok(_) => {
                    taken.error = Some(rustls::Error::General("a state that is not known".into()));
                    false
                }
                Err(error) => {
                    taken.error = Some(error);
                    false
                }
            };
            taken.used = (taken.used + discard).min(bytes.len());
            if !goes_on {
                return taken;
            }
        }
    }

    /// Puts TLS's alert about an error into `out`.
    fn complain(&mut self, out: &mut Vec<u8>) {
        // What was not taken is shown again: TLS may still count on it.
        while let Ok(ConnectionState::EncodeTlsData(mut data)) = self.tls.process(&mut self.pending).state {
            self.sealed = insert(&mut data, out, self.sealed);
        }
        self.progress = Progress::Over;
    }

    /// Lets TLS write behind `out`, which is ciphertext all through, into `room` bytes, or as many as it asks for.
    fn write(
        &mut self,
        out: &mut Vec<u8>,
        mut room: usize,
        mut encrypt: impl FnMut(&mut WriteTraffic<'_, S::Data>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> bool {
        loop {
            match self.tls.process(&mut self.pending).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    out.resize(self.sealed + room, 0);
                    let written = encrypt(&mut traffic, &mut out[self.sealed..]);
                    out.truncate(self.sealed + *written.as_ref().unwrap_or(&0));
                    match written {
                        Ok(_) => {
                            self.sealed = out.len();
                            return true;
                        }
                        Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size }))
                            if required_size > room =>
                        {
                            room = required_size;
                        }
                        Err(_) => return false,
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    self.sealed = insert(&mut data, out, self.sealed);
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                _ => return false,
            }
        }
    }
}

/// Puts what TLS has encrypted by itself behind the ciphertext, before what is still to be encrypted: its number is lower.
/// Returns where the ciphertext ends.
fn insert<D>(data: &mut EncodeTlsData<'_, D>, out: &mut Vec<u8>, at: usize) -> usize {
    let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) = data.encode(&mut [])
    else {
        return at;
    };
    let mut record = vec![0; required_size];
    let len = data.encode(&mut record).unwrap_or(0);
    out.splice(at..at, record.into_iter().take(len));
    at + len
}

impl<S: Side> Layer for TlsLayer<S> {
    fn read_bytes_max(&self) -> usize {
        READ_BYTES
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if S::OPENS && self.progress == Progress::New {
            self.progress = Progress::Shaking;
            self.failure = self.process(&mut [], &mut Vec::new(), out).error;
        }
    }

    fn open(&mut self, received: &mut [u8], plain: &mut Vec<u8>, out: &mut Vec<u8>) -> Opened {
        let was_shaking = self.is_shaking();
        let Taken { ended, error, .. } = self.receive(received, plain, out);
        if let Some(error) = error {
            self.complain(out);
            if was_shaking {
                self.counters.handshakes_failed.fetch_add(1, Ordering::Relaxed);
            } else if !S::OPENS {
                self.counters.malformed.fetch_add(1, Ordering::Relaxed);
            }
            let what = if was_shaking { "the TLS handshake" } else { "TLS" };
            self.failure = Some(error.clone());
            limited!(info, self.counters.quiet, quiet::NOT_TLS, [peer = %self.peer, %error, was_shaking], "connection closed: {what} failed");
            return Opened::Failed;
        }
        if was_shaking && !self.is_shaking() {
            self.counters.handshakes.fetch_add(1, Ordering::Relaxed);
        }
        match ended {
            true => Opened::Ended,
            false => Opened::Open,
        }
    }

    fn seal(&mut self, out: &mut Vec<u8>, spare: &mut Vec<u8>) -> bool {
        if out.len() <= self.sealed {
            return true;
        }
        if self.progress != Progress::Open {
            // What waits for the handshake follows it.
            return S::OPENS && self.is_shaking();
        }
        spare.clear();
        spare.extend_from_slice(&out[self.sealed..]);
        out.truncate(self.sealed);
        let records = spare.len().div_ceil(RECORD_BYTES_MAX);
        // A change of keys may go before them.
        let room = spare.len() + (records + 2) * RECORD_OVERHEAD;
        let done = self.write(out, room, |traffic, room| traffic.encrypt(spare, room));
        if spare.capacity() > OUT_BYTES_KEPT {
            *spare = Vec::new();
        }
        done
    }

    fn sealed(&self, _: usize) -> usize {
        self.sealed
    }

    fn forget_sealed(&mut self, bytes: usize) {
        self.sealed = self.sealed.saturating_sub(bytes);
    }

    fn close(&mut self) -> Vec<u8> {
        let mut last = Vec::new();
        if self.progress == Progress::Open {
            self.progress = Progress::Over;
            self.write(&mut last, ALERT_BYTES, |traffic, room| {
                traffic.queue_close_notify(room)
            });
        }
        last
    }

    fn failure(&self) -> Option<String> {
        match &self.failure {
            None if !self.is_shaking() => None,
            error => self.tls.explain(error.as_ref()),
        }
    }

    fn is_shaking(&self) -> bool {
        matches!(self.progress, Progress::New | Progress::Shaking)
    }

    fn held_bytes(&self) -> usize {
        self.pending.capacity()
    }

    fn forget_held(&mut self) {
        self.pending = Vec::new();
    }
}

/// A handshake that begins and does not end is counted.
impl<S> Drop for TlsLayer<S> {
    fn drop(&mut self) {
        if self.progress == Progress::Shaking {
            self.counters.handshakes_failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}
