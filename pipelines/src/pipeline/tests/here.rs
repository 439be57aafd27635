//! Requests that their caller runs itself: on which thread, when not, and what that counts as.

use super::*;
use crate::Output;
use std::sync::Mutex;
use std::thread::{self, ThreadId};

fn ask() -> Ask {
    Ask {
        source: 1,
        priority: Default::default(),
        deadline: None,
        gone: Arc::default(),
        kept_bytes: 0,
    }
}

fn image(pixels: &[u8]) -> Values {
    let image = Tensor::new(vec![1, pixels.len()], pixels.to_vec()).unwrap();
    let value = Value::row(Items::Tensors(vec![image]));
    Values {
        inputs: vec![("images".to_owned(), value)],
        outputs: Vec::new(),
    }
}

#[test]
fn a_caller_runs_all_models_of_its_request_where_they_are_idle() {
    let batcher = batcher();
    let model = || Act::Model(Arc::clone(&batcher));
    let pipeline = pipeline(
        &batcher,
        vec![
            (Act::Give(1.0), &[]),
            (model(), &[0]),
            (Act::Less, &[1]),
            (model(), &[2]),
        ],
    );
    let Ok(Progress::Waits(waiting)) = pipeline.run(&request(&samples(2))) else {
        panic!("it waits")
    };
    let (send, done) = mpsc::sync_channel::<(ThreadId, Result<Output, Error>)>(1);
    waiting.start_here(ask(), move |output| {
        send.send((thread::current().id(), output)).unwrap();
    });
    let (ran_on, output) = done.try_recv().expect("it is done when the call returns");
    assert_eq!(ran_on, thread::current().id());
    assert_eq!(output.unwrap().scores(), Some(&[2.0, 2.0][..]));
    let stats = batcher.stats();
    assert_eq!(
        (stats.accepted, stats.answered, stats.batches, stats.wakes),
        (2, 2, 2, 0)
    );
}

#[test]
fn of_models_that_can_run_at_a_time_each_answers_once() {
    let batcher = batcher();
    let model = || Act::Model(Arc::clone(&batcher));
    let pipeline = pipeline(
        &batcher,
        vec![
            (Act::Give(1.0), &[]),
            (model(), &[0]),
            (model(), &[0]),
            (Act::Less, &[1, 2]),
        ],
    );
    let Ok(Progress::Waits(waiting)) = pipeline.run(&request(&samples(2))) else {
        panic!("it waits")
    };
    let (send, done) = mpsc::sync_channel(2);
    waiting.start_here(ask(), move |output| send.send(output).unwrap());
    assert_eq!(done.recv().unwrap().unwrap().scores(), Some(&[3.0, 3.0][..]));
    assert!(done.recv().is_err(), "one result");
    assert_eq!(batcher.stats().answered, 2);
}

#[test]
fn a_stage_with_threads_runs_on_its_caller_and_counts_the_same() {
    let pipeline = on_threads_of(Sum { here: true });
    let threads = |pipeline: &Pipeline| match &pipeline.stages[0].work {
        Work::Threads(threads) => threads.batcher.stats(),
        Work::Here(_) => panic!("it has threads"),
    };
    let run = |pixels: &[u8]| match pipeline.run_values_here(image(pixels), &ask()) {
        Ok(Progress::Done(output)) => Ok(output),
        Ok(Progress::Waits(_)) => panic!("its thread is idle"),
        Err(error) => Err(error.to_string()),
    };
    let output = run(&[3, 4]).unwrap();
    assert_eq!(output.values[0].1.tensor().unwrap().f32(), Some(&[7.0][..]));
    assert_eq!(output.timing.unwrap().batch_requests, 1);
    assert_eq!(run(&[]).unwrap_err(), "an image is empty");
    let broken = run(&[1]).unwrap_err();
    assert!(
        broken.starts_with("model `p/sum` failed: a stage does not get an image"),
        "{broken}"
    );
    let panicked = run(&[2]).unwrap_err();
    assert!(panicked.contains("it panicked: two"), "{panicked}");
    assert!(run(&[5]).is_ok());
    let stats = threads(&pipeline);
    assert_eq!((stats.accepted, stats.answered, stats.failed), (5, 3, 2));
    assert_eq!(
        (stats.panics, stats.batches, stats.busy, stats.wakes),
        (1, 5, 0, 0)
    );
}

/// Gives what it takes, once it may.
struct Gate {
    begun: mpsc::SyncSender<()>,
    may: Mutex<mpsc::Receiver<()>>,
}

impl Stage for Gate {
    fn run(&self, given: &Given<'_>) -> Result<Step, Error> {
        self.begun.send(()).unwrap();
        self.may.lock().unwrap().recv().unwrap();
        given.value(0).cloned().map(Step::Value)
    }
}

#[test]
fn no_more_run_at_a_time_than_there_are_threads() {
    let (begun, begins) = mpsc::sync_channel(2);
    let (allow, may) = mpsc::sync_channel(2);
    let pipeline = on_threads_of(Gate {
        begun,
        may: Mutex::new(may),
    });
    let other = Arc::clone(&pipeline);
    let first =
        thread::spawn(move || matches!(other.run_values_here(image(&[1]), &ask()), Ok(Progress::Done(_))));
    begins.recv().unwrap();
    let Ok(Progress::Waits(waiting)) = pipeline.run_values_here(image(&[2]), &ask()) else {
        panic!("its place is taken")
    };
    let (send, done) = mpsc::sync_channel(1);
    waiting.start_here(ask(), move |output| send.send(output).unwrap());
    assert!(begins.try_recv().is_err() && done.try_recv().is_err());
    allow.send(()).unwrap();
    allow.send(()).unwrap();
    assert!(done.recv().unwrap().is_ok() && first.join().unwrap());
}
