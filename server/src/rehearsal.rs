//! Before it is ready, the server calls itself: every pipeline, table and store, in both protocols, on every net thread.
//!
//! A model that has run is not a server that has answered: the first request of a fresh process would still meet code and
//! memory that nothing has touched. Its invariant: it writes to no store, and its calls are counted and logged nowhere.

use millpond_catalog::Catalog;
use millpond_pipelines::{Pipeline, RequestKind};
use millpond_wire_frame::{Encoding, FrameKind, Limits, Parsed, parse_frame, write_frame};
use millpond_wire_payload::{Encoder, Map, Value};
use millpond_wire_schema::{Field as _, features_lookup, infer, ordered_get, rank};
use millpond_wire_transport::Transport;
use std::borrow::Cow;
use std::io::{Error, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Times each call is made on each net thread, in each protocol.
const ROUNDS: usize = 30;
/// What a call may cost on one net thread before it is made no more; one that is slower than this is made once.
const CALL_SPAN: Duration = Duration::from_millis(300);
/// What all calls together may cost; the rest is not made.
const SPAN_MAX: Duration = Duration::from_secs(3);
/// How long an answer may take before the rehearsal is given up.
const ANSWER_WAIT: Duration = Duration::from_secs(30);
/// Keys of a lookup.
const KEYS: u64 = 64;

/// Writes the payload of one round of a call.
type Payload<'e> = Box<dyn Fn(&mut Encoder<'_>, usize) + 'e>;

/// One call to be made.
struct Call<'e> {
    method: &'static str,
    payload: Payload<'e>,
}

/// Makes every call, and logs how many there were and how long they took. A rehearsal that cannot be held is a slower first
/// request, not a server that does not start: it is logged.
pub(crate) fn hold(engines: &Catalog, data: &Transport) {
    let started = Instant::now();
    let calls = calls(engines);
    // The first request decides a connection's protocol.
    let connections = || -> Result<_, Error> { Ok(data.rehearse()?.into_iter().zip(data.rehearse()?)) };
    let held = connections().and_then(|connections| {
        let mut made = 0;
        for (mut http, mut frames) in connections {
            http.set_read_timeout(Some(ANSWER_WAIT))?;
            frames.set_read_timeout(Some(ANSWER_WAIT))?;
            for call in &calls {
                if started.elapsed() > SPAN_MAX {
                    tracing::info!("rehearsal cut short: it has taken its time");
                    return Ok(made);
                }
                made += rehearse(&mut http, &mut frames, call)?;
            }
        }
        Ok(made)
    });
    let ms = started.elapsed().as_millis() as u64;
    match held {
        Ok(calls) => tracing::info!(calls, ms, "rehearsed"),
        Err(error) => {
            tracing::warn!(%error, ms, "not rehearsed to the end; the first requests will be slower")
        }
    }
}

/// Makes a call over and over; returns how often.
fn rehearse(by_http: &mut TcpStream, by_frame: &mut TcpStream, call: &Call<'_>) -> Result<usize, Error> {
    let started = Instant::now();
    for round in 0..ROUNDS {
        http(by_http, call, round)?;
        frame(by_frame, call, round)?;
        if started.elapsed() > CALL_SPAN {
            return Ok(2 * (round + 1));
        }
    }
    Ok(2 * ROUNDS)
}

fn calls(engines: &Catalog) -> Vec<Call<'_>> {
    let mut calls = Vec::new();
    for (name, pipeline) in &engines.pipelines {
        let rows = rows(pipeline);
        calls.push(match pipeline.request() {
            RequestKind::Samples => Call {
                method: "infer",
                payload: Box::new(move |out, round| {
                    infer::Samples::write(&samples(name, pipeline, rows, round), out)
                }),
            },
            RequestKind::Rank => Call {
                method: "rank",
                payload: Box::new(move |out, round| {
                    rank::Call::write(&candidates(name, pipeline, rows, round), out)
                }),
            },
        });
    }
    for name in engines.tables.keys() {
        calls.push(Call {
            method: "features.lookup",
            payload: Box::new(move |out, round| features_lookup::Lookup::write(&lookup(name, round), out)),
        });
    }
    for name in engines.stores.keys() {
        calls.push(Call {
            method: "ordered.get",
            payload: Box::new(move |out, round| {
                let key = format!("{round}").into_bytes();
                let call = ordered_get::Call {
                    table: Some(name.into()),
                    keys: vec![key.into()],
                };
                ordered_get::Call::write(&call, out);
            }),
        });
    }
    calls
}

/// The smallest size above one row that the model was warmed for: what its requests are expected to have.
fn rows(pipeline: &Pipeline) -> usize {
    let sizes = pipeline.batcher().options().warm_up_sizes();
    let most = rank::ITEMS_MAX.min(infer::SAMPLES_MAX);
    sizes
        .into_iter()
        .filter(|rows| *rows > 1)
        .min()
        .unwrap_or(1)
        .min(most)
}

fn samples<'n>(name: &'n str, pipeline: &Pipeline, rows: usize, round: usize) -> infer::Samples<'n> {
    let sample = |row| vec![Cow::Owned(format!("{round}-{row}")); pipeline.expected().sample_width];
    infer::Samples {
        model: Some(name.into()),
        samples: (0..rows).map(sample).collect(),
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

fn lookup(name: &str, round: usize) -> features_lookup::Lookup<'_> {
    let first = round as u64 * KEYS;
    features_lookup::Lookup {
        table: name.into(),
        keys: (first..first + KEYS).collect(),
        at_version: None,
        pool: features_lookup::Pool::None,
        offsets: Vec::new(),
    }
}

fn payload(call: &Call<'_>, encoding: Encoding, round: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    (call.payload)(&mut Encoder::new(&mut bytes, encoding, false), round);
    bytes
}

/// One call over HTTP; whatever the answer says, it was answered.
fn http(stream: &mut TcpStream, call: &Call<'_>, round: usize) -> Result<(), Error> {
    let body = payload(call, Encoding::Json, round);
    let mut request = format!(
        "POST /service/{} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        call.method,
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(&body);
    stream.write_all(&request)?;
    read_answer(stream, |answer| {
        let head = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
        let length = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        Some(head + length.unwrap_or(0))
    })
}

/// One call in a native frame.
fn frame(stream: &mut TcpStream, call: &Call<'_>, round: usize) -> Result<(), Error> {
    let kind = FrameKind::Twoway {
        method: call.method,
        seq: round as u32,
    };
    let mut request = Vec::new();
    let written = write_frame(
        &mut request,
        Encoding::Msgpack,
        kind,
        &payload(call, Encoding::Msgpack, round),
    );
    written.map_err(Error::other)?;
    stream.write_all(&request)?;
    let limits = Limits {
        frame_bytes_max: usize::MAX,
    };
    read_answer(stream, |answer| match parse_frame(answer, limits) {
        Ok(Parsed::Whole { len, .. }) => Some(len),
        _ => None,
    })
}

/// Reads until `whole` knows an answer's length and that many bytes have come.
fn read_answer(stream: &mut TcpStream, whole: impl Fn(&[u8]) -> Option<usize>) -> Result<(), Error> {
    let mut answer = Vec::new();
    let mut chunk = [0; 16 << 10];
    while whole(&answer).is_none_or(|len| answer.len() < len) {
        match stream.read(&mut chunk)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => answer.extend_from_slice(&chunk[..read]),
        }
    }
    Ok(())
}
