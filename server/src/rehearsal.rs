//! Before it is ready, the server calls itself in its own process: pipelines of items or samples, tables and stores, in both
//! encodings. It begins no further call after [`SPAN_MAX`], only logs a call that is not answered, and leaves out pipelines of
//! values, whose inputs only their callers know.
//!
//! A model that has run is not a server that has answered: the first request of a fresh process would still meet code and
//! memory that nothing has touched. Its invariant: it writes to no store, and its calls are counted and logged nowhere.

use crate::Shared;
use millpond_calls::{Answer, Call as Asked, Caller, Clock, Later, Meta, Peer, Reply, Service as _, Sink};
use millpond_catalog::Catalog;
use millpond_pipelines::{Pipeline, RequestKind};
use millpond_wire_payload::{Encoder, Encoding, Map, Value};
use millpond_wire_schema::{
    FeaturesLookup, Field as _, Infer, Method as _, OrderedGet, Rank, Status, features_lookup, infer,
    ordered_get, rank,
};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Times each call is made in each encoding.
const ROUNDS: usize = 30;
/// What a call may cost before it is made no more; one that is slower than this is made once.
const CALL_SPAN: Duration = Duration::from_millis(300);
/// What all calls together may cost; the rest is not made.
const SPAN_MAX: Duration = Duration::from_secs(3);
/// How long an answer may take before the rehearsal is given up.
const ANSWER_WAIT: Duration = Duration::from_secs(30);
/// Keys of a lookup.
const KEYS: u64 = 64;

/// A method, and what writes the payload of a round of its call.
type Call<'e> = (&'static str, Box<dyn Fn(&mut Encoder<'_>, usize) + 'e>);

/// Makes every call, and logs how many there were and how long they took. A rehearsal that cannot be held is a slower first
/// request, not a server that does not start: it is logged.
pub(crate) fn hold(shared: &Arc<Shared>, engines: &Catalog) {
    let (started, mut made) = (Instant::now(), 0);
    let ms = || started.elapsed().as_millis() as u64;
    for call in calls(engines) {
        if started.elapsed() > SPAN_MAX {
            tracing::info!("rehearsal cut short: it has taken its time");
            break;
        }
        match rehearse(shared, engines, &call) {
            Ok(calls) => made += calls,
            Err(error) => {
                let ms = ms();
                return tracing::warn!(%error, ms, "not rehearsed to the end; the first requests will be slower");
            }
        }
    }
    tracing::info!(calls = made, ms = ms(), "rehearsed");
}

/// Makes a call over and over, and waits for each answer; whatever that says, it was answered. Returns how often.
fn rehearse(
    shared: &Arc<Shared>,
    engines: &Catalog,
    (method, write): &Call<'_>,
) -> Result<usize, RecvTimeoutError> {
    let (started, service, mut made) = (Instant::now(), shared.service(), 0);
    for round in 0..ROUNDS {
        for encoding in [Encoding::Json, Encoding::Msgpack] {
            let (mut payload, clock) = (Vec::new(), Clock::start());
            write(&mut Encoder::new(&mut payload, encoding, false), round);
            let asked = Asked {
                method: service.find(method).ok_or(method),
                encoding,
                payload: &payload,
                meta: Meta::default(),
                caller: Caller {
                    peer: Peer::Unix,
                    connection: 0,
                    encrypted: true,
                },
                received: clock.began(),
                clock: &clock,
            };
            let (told, heard) = sync_channel(1);
            let bytes = Vec::new();
            let mut listener = Listener {
                encoding,
                bytes,
                told,
            };
            service.rehearse(engines, &asked, Reply::to(&mut listener));
            drop(listener);
            heard.recv_timeout(ANSWER_WAIT)?;
            made += 1;
        }
        if started.elapsed() > CALL_SPAN {
            break;
        }
    }
    Ok(made)
}

/// Takes one answer, and tells that it came.
struct Listener {
    encoding: Encoding,
    bytes: Vec<u8>,
    told: SyncSender<()>,
}

impl Answer for Listener {
    fn begin(&mut self) -> Option<(&mut Vec<u8>, Encoding)> {
        Some((&mut self.bytes, self.encoding))
    }

    fn finish(&mut self) {
        let _ = self.told.try_send(());
    }

    fn error(&mut self, _: &Status) {
        self.finish();
    }

    fn body(&mut self, _: u16, _: &str, _: &[u8]) {
        self.finish();
    }
}

impl Sink for Listener {
    fn later(&mut self) -> Box<dyn Later> {
        Box::new(Listener {
            encoding: self.encoding,
            bytes: Vec::new(),
            told: self.told.clone(),
        })
    }
}

impl Later for Listener {
    fn gone(&self) -> Arc<AtomicBool> {
        Arc::default()
    }
}

fn calls(engines: &Catalog) -> Vec<Call<'_>> {
    let mut calls: Vec<Call<'_>> = Vec::new();
    for (name, pipeline) in &engines.pipelines {
        let rows = rows(pipeline);
        calls.push(match pipeline.request() {
            // What its callers send is not known here.
            RequestKind::Values => continue,
            RequestKind::Samples => (
                Infer::NAME,
                Box::new(move |out, round| infer::Samples::write(&samples(name, pipeline, rows, round), out)),
            ),
            RequestKind::Rank => (
                Rank::NAME,
                Box::new(move |out, round| rank::Call::write(&candidates(name, pipeline, rows, round), out)),
            ),
        });
    }
    for (name, table) in &engines.tables {
        let row_type = match table.schema().bytes_column() {
            Some(_) => features_lookup::RowType::U8,
            None => features_lookup::RowType::F32,
        };
        let write = move |out: &mut Encoder<'_>, round| {
            features_lookup::Lookup::write(&lookup(name, row_type, round), out);
        };
        calls.push((FeaturesLookup::NAME, Box::new(write)));
    }
    for name in engines.stores.keys() {
        let write = move |out: &mut Encoder<'_>, round: usize| {
            let call = ordered_get::Call {
                table: Some(name.into()),
                keys: vec![round.to_string().into_bytes().into()],
            };
            ordered_get::Call::write(&call, out);
        };
        calls.push((OrderedGet::NAME, Box::new(write)));
    }
    calls
}

/// The smallest size above one row that the model was warmed for: what its requests are expected to have.
fn rows(pipeline: &Pipeline) -> usize {
    let sizes = pipeline
        .batcher()
        .map(|batcher| batcher.options().warm_up_sizes());
    let most = rank::ITEMS_MAX.min(infer::SAMPLES_MAX);
    sizes
        .into_iter()
        .flatten()
        .filter(|rows| *rows > 1)
        .min()
        .unwrap_or(1)
        .min(most)
}

fn samples<'n>(name: &'n str, pipeline: &Pipeline, rows: usize, round: usize) -> infer::Samples<'n> {
    let sample = |row| vec![Cow::Owned(format!("{round}-{row}")); pipeline.expected().sample_width];
    infer::Samples {
        model: Some(name.into()),
        samples: infer::TextRows::new((0..rows).map(sample).collect()),
    }
}

fn candidates<'n>(name: &'n str, pipeline: &'n Pipeline, rows: usize, round: usize) -> rank::Call<'n> {
    let fields = pipeline.user_fields();
    let text = || Value::Text(Cow::Owned(round.to_string()));
    rank::Call {
        pipeline: Some(name.into()),
        user: Map(fields
            .iter()
            .map(|field| (Cow::Borrowed(*field), text()))
            .collect()),
        items: (0..rows)
            .map(|row| Value::UInt((round * rows + row) as u64))
            .collect(),
        top: Some(rows),
    }
}

fn lookup(name: &str, row_type: features_lookup::RowType, round: usize) -> features_lookup::Lookup<'_> {
    let first = round as u64 * KEYS;
    features_lookup::Lookup {
        table: name.into(),
        keys: Some((first..first + KEYS).collect()),
        at_version: None,
        pool: features_lookup::Pool::None,
        columns: Vec::new(),
        texts: None,
        row_type,
        unique: false,
        offsets: Vec::new(),
        map: None,
    }
}
