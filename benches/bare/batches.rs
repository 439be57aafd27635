//! Batches of an ordered store without a server around them: over the same frames by a bare epoll loop, and in one process.
//!
//! The loop reads a frame, makes its operations as one batch of a store in memory, and writes the answer: one thread, no log, no admission, no
//! statistics. Its invariant: operations, store and answer are those of `ordered.batch`.

use std::io::{self, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use millpond_engines_ordered::{Batch, Effect, Operation, Options, Store};
use millpond_press_workload::Random;
use millpond_wire_frame::{FrameKind, Limits, Parsed, begin_answer, finish_answer, parse_frame};
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Field as _, ordered_batch as schema};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// Of one read.
const READ_BYTES: usize = 64 << 10;
/// Of a frame.
const LIMITS: Limits = Limits {
    frame_bytes_max: 1 << 20,
};
/// Stands for the listener; connections are numbered from 0.
const LISTENER: u64 = u64::MAX;
/// Gets and puts of a request, in turn.
const OPERATIONS: usize = 256;
/// Bytes of each value.
const VALUE: [u8; 24] = *b"abcdefghijklmnopqrstuvwx";
/// Requests that are drawn before the clock runs, and sent round and round.
const REQUESTS: usize = 2000;
const SECONDS: Duration = Duration::from_secs(4);

/// Serves `ordered.batch` over the native protocol, one thread for all connections.
pub(crate) fn serve(address: &str) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let store = Store::in_memory(Options::default());
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut room = [MaybeUninit::uninit(); 64];
    loop {
        let (events, _) = epoll::wait(&epoll, room.as_mut_slice(), None)?;
        for event in events.iter() {
            let number = event.data.u64();
            if number == LISTENER {
                let (socket, _) = listener.accept()?;
                socket.set_nodelay(true)?;
                epoll::add(
                    &epoll,
                    &socket,
                    EventData::new_u64(connections.len() as u64),
                    EventFlags::IN,
                )?;
                connections.push(Some(Connection {
                    socket,
                    input: Vec::new(),
                    output: Vec::new(),
                }));
                continue;
            }
            let Some(found) = connections.get_mut(number as usize) else {
                continue;
            };
            if !found.as_mut().is_some_and(|connection| connection.turn(&store)) {
                *found = None;
            }
        }
    }
}

struct Connection {
    socket: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Connection {
    /// One read and the answers of the frames that it brought; whether the connection goes on.
    fn turn(&mut self, store: &Store) -> bool {
        let filled = self.input.len();
        self.input.resize(filled + READ_BYTES, 0);
        let room = self.input.get_mut(filled..).unwrap_or_default();
        let Ok(count @ 1..) = self.socket.read(room) else {
            return false;
        };
        self.input.truncate(filled + count);
        let mut used = 0;
        self.output.clear();
        loop {
            let rest = self.input.get(used..).unwrap_or_default();
            match parse_frame(rest, LIMITS) {
                Ok(Parsed::Whole { message, len }) => {
                    let FrameKind::Twoway { seq, .. } = message.kind else {
                        return false;
                    };
                    let start = begin_answer(&mut self.output, message.encoding, 0, seq);
                    let Ok(payload) = Payload::new(message.encoding, message.payload) else {
                        return false;
                    };
                    let mut out = Encoder::new(&mut self.output, message.encoding, false);
                    if answer(store, &payload, &mut out).is_err() {
                        return false;
                    }
                    finish_answer(&mut self.output, start);
                    used += len;
                }
                Ok(Parsed::Partial { .. }) => break,
                Err(_) => return false,
            }
        }
        self.input.drain(..used);
        self.socket.write_all(&self.output).is_ok()
    }
}

fn answer(store: &Store, payload: &Payload<'_>, out: &mut Encoder<'_>) -> anyhow::Result<()> {
    let (call, _) = schema::Call::decode(payload)?;
    let operations = call.operations.into_iter().map(operation);
    let effects = make(store, operations.collect::<anyhow::Result<_>>()?)?;
    let answer = schema::Answer {
        results: effects.into_iter().map(effect).collect::<anyhow::Result<_>>()?,
        durability: "memory".into(),
        ..schema::Answer::default()
    };
    schema::Answer::write(&answer, out);
    Ok(())
}

fn operation(operation: schema::Operation<'_>) -> anyhow::Result<Operation> {
    match operation {
        schema::Operation::Get(key) => Ok(get(key.into_owned())),
        schema::Operation::Put(key, value, _) => Ok(put(key.into_owned(), value.into_owned())),
        other => bail!("the bars send gets and puts, not {other:?}"),
    }
}

fn effect(effect: Effect) -> anyhow::Result<schema::Effect<'static>> {
    match effect {
        Effect::Found(found) => Ok(schema::Effect::Value(found.map(|found| found.value.into()))),
        Effect::Put(version) => Ok(schema::Effect::Number(version.cast_signed())),
        other => bail!("gets and puts have no such effect: {other:?}"),
    }
}

fn get(key: Vec<u8>) -> Operation {
    Operation::Get { key }
}

fn put(key: Vec<u8>, value: Vec<u8>) -> Operation {
    Operation::Put {
        key,
        value,
        if_version: None,
        if_absent: false,
        if_present: false,
        ttl_ms: None,
        keep_ttl: false,
    }
}

/// Makes a batch on this thread, as a store without a log does for whoever calls it.
fn make(store: &Store, operations: Vec<Operation>) -> anyhow::Result<Vec<Effect>> {
    let made = Arc::new(Mutex::new(None));
    let here = Arc::clone(&made);
    let done = Box::new(move |result| *here.lock().unwrap_or_else(PoisonError::into_inner) = Some(result));
    if let Err(busy) = store.write(Batch::of(operations), done) {
        bail!("a batch was refused: {}", busy.error);
    }
    let made = made.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(made
        .context("a batch of a few kilobytes is made at once")??
        .effects)
}

/// Makes batches as the bars send them on a store of so many keys, and prints how many a second.
pub(crate) fn in_process(keys: u64) -> anyhow::Result<()> {
    let store = Store::in_memory(Options::default());
    let text = |key: u64| format!("{key:022}").into_bytes();
    for first in (0..keys).step_by(OPERATIONS) {
        let some = first..keys.min(first + OPERATIONS as u64);
        make(&store, some.map(|key| put(text(key), VALUE.to_vec())).collect())?;
    }
    let mut random = Random::new(7);
    let mut draw = |at: usize| {
        let key = text(random.next_u64() % keys);
        if at.is_multiple_of(2) {
            get(key)
        } else {
            put(key, VALUE.to_vec())
        }
    };
    let requests: Vec<Vec<Operation>> = (0..REQUESTS)
        .map(|_| (0..OPERATIONS).map(&mut draw).collect())
        .collect();
    let (began, mut made) = (Instant::now(), 0_u64);
    while began.elapsed() < SECONDS {
        for request in &requests {
            let effects = make(&store, request.clone())?;
            let found = effects
                .iter()
                .all(|effect| !matches!(effect, Effect::Found(None)));
            ensure!(effects.len() == OPERATIONS && found, "a key was not found");
            made += 1;
        }
    }
    let rate = made as f64 / began.elapsed().as_secs_f64();
    Ok(writeln!(io::stdout(), "{rate:.1}")?)
}
