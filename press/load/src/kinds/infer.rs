//! Calls of `infer`, in this process: all that a server does for one, without its network.
//!
//! A thread is what a connection is in a server: it makes calls, takes their answers, and ends its turn after each. Its
//! invariant: decoding, admission, pipeline, batcher and the printing of answers are those of a server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use millpond_calls::{
    self as calls, Access, Admission, Call, Caller, Calls, Clock, Later, Meta, MethodService, NoHost, Peer,
    Reply, Service as _, Sink, access::Secret,
};
use millpond_catalog::{Catalog, Handle, LoadedModel};
use millpond_methods::Engines;
use millpond_tensor::Tensor;
use millpond_wire_payload::{Encoder, Encoding};
use millpond_wire_schema::{Code, Field as _, Method as _, Status, infer};

use super::configured;
use crate::TargetKind;
use crate::check::Answer;
use crate::kind::Given;
use crate::local::{Local, Unread, in_process, number};
use crate::msgpack;
use crate::protocol::words;

pub(super) const KIND: TargetKind = in_process::<Infer>(&["infer"]);

/// The most rows of a batch.
const ROWS_MAX: usize = 65_536;
/// Where a configuration says nothing, a server admits as many calls and answers as many bytes.
const IN_FLIGHT_MAX: usize = 8192;
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// As long as a scenario lets a request take: latencies say how late an answer is.
const DEADLINE: Duration = Duration::from_secs(60);

struct Infer;

/// A request, read.
#[derive(Debug, PartialEq)]
enum Command {
    /// So many rows of zeros for the default model.
    Zeros(usize),
    /// The payload of a call.
    Payload(Vec<u8>),
}

/// What answers calls.
struct Opened {
    catalog: Arc<Handle>,
    calls: Arc<Calls<Engines>>,
}

/// What one thread calls with, and where its answers come.
struct State {
    /// Made for the first call.
    service: Option<MethodService<Engines>>,
    clock: Clock,
    /// The payloads of zeros that were called with, by rows.
    zeros: BTreeMap<usize, Vec<u8>>,
    /// The last answer.
    bytes: Vec<u8>,
    to: SyncSender<Result<Vec<u8>, Status>>,
    answers: Receiver<Result<Vec<u8>, Status>>,
}

impl Default for State {
    fn default() -> State {
        let (to, answers) = sync_channel(1);
        State {
            service: None,
            clock: Clock::start(),
            zeros: BTreeMap::new(),
            bytes: Vec::new(),
            to,
            answers,
        }
    }
}

impl Local for Infer {
    type Engine = Opened;
    type State = State;
    type Command = Command;
    const HOW: &'static str = "\"run 15\" (15 rows of zeros), or as the JSON that infer takes";

    fn prepare(_: &Given<'_>) -> Result<Infer, String> {
        Ok(Infer)
    }

    fn command(request: &[u8]) -> Result<Command, Unread> {
        if request.starts_with(b"{") {
            return Ok(Command::Payload(msgpack::from_json(request)?));
        }
        let rows = match words(request).collect::<Vec<_>>().as_slice() {
            [b"run", rows] => number(rows).and_then(|rows| usize::try_from(rows).ok()),
            _ => None,
        };
        let rows = rows.filter(|rows| (1..=ROWS_MAX).contains(rows));
        rows.map(Command::Zeros).ok_or(Unread::Form)
    }

    fn open(files: Option<&PathBuf>) -> Result<Opened, String> {
        let file = files.ok_or("a target of protocol \"infer\" needs `files`")?;
        let catalog = configured::open(file)?;
        let methods = millpond_methods::table(&BTreeMap::new());
        let access = Access::new(&Default::default(), Secret::default(), &methods);
        let admission = Admission::new(IN_FLIGHT_MAX, usize::MAX, DEADLINE);
        let calls = Arc::new(Calls::new(access, admission, methods, 0, ANSWER_BYTES_MAX));
        calls.open(catalog.current());
        Ok(Opened { catalog, calls })
    }

    fn check(opened: &Opened, command: &Command) -> Result<(), String> {
        match command {
            Command::Zeros(rows) => model(&opened.catalog.pin(), *rows).map(drop),
            Command::Payload(_) => Ok(()),
        }
    }

    fn call<'s>(opened: &Opened, command: &Command, state: &'s mut State) -> Result<Answer<'s>, String> {
        let payload = match command {
            Command::Payload(payload) => payload,
            Command::Zeros(rows) => {
                if !state.zeros.contains_key(rows) {
                    state.zeros.insert(*rows, zeros(&opened.catalog.pin(), *rows)?);
                }
                &state.zeros[rows]
            }
        };
        let service = state
            .service
            .get_or_insert_with(|| MethodService::new(Arc::clone(&opened.calls), Arc::new(NoHost)));
        let began = state.clock.begin();
        let call = Call {
            method: service.find(millpond_wire_schema::Infer::NAME).ok_or("infer"),
            encoding: Encoding::Msgpack,
            payload,
            meta: Meta::default(),
            caller: Caller {
                peer: Peer::Unix,
                connection: 0,
                encrypted: true,
            },
            received: began,
            clock: &state.clock,
        };
        let mut caller = Waiting {
            bytes: std::mem::take(&mut state.bytes),
            to: state.to.clone(),
        };
        service.call(&call, Reply::to(&mut caller));
        if service.has_batch() {
            service.serve_batch(began);
        }
        service.turned(began, std::iter::empty());
        let answer = state.answers.recv().map_err(|error| error.to_string())?;
        state.bytes = answer.map_err(|status| status.to_string())?;
        Ok(Answer::Msgpack(&state.bytes))
    }
}

/// The default model, which must take so many rows.
fn model(catalog: &Catalog, rows: usize) -> Result<&LoadedModel, String> {
    let model = catalog
        .sections()
        .model_default()
        .and_then(|name| catalog.models.get(name));
    let model = model.ok_or("\"run\" needs default_model, or one model alone")?;
    let signature = model.batcher.model().signature();
    if !signature.batched && rows != 1 {
        return Err(format!(
            "the model takes no batch; write \"run 1\", not \"run {rows}\""
        ));
    }
    Ok(model)
}

/// The payload of a call of the default model with so many rows of zeros.
fn zeros(catalog: &Catalog, rows: usize) -> Result<Vec<u8>, String> {
    let signature = model(catalog, rows)?.batcher.model().signature();
    let mut inputs = Vec::new();
    for port in &signature.inputs {
        // Sizes that are free besides the batch are 1.
        let mut shape: Vec<usize> = port.shape.iter().map(|dim| dim.unwrap_or(1)).collect();
        if let Some(first) = shape.first_mut().filter(|_| signature.batched) {
            *first = rows;
        }
        let zeros = Tensor::zeros(port.element_type, shape).map_err(|error| error.to_string())?;
        inputs.push((port.name.as_str().into(), zeros));
    }
    let call = infer::Tensors {
        model: None,
        version: None,
        inputs,
        outputs: Vec::new(),
    };
    let mut payload = Vec::new();
    infer::Tensors::write(&call, &mut Encoder::new(&mut payload, Encoding::Msgpack, false));
    Ok(payload)
}

/// Where a call is answered: on the spot, at the end of its turn, or by a thread of the model's.
struct Waiting {
    bytes: Vec<u8>,
    to: SyncSender<Result<Vec<u8>, Status>>,
}

impl calls::Answer for Waiting {
    fn begin(&mut self) -> Option<(&mut Vec<u8>, Encoding)> {
        self.bytes.clear();
        Some((&mut self.bytes, Encoding::Msgpack))
    }

    fn finish(&mut self) {
        let _ = self.to.try_send(Ok(std::mem::take(&mut self.bytes)));
    }

    fn error(&mut self, status: &Status) {
        let _ = self.to.try_send(Err(status.clone()));
    }

    fn body(&mut self, _: u16, _: &str, _: &[u8]) {
        self.error(&Status::new(Code::Internal, "a page is no answer of infer"));
    }
}

impl Sink for Waiting {
    fn later(&mut self) -> Box<dyn Later> {
        Box::new(Waiting {
            bytes: std::mem::take(&mut self.bytes),
            to: self.to.clone(),
        })
    }
}

impl Later for Waiting {
    fn gone(&self) -> Arc<AtomicBool> {
        Arc::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::kinds::configured::tests::{MODEL, choose_library};
    use crate::local::InProcess;
    use millpond_engines_features::{Schema, write::Writer};
    use millpond_press_workload::RequestSet;
    use millpond_wire_payload::Payload;
    use std::path::Path;
    use std::time::Instant;

    fn read(line: &str) -> Result<Command, String> {
        let set = RequestSet::from_bodies("t", [line]).unwrap();
        InProcess::<Infer>::new(&Given::of(&set, 0)).map(|mut read| read.commands.remove(0))
    }

    /// What a request is answered.
    fn answer(opened: &Opened, state: &mut State, line: &str) -> infer::Answer<'static> {
        let command = read(line).unwrap();
        let Answer::Msgpack(bytes) = Infer::call(opened, &command, state).unwrap() else {
            unreachable!("answers are msgpack")
        };
        let payload = Payload::new(Encoding::Msgpack, bytes).unwrap();
        infer::Answer::own(infer::Answer::decode(&payload).unwrap().0)
    }

    #[test]
    fn commands_are_read_or_refused_with_their_form() {
        assert_eq!(read("run 15").unwrap(), Command::Zeros(15));
        assert_eq!(read(" {}").unwrap(), Command::Payload(vec![0x80]));
        assert!(read("run 0").unwrap_err().contains("request 1"));
        assert!(read("{\"samples\"").unwrap_err().contains("request 1"));
    }

    #[test]
    fn a_model_alone_is_called_with_zeros() {
        choose_library();
        let opened = Infer::open(Some(&MODEL.into())).unwrap();
        let mut state = State::default();
        for rows in [15, 1, 15] {
            let answer = answer(&opened, &mut state, &format!("run {rows}"));
            let infer::Answer::Outputs(outputs) = answer else {
                unreachable!("tensors are answered tensors")
            };
            assert_eq!(outputs.outputs[0].1.rows(), rows);
        }
        let samples = Command::Payload(msgpack::from_json(br#"{"samples": [["a"]]}"#).unwrap());
        let refused = Infer::call(&opened, &samples, &mut state).unwrap_err();
        assert!(refused.contains("pipeline"), "{refused}");
        // The model's thread gives a permit back once the answer is on its way.
        let began = Instant::now();
        while opened.calls.admission.unfinished() > 0 {
            assert!(began.elapsed() < DEADLINE, "a permit is kept");
            std::thread::yield_now();
        }
        let infer = opened.calls.methods.named("infer").unwrap();
        let totals = opened.calls.statistics.totals(infer);
        assert_eq!((totals.answered, totals.failed()), (3, 1));
    }

    #[test]
    fn rows_that_the_model_cannot_take_are_refused_before_any_call() {
        let fixed = Path::new(MODEL).with_file_name("fixed.onnx");
        let opened = Infer::open(Some(&fixed)).unwrap();
        assert_eq!(Infer::check(&opened, &Command::Zeros(1)), Ok(()));
        let refused = Infer::check(&opened, &Command::Zeros(15)).unwrap_err();
        assert!(refused.contains("write \"run 1\", not \"run 15\""), "{refused}");
    }

    #[test]
    fn a_configuration_is_called_as_its_server_is() {
        choose_library();
        let folder = tempfile::tempdir().unwrap();
        let mut writer =
            Writer::create(&folder.path().join("table"), "table", 1, Schema::floats(16), 1).unwrap();
        writer.push(7, &[0.5; 16]).unwrap();
        writer.finish().unwrap();
        let text = format!(
            r#"
            [server]
            threads = 2
            [features.rows]
            path = "table"
            [models.mlp]
            path = {MODEL:?}
            [pipelines.r1]
            request = "samples"
            stages = [
                {{ name = "key", hash = {{ slot = "0", from = "samples.0" }} }},
                {{ name = "x", lookup = {{ table = "rows", keys = "key" }} }},
                {{ name = "scores", model = {{ model = "mlp", input = "x" }} }},
            ]
            "#
        );
        let file = folder.path().join("millpond.toml");
        std::fs::write(&file, text).unwrap();
        let opened = Infer::open(Some(&file)).unwrap();
        let mut state = State::default();
        let samples = |line| match answer(&opened, &mut state, line) {
            infer::Answer::Scores(scores) => scores.scores,
            other => unreachable!("samples are answered scores: {other:?}"),
        };
        let [first, second] = [r#"{"samples": [["v1"], ["v  2"]]}"#; 2].map(samples);
        assert_eq!((first.len(), &first), (2, &second));
    }
}
