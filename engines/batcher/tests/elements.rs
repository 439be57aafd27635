//! Tensors of every type of element: joined to a run, cut apart again, checked and counted.
#![allow(clippy::unwrap_used)]

use millpond_backends_interface::{Error, Instance, Model, Port, Signature};
use millpond_engines_batcher::{Answer, Batcher, BatcherOptions, Error as InferError, Rejected, Request};
use millpond_tensor::{Bytes, Data, ElementType, Tensor, bf16, element_types, f16};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

/// A model that gives what it takes. Its first run waits until the test lets it go.
struct Echo {
    signature: Signature,
    began: SyncSender<usize>,
    go: Arc<Mutex<Receiver<()>>>,
}

struct EchoInstance {
    began: SyncSender<usize>,
    go: Arc<Mutex<Receiver<()>>>,
}

impl Model for Echo {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn instance(&self) -> Result<Box<dyn Instance>, Error> {
        Ok(Box::new(EchoInstance {
            began: self.began.clone(),
            go: Arc::clone(&self.go),
        }))
    }
}

impl Instance for EchoInstance {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
        let _ = self.began.try_send(inputs[0].rows());
        // An error means that the test let all runs go.
        let _ = self.go.lock().unwrap().recv();
        Ok(inputs)
    }
}

/// A batcher of an echo, where its runs are seen, and what holds them until it is dropped.
fn start(element_type: ElementType, queue_bytes_max: usize) -> (Batcher, Receiver<usize>, SyncSender<()>) {
    let port = |name: &str| Port {
        name: name.into(),
        element_type,
        shape: vec![None, Some(2)],
    };
    let (began, runs) = sync_channel(64);
    let (hold, go) = sync_channel(0);
    let model = Echo {
        signature: Signature {
            inputs: vec![port("x")],
            outputs: vec![port("y")],
            batched: true,
        },
        began,
        go: Arc::new(Mutex::new(go)),
    };
    let options = BatcherOptions {
        instances: 1,
        batch_size_max: 8,
        queue_bytes_max,
        ..BatcherOptions::default()
    };
    let batcher = Batcher::start("echo", Arc::new(model), options).unwrap();
    (batcher, runs, hold)
}

type Answers = Receiver<Result<Answer, InferError>>;

fn request(x: &Tensor) -> (Request, Answers) {
    let (send, answers) = sync_channel(1);
    let request = Request {
        source: 0,
        priority: Default::default(),
        inputs: vec![x.clone()],
        rows: x.rows(),
        deadline: None,
        gone: Arc::default(),
        kept_bytes: 0,
        done: Box::new(move |result| send.send(result).unwrap()),
    };
    (request, answers)
}

fn submit(batcher: &Batcher, x: &Tensor) -> Answers {
    let (request, answers) = request(x);
    assert!(batcher.submit(request).is_ok());
    answers
}

fn tensor(rows: usize, data: impl Into<Data>) -> Tensor {
    Tensor::new(vec![rows, 2], data).unwrap()
}

macro_rules! declare {
    ($($variant:ident $type:ident $kind:ident,)*) => {
        /// Rows of two numbers, or of their digits, from `first` on.
        fn counted(element_type: ElementType, first: u8, rows: usize) -> Tensor {
            let numbers = first..first + 2 * rows as u8;
            match element_type {
                $(ElementType::$variant => {
                    tensor(rows, numbers.map(|number| of!($kind $type, number)).collect::<Vec<$type>>())
                })*
                ElementType::Bytes => tensor(rows, numbers.map(|n| n.to_string()).collect::<Bytes>()),
            }
        }
    };
}

macro_rules! of {
    (float $type:ident, $number:expr) => {
        $type::from($number)
    };
    (truth $type:ident, $number:expr) => {
        $number % 3 == 0
    };
    ($kind:ident $type:ident, $number:expr) => {
        $number as $type
    };
}

element_types!(declare);

#[test]
fn requests_that_share_a_run_get_their_own_rows() {
    for &element_type in ElementType::ALL {
        let (batcher, runs, hold) = start(element_type, usize::MAX);
        let first = counted(element_type, 1, 1);
        let alone = submit(&batcher, &first);
        assert_eq!(runs.recv(), Ok(1));
        let given = [(8, 1), (97, 3), (5, 2)].map(|(first, rows)| counted(element_type, first, rows));
        let answers = given.each_ref().map(|x| submit(&batcher, x));
        drop(hold);
        assert_eq!(alone.recv().unwrap().unwrap().outputs, [first]);
        for (x, answers) in given.into_iter().zip(answers) {
            let answer = answers.recv().unwrap().unwrap();
            assert_eq!((answer.outputs, answer.timing.batch_requests), (vec![x], 3));
        }
        assert_eq!(runs.recv(), Ok(6));
        assert_eq!(batcher.warm_up(&[1, 8]).unwrap().len(), 2);
        assert_eq!(
            [runs.recv(), runs.recv(), runs.recv(), runs.recv()],
            [Ok(1), Ok(1), Ok(8), Ok(8)]
        );
    }
}

#[test]
fn what_is_not_finite_fails_its_own_request() {
    let cases = [
        (ElementType::F16, tensor(1, vec![f16::ONE, f16::NAN]), "NaN"),
        (
            ElementType::Bf16,
            tensor(1, vec![bf16::ONE, bf16::NEG_INFINITY]),
            "-inf",
        ),
    ];
    for (element_type, bad, value) in cases {
        let (batcher, runs, hold) = start(element_type, usize::MAX);
        let good = counted(element_type, 1, 1);
        let alone = submit(&batcher, &good);
        assert_eq!(runs.recv(), Ok(1));
        let answers = [&good, &bad, &good].map(|x| submit(&batcher, x));
        drop(hold);
        assert!(alone.recv().unwrap().is_ok());
        let [first, wrong, last] = answers.map(|answers| answers.recv().unwrap());
        let problem = wrong.unwrap_err().to_string();
        assert!(
            problem.contains(&format!("output `y` is {value} at element 1")),
            "{problem}"
        );
        for answer in [first, last] {
            assert_eq!(answer.unwrap().outputs, std::slice::from_ref(&good));
        }
    }
}

#[test]
fn strings_are_counted_with_what_says_where_they_end() {
    let (batcher, _, hold) = start(ElementType::Bytes, 1000);
    drop(hold);
    let strings = |bytes: usize| tensor(1, Bytes::from_iter(["a".repeat(bytes).as_str(), ""]));
    let most = 1000 - 2 * size_of::<usize>();
    assert!(submit(&batcher, &strings(most)).recv().unwrap().is_ok());
    let too_many = Rejected::TooManyBytes {
        bytes: 1001,
        queue_bytes_max: 1000,
    };
    let (request, _answers) = request(&strings(most + 1));
    assert_eq!(batcher.submit(request).unwrap_err().0, too_many);
}
