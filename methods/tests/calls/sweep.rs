//! Calls to a model at the end of their turn answer what they do by way of an instance, through the same table.

use crate::answers::Taker;
use millpond_calls::access::{Access, Secret};
use millpond_calls::{
    Admission, Call, Caller, Callers, Calls, Clock, Cost, Meta, MethodService, MethodSpec, Methods, NoHost,
    Peer, Reply, Serve, Service as _,
};
use millpond_catalog::{Catalog, Handle, Resources, Sections};
use millpond_engines_batcher::Stats;
use millpond_methods::{Engines, table};
use millpond_wire_payload::Encoding;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// So long that no run of these tests takes it.
const LONG_US: u64 = 600_000_000;

/// A net thread's view of a server with one model, and the answers of its calls.
struct Thread {
    catalog: Handle,
    service: MethodService<Engines>,
    clock: Clock,
    to: SyncSender<String>,
    answers: Receiver<String>,
}

impl Thread {
    fn start(inline_us_max: u64) -> Thread {
        Thread::start_with(&format!("us = 1\ninline_us_max = {inline_us_max}"))
    }

    fn start_with(keys: &str) -> Thread {
        Thread::start_of(keys, table(&BTreeMap::new()))
    }

    fn start_of(keys: &str, methods: Methods<Engines>) -> Thread {
        let model = format!("backend = \"practice\"\nbehaviour = \"wait\"\nwidth = 2\n{keys}");
        let sections = Sections {
            models: BTreeMap::from([("sum".to_owned(), toml::from_str(&model).unwrap())]),
            ..Sections::default()
        };
        let catalog = Handle::open(sections, Resources::default()).unwrap();
        let access = Access::new(&Default::default(), Secret::default(), &methods);
        let admission = Admission::new(3, 0, Duration::from_secs(60));
        let calls = Calls::new(access, admission, methods, 0, 1 << 20);
        calls.open(catalog.current());
        let (to, answers) = sync_channel(64);
        Thread {
            catalog,
            service: MethodService::new(Arc::new(calls), Arc::new(NoHost)),
            clock: Clock::start(),
            to,
            answers,
        }
    }

    fn call(&self, payload: &str) {
        let call = Call {
            method: self.service.find("infer").ok_or("infer"),
            encoding: Encoding::Json,
            payload: payload.as_bytes(),
            meta: Meta::default(),
            caller: Caller {
                peer: Peer::Unix,
                connection: 1,
                encrypted: true,
            },
            received: self.clock.began(),
            clock: &self.clock,
        };
        self.service
            .call(&call, Reply::to(&mut Taker::to(self.to.clone())));
    }

    fn stats(&self) -> Stats {
        let catalog: &Catalog = &self.catalog.pin();
        catalog.models["sum"].batcher.stats()
    }

    /// What these calls of one turn are answered, in their order.
    fn turn(&self, payloads: &[&str]) -> Vec<String> {
        self.clock.begin();
        payloads.iter().for_each(|payload| self.call(payload));
        let mut answers = Vec::new();
        if self.service.has_batch() {
            answers.extend(self.answers.try_iter());
            assert!(!answers.iter().any(|answer: &String| answer.contains("outputs")));
            self.service.serve_batch(self.clock.began());
            answers.extend(self.answers.try_iter());
            assert_eq!(answers.len(), payloads.len());
        }
        answers.extend((answers.len()..payloads.len()).map(|_| self.answers.recv().unwrap()));
        self.service.turned(self.clock.began(), std::iter::empty());
        while self.service.calls.admission.unfinished() > 0 {
            std::thread::yield_now();
        }
        answers
    }

    /// Has an instance run once, and come back.
    fn measure(&self) {
        self.turn(&[ONE]);
        while self.stats().busy > 0 {
            std::thread::yield_now();
        }
    }
}

const ONE: &str = r#"{"inputs": {"x": {"shape": [1, 2], "type": "f32", "data": [1, 2]}}}"#;
const TWO: &str = r#"{"inputs": {"x": {"shape": [2, 2], "type": "f32", "data": [3, 4, 5, 6.5]}}}"#;
const LATE: &str =
    r#"{"inputs": {"x": {"shape": [1, 2], "type": "f32", "data": [1, 2]}}, "_deadline_ms": 0}"#;

#[test]
fn a_small_model_answers_in_the_turn_what_an_instance_answers() {
    let (inline, instance) = (Thread::start(LONG_US), Thread::start(0));
    inline.measure();
    instance.measure();
    let before = (inline.stats(), instance.stats());
    for payloads in [&[ONE, TWO, ONE][..], &[TWO], &[LATE, ONE]] {
        let mut by_instance = Vec::new();
        for payload in payloads {
            by_instance.extend(instance.turn(&[payload]));
        }
        let mut by_turn = inline.turn(payloads);
        // A refusal needs no run.
        by_turn.sort();
        by_instance.sort();
        assert_eq!(by_turn, by_instance);
    }
    let after = (inline.stats(), instance.stats());
    assert_eq!(after.0.wakes, before.0.wakes, "no instance was called");
    assert_eq!(
        (after.0.batches, after.0.answered),
        (before.0.batches + 3, before.0.answered + 5)
    );
    assert_eq!(after.1.batches, before.1.batches + 5);
    let infer = inline.service.find("infer").unwrap();
    let totals = inline.service.calls.statistics.totals(infer);
    assert_eq!(
        (totals.answered, totals.times.count(), totals.failed()),
        (6, 6, 1)
    );
}

#[test]
fn calls_that_wait_for_the_end_of_a_turn_are_in_flight() {
    let thread = Thread::start(LONG_US);
    thread.measure();
    let answers = thread.turn(&[ONE, ONE, ONE, ONE]);
    let refused = |answer: &&String| answer.contains("3 calls are in flight already");
    assert_eq!(answers.iter().filter(refused).count(), 1, "{answers:?}");
}

#[test]
fn a_call_that_waits_for_no_instance_is_not_refused_for_the_queue() {
    // No call waits for the busy instance, and none is behind it.
    let thread = Thread::start_with("us = 1\nus_per_row = 100_000\nqueue_max = 0\ninline_us_max = 150_000");
    thread.measure();
    let rows = ["[1, 2]"; 10].join(",").replace(['[', ']'], "");
    let ten = TWO.replace("[2, 2]", "[10, 2]").replace("3, 4, 5, 6.5", &rows);
    thread.call(&ten);
    while thread.stats().busy == 0 {
        std::thread::yield_now();
    }
    let soon = ONE.replace("}}}", "}}, \"_deadline_ms\": 500}");
    let before = thread.stats();
    thread.call(&soon);
    assert_eq!(thread.stats().refused, before.refused);
    assert!(thread.service.has_batch());
    thread.service.serve_batch(thread.clock.began());
    let answer = thread.answers.recv().unwrap();
    assert!(answer.contains("outputs"), "{answer}");
    assert_eq!(thread.stats().busy, 1, "it was before the instance came back");
    assert!(thread.answers.recv().unwrap().contains("outputs"));
}

#[test]
fn a_call_that_is_lost_is_answered_an_error_and_counted_as_failed_once() {
    let lost = MethodSpec {
        name: "infer".into(),
        changes: false,
        callers: Callers::Any,
        cost: Cost::Detached,
        ahead: None,
        serve: Serve::Always(|call, _| {
            let is_ready = call.asked.payload.len() > 2;
            let mut detached = call.detach(None, None)?;
            if is_ready {
                detached.ready(millpond_calls::Spent::default());
            }
            Ok(())
        }),
    };
    let thread = Thread::start_of("us = 1", Methods::new(vec![lost]));
    let answers = thread.turn(&["{}"]);
    assert!(answers[0].contains("returned no answer"), "{answers:?}");
    let totals = || {
        let method = thread.service.find("infer").unwrap();
        let totals = thread.service.calls.statistics.totals(method);
        (totals.answered, totals.failed())
    };
    assert_eq!(totals(), (0, 1));
    thread.turn(&[ONE]);
    assert_eq!(totals(), (1, 1), "its result was ready, which is counted already");
}
