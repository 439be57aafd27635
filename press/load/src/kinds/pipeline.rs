//! Calls of a pipeline of values, in this process: what a program does that has opened it, as `millpond.Pipeline` does.
//!
//! No method is called, and nothing is encoded or decoded but to read requests before the run and to check answers after their time was
//! taken. Its invariant: a thread runs its call itself as far as it can, models and all where they are idle, and waits for the rest.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use millpond_catalog::{Handle, Pinned};
use millpond_methods::asked;
use millpond_pipelines::{
    Ask, Error, Output, Pipeline as Opened, Priority, Progress, RequestKind, Value, Values,
};
use millpond_wire_payload::{Encoding, Payload, PayloadError};
use millpond_wire_schema::{Field as _, run};

use super::configured;
use crate::TargetKind;
use crate::check::Answer;
use crate::kind::{Given, Takes};
use crate::local::{Local, Unread, in_process};
use crate::msgpack;

pub(super) const KIND: TargetKind = TargetKind {
    in_words: |_| "run".to_owned(),
    texts: |_, operation| Ok(vec![operation.body.clone().ok_or("body")?]),
    ..in_process::<Pipeline>(&["pipeline"])
};

struct Pipeline;

/// A call, read.
struct Command {
    pipeline: String,
    values: Values,
    /// How long the answer is worth something; for ever where the request does not say.
    deadline: Option<Duration>,
    priority: Priority,
}

/// What one thread calls with, and where answers come that it had to wait for.
struct State {
    /// The number that batchers know this thread by.
    source: u64,
    /// What the last call came to.
    values: Vec<(Arc<str>, Value)>,
    skipped: Vec<Arc<str>>,
    to: SyncSender<Result<Output, Error>>,
    outputs: Receiver<Result<Output, Error>>,
}

impl Default for State {
    fn default() -> State {
        static SOURCES: AtomicU64 = AtomicU64::new(1);
        let (to, outputs) = sync_channel(1);
        State {
            source: SOURCES.fetch_add(1, Relaxed),
            values: Vec::new(),
            skipped: Vec::new(),
            to,
            outputs,
        }
    }
}

impl Local for Pipeline {
    type Engine = Arc<Handle>;
    type State = State;
    type Command = Command;
    const HOW: &'static str = "the JSON that run takes: {\"pipeline\": \"name\", \"inputs\": {…}}";
    const TAKES: Takes = Takes {
        words: false,
        json: true,
        ..Takes::LOCAL
    };

    fn prepare(_: &Given<'_>) -> Result<Pipeline, String> {
        Ok(Pipeline)
    }

    fn command(request: &[u8]) -> Result<Command, Unread> {
        let payload = msgpack::from_json(request)?;
        let words = |error: PayloadError| Unread::Content(error.to_string());
        let payload = Payload::new(Encoding::Msgpack, &payload).map_err(words)?;
        let (call, reserved) = run::Call::decode(&payload).map_err(words)?;
        Ok(Command {
            pipeline: call.pipeline.into_owned(),
            values: asked(call.inputs, call.outputs),
            deadline: reserved.deadline_ms.map(Duration::from_millis),
            priority: reserved.priority.and_then(Priority::new).unwrap_or_default(),
        })
    }

    fn open(files: Option<&PathBuf>) -> Result<Arc<Handle>, String> {
        configured::open(files.ok_or("a target of protocol \"pipeline\" needs `files`")?)
    }

    fn check(handle: &Arc<Handle>, command: &Command) -> Result<(), String> {
        let pinned = handle.pin();
        let pipeline = find(&pinned, &command.pipeline)?;
        match pipeline.request() {
            RequestKind::Values => Ok(()),
            _ => Err(format!(
                "pipeline {:?} has another request than \"values\"; a target of protocol \"infer\" calls it by samples",
                command.pipeline
            )),
        }
    }

    fn call<'s>(handle: &Arc<Handle>, command: &Command, state: &'s mut State) -> Result<Answer<'s>, String> {
        let pinned = handle.pin();
        let pipeline = find(&pinned, &command.pipeline)?;
        let ask = Ask {
            source: state.source,
            priority: command.priority,
            deadline: command
                .deadline
                .and_then(|deadline| Instant::now().checked_add(deadline)),
            gone: Arc::default(),
            kept_bytes: 0,
        };
        let words = |error: Error| error.to_string();
        let output = match pipeline
            .run_values_here(command.values.clone(), &ask)
            .map_err(words)?
        {
            Progress::Done(output) => output,
            Progress::Waits(waiting) => {
                let to = state.to.clone();
                waiting.start_here(ask, move |output| drop(to.try_send(output)));
                let output = state.outputs.recv().map_err(|error| error.to_string())?;
                output.map_err(words)?
            }
        };
        (state.values, state.skipped) = (output.values, output.skipped);
        Ok(Answer::Values {
            values: &state.values,
            skipped: &state.skipped,
        })
    }
}

fn find<'p>(pinned: &'p Pinned, name: &str) -> Result<&'p Arc<Opened>, String> {
    pinned.pipelines.get(name).ok_or_else(|| {
        let there: Vec<&String> = pinned.pipelines.keys().collect();
        format!("there is no pipeline {name:?}; the file has {there:?}")
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::check::{Checker, Rules};
    use crate::local::InProcess;
    use millpond_engines_features::{Schema, write::Writer};
    use millpond_press_workload::RequestSet;
    use tempfile::TempDir;

    /// Texts as keys, which nothing waits for, and a model that gives the sum of each row.
    const TEXT: &str = r#"
        [models.slow]
        backend = "practice"
        behaviour = "wait"
        us = 1
        width = 2
        [pipelines.keys]
        request = "values"
        stages = [{ name = "keys", hash = { slot = "film", from = "inputs.names" } }]
        [pipelines.wait]
        request = "values"
        stages = [{ name = "y", model = { model = "slow", input = "inputs.x" } }]
    "#;

    fn opened(folder: &TempDir, text: &str) -> Arc<Handle> {
        let file = folder.path().join("millpond.toml");
        std::fs::write(&file, text).unwrap();
        Pipeline::open(Some(&file)).unwrap()
    }

    fn read(line: &str) -> Result<Command, String> {
        let set = RequestSet::from_bodies("t", [line]).unwrap();
        InProcess::<Pipeline>::new(&Given::of(&set, 0)).map(|mut read| read.commands.remove(0))
    }

    /// What a call is answered, held against the expected numbers of a field.
    fn answers(handle: &Arc<Handle>, line: &str, field: &str, expected: &str) -> Result<(), String> {
        let command = read(line)?;
        Pipeline::check(handle, &command)?;
        let expected = RequestSet::from_bodies("t", [expected]).unwrap();
        let rules = Rules {
            field: Some(field.to_owned()),
            min: f32::MIN,
            max: f32::MAX,
            ..Rules::default()
        };
        let checker = Checker::new(&rules, None, Some(&expected), 1).unwrap();
        let mut state = State::default();
        for _ in 0..3 {
            let answer = Pipeline::call(handle, &command, &mut state)?;
            let checked = checker.check(0, answer, &mut Vec::new());
            checked.map_err(|wrong| wrong.to_string())?;
        }
        Ok(())
    }

    #[test]
    fn requests_are_those_of_run_or_refused_with_their_form() {
        let command =
            read(r#"{"pipeline": "p", "inputs": {"x": {"$text": "ab"}}, "_deadline_ms": 5}"#).unwrap();
        assert_eq!(
            (command.pipeline.as_str(), command.deadline),
            ("p", Some(Duration::from_millis(5)))
        );
        assert_eq!(command.values.inputs.len(), 1);
        let check = |line: &str, expected: &str| {
            let refused = read(line).err().unwrap();
            assert!(
                refused.contains("request 1") && refused.contains(expected),
                "{refused}"
            );
        };
        check("run 15", "JSON object");
        check(r#"{"inputs": {}}"#, "\"pipeline\" is missing");
        check(
            r#"{"pipeline": "p", "inputs": {"x": {"$file": "no.jpg"}}}"#,
            "no.jpg",
        );
        check("", "the JSON that run takes");
    }

    #[test]
    fn what_cannot_be_called_is_refused_before_any_call() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer =
            Writer::create(&folder.path().join("table"), "table", 1, Schema::floats(2), 1).unwrap();
        writer.push(7, &[0.5; 2]).unwrap();
        writer.finish().unwrap();
        let samples = r#"
            [features.rows]
            path = "table"
            [pipelines.samples]
            request = "samples"
            stages = [
                { name = "key", hash = { slot = "0", from = "samples.0" } },
                { name = "x", lookup = { table = "rows", keys = "key" } },
                { name = "scores", model = { model = "slow", input = "x" } },
            ]"#;
        let handle = opened(&folder, &format!("{TEXT}{samples}"));
        let check = |name: &str, expected: &str| {
            let command = read(&format!(r#"{{"pipeline": "{name}", "inputs": {{}}}}"#)).unwrap();
            let refused = Pipeline::check(&handle, &command).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        };
        check("none", "the file has [\"keys\", \"samples\", \"wait\"]");
        check("samples", "another request than \"values\"");
        assert!(Pipeline::open(None).is_err_and(|error| error.contains("needs `files`")));
    }

    #[test]
    fn values_are_checked_as_the_answers_of_a_server() {
        let handle = opened(&tempfile::tempdir().unwrap(), TEXT);
        let tensor = r#"{"shape": [2, 2], "type": "f32", "data": [3, 4, 0.5, 1]}"#;
        let line = format!(r#"{{"pipeline": "wait", "inputs": {{"x": {tensor}}}}}"#);
        let check = |field: &str, expected: &str| {
            let expected = format!(r#"{{"outputs": {{"y": {expected}}}}}"#);
            answers(&handle, &line, field, &expected)
        };
        assert_eq!(check("outputs.y", "[7, 1.5]"), Ok(()));
        let wrong = check("outputs.y", "[7, 2.5]").unwrap_err();
        assert!(wrong.contains("number 1 is 1.5, expected 2.5"), "{wrong}");
        let names = r#"{"pipeline": "keys", "inputs": {"names": ["a", "b"]}}"#;
        let keys = r#"{"outputs": {"keys": [1, 2]}}"#;
        let wrong = answers(&handle, names, "outputs.keys", keys).unwrap_err();
        assert!(wrong.contains("number 0 is"), "{wrong}");
    }

    #[test]
    fn a_call_that_fails_says_why_and_the_next_is_answered() {
        let handle = opened(&tempfile::tempdir().unwrap(), TEXT);
        let mut state = State::default();
        let missing = read(r#"{"pipeline": "wait", "inputs": {}}"#).unwrap();
        let refused = Pipeline::call(&handle, &missing, &mut state).unwrap_err();
        assert!(refused.contains("inputs.x"), "{refused}");
        let late = r#"{"pipeline": "wait", "inputs": {"x": {"shape": [1, 2], "type": "f32", "data": [1, 2]}}, "_deadline_ms": 0}"#;
        let late = Pipeline::call(&handle, &read(late).unwrap(), &mut state).unwrap_err();
        assert!(late.contains("deadline"), "{late}");
        let right = read(r#"{"pipeline": "keys", "inputs": {"names": "a"}}"#).unwrap();
        Pipeline::call(&handle, &right, &mut state).unwrap();
        assert_eq!(state.values.len(), 1);
    }
}
