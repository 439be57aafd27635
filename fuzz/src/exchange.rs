//! A real transport on a Unix socket, and one connection an input: the bytes in, cut as the input says, the answers out.
//!
//! A piece is sent only when the server has read the one before, so the server sees the cuts. What must hold of every
//! connection: it ends, with whatever answers, within the memory that its limits allow. Its invariant: the client sends the
//! end of its stream and waits for the server's, so nothing of one input is left when the next one begins.

use crate::memory::within;
use crate::unread::unread;
use millpond_calls::{Call, MethodId, Reply, Service, Ticket};
use millpond_fronts_answer::Serving;
use millpond_fronts_http::{self as http, Hosts, HttpOptions};
use millpond_fronts_native::{self as native, Encryption, NativeOptions};
use millpond_fronts_websocket as websocket;
use millpond_net::{Fronts, Hints, Listener, Options, Timeouts, Transport};
use millpond_wire_frame::Limits;
use millpond_wire_payload::decode_map;
use millpond_wire_schema::Status;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Bytes of a frame or a body that the transport takes.
pub(crate) const FRAME_BYTES_MAX: usize = 4 << 10;
/// A connection that has not ended by then hangs; the machine may be busy with anything.
const HANG: Duration = Duration::from_secs(20);
/// Calls under way on one connection.
const IN_FLIGHT_MAX: usize = 4;

/// The transports that are running, one for each key, and one without.
static RUNNING: Mutex<Vec<(String, Running)>> = Mutex::new(Vec::new());

struct Running {
    transport: Transport,
    folder: TempDir,
    later: std::thread::JoinHandle<()>,
}

/// Closes every transport that the targets have started, which must still be possible after all that was sent to them.
///
/// # Panics
/// When a thread of theirs has.
pub fn close() {
    for (name, running) in std::mem::take(&mut *lock()) {
        running.transport.close(HANG);
        // It ends with the last service, and those end with the net threads.
        assert!(
            running.later.join().is_ok(),
            "the answering thread of {name:?} panicked"
        );
    }
}

fn lock() -> MutexGuard<'static, Vec<(String, Running)>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the pieces over a connection of its own, then the end, and returns all answers. `encryption` makes the key of the
/// transport, which is made once for each `name`.
///
/// # Panics
/// When the connection does not end, or its memory is more than its limits allow.
pub(crate) fn exchange(
    name: &str,
    encryption: impl FnOnce() -> Option<Encryption>,
    pieces: &[&[u8]],
) -> Vec<u8> {
    let mut running = lock();
    if !running.iter().any(|(known, _)| known == name) {
        running.push((name.to_owned(), Running::start(encryption())));
    }
    let Some((_, served)) = running.iter().find(|(known, _)| known == name) else {
        return Vec::new();
    };
    let path = served.folder.path().join("socket");
    let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
    // What one connection may hold: the thread's buffers, its input, the payload as a tree, the answers both sides have.
    within((4 << 20) + 512 * bytes, || {
        let stream = match UnixStream::connect(&path) {
            Ok(stream) => stream,
            Err(error) => panic!("the transport takes no connection: {error}"),
        };
        talk(stream, pieces).unwrap_or_else(|error| panic!("{error}"))
    })
}

fn talk(mut stream: UnixStream, pieces: &[&[u8]]) -> std::io::Result<Vec<u8>> {
    stream.set_nonblocking(true)?;
    let until = Instant::now() + HANG;
    let mut answers = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() || unread(&stream) > 0 {
            if !read(&mut stream, &mut answers)? {
                return Ok(answers);
            }
            match stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The server has closed; what it said before is still to be read.
                Err(_) => rest = &[],
            }
            assert!(
                Instant::now() < until,
                "the server reads no more and does not close"
            );
            std::thread::yield_now();
        }
    }
    // It may have closed by now.
    let _ = stream.shutdown(Shutdown::Write);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(HANG))?;
    let read = stream.read_to_end(&mut answers);
    match read {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            panic!("after the end of its input the server neither answers nor closes")
        }
        Err(error) if error.kind() != ErrorKind::ConnectionReset => Err(error),
        _ => Ok(answers),
    }
}

/// Takes the answers that are there; false when the server has closed.
fn read(stream: &mut UnixStream, answers: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(count) => answers.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

impl Running {
    fn start(encryption: Option<Encryption>) -> Running {
        match Running::try_start(encryption) {
            Ok(running) => running,
            Err(error) => panic!("no transport to send to: {error}"),
        }
    }

    fn try_start(encryption: Option<Encryption>) -> Result<Running, Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let listener = Listener::bind_unix(&folder.path().join("socket"), "fuzz")?;
        let (tickets, received) = sync_channel(IN_FLIGHT_MAX);
        let later = std::thread::Builder::new()
            .name("fuzz-later".into())
            .spawn(move || answer_later(&received))?;
        let limits = Limits {
            frame_bytes_max: FRAME_BYTES_MAX,
        };
        let options = Options {
            threads: 1,
            cpus: Vec::new(),
            connections_max: 64,
            idlest_gives_way: false,
            write_buffer_bytes_max: 1 << 20,
            write_buffers_total_bytes_max: 16 << 20,
            partial_bytes_max: 16 << 20,
            timeouts: Timeouts::default(),
            busy_poll: Duration::ZERO,
            hints: Hints::default(),
        };
        let native = Arc::new(NativeOptions {
            in_flight_max: IN_FLIGHT_MAX,
            pushes_max: 1024,
            limits,
            encryption: encryption.map(Arc::new),
            counters: Arc::default(),
        });
        let http = HttpOptions {
            limits,
            cors_origins: vec!["https://app.example"],
            hosts: Hosts::default(),
            counters: Arc::default(),
        };
        let fronts: Fronts<_> = Arc::new([
            http::front(http, websocket::upgrade(Arc::clone(&native))),
            native::front(native),
        ]);
        let serving = Serving::new(Echo { tickets });
        let mut transport = Transport::prepare(vec![listener], "fuzz", options, Arc::new([fronts]), serving)?;
        transport.accept()?;
        Ok(Running {
            transport,
            folder,
            later,
        })
    }
}

/// What [`Echo`] tells apart.
const NAMES: [&str; 2] = ["never", "later"];

/// Answers a call with its own payload, read and written; `later` from another thread, `never` not at all.
#[derive(Clone)]
struct Echo {
    tickets: SyncSender<Ticket>,
}

impl Service for Echo {
    fn find(&self, name: &str) -> Option<MethodId> {
        let place = NAMES.iter().position(|known| *known == name);
        Some(MethodId::new(place.unwrap_or(NAMES.len()) as u16, false))
    }

    fn call(&self, call: &Call<'_>, reply: Reply<'_>) {
        let place = call.method.map_or(NAMES.len(), MethodId::index);
        let name = NAMES.get(place).copied().unwrap_or_default();
        match (name, decode_map(call.encoding, call.payload)) {
            (_, Err(error)) => reply.error(&Status::from(error)),
            ("never", _) => {}
            // A ticket that finds no place is dropped, which answers an error.
            ("later", _) => drop(self.tickets.try_send(reply.later())),
            (_, Ok(map)) => reply.ok(|out| out.value(&millpond_wire_payload::Value::Map(map))),
        }
    }
}

fn answer_later(tickets: &Receiver<Ticket>) {
    for ticket in tickets {
        ticket.ok(|out| {
            out.map(|_| ());
        });
    }
}
