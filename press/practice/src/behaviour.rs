//! What a server does with requests: the trait of all behaviours, and the place where one is made from the command line.
//!
//! A behaviour sees whole requests of connections by number, never a socket. Its invariant: it answers through `Connections`
//! alone, and a connection's answers leave in the order of its requests, unless the wrong order is its fault.

mod delayed;
mod fault;
mod per_connection;
mod pooled;
mod rate;
mod stall;
mod tasks;
mod work;

use crate::arguments::Arguments;
use crate::connections::{Connections, Id};
use crate::error::Error;
use crate::kind::Kind;
use crate::poller::Wake;
use crate::random::Random;
use crate::truth::SharedSamples;
use std::sync::Arc;

/// What a serving thread asks.
pub(crate) trait Behaviour: Send {
    /// Whole requests of one connection that were read at that time.
    fn arrived(&mut self, id: Id, requests: &[u8], at_ns: u64, connections: &mut Connections);

    /// When something is due without anything being read.
    fn next_due_ns(&self) -> Option<u64> {
        None
    }

    /// Answers what is due; asked after every wait.
    fn due(&mut self, _connections: &mut Connections) {}
}

/// Plain echo: bytes go back as they came, at once.
struct Plain;

impl Behaviour for Plain {
    fn arrived(&mut self, id: Id, requests: &[u8], _at_ns: u64, connections: &mut Connections) {
        connections.send(id, requests);
    }
}

/// Makes the behaviour of each serving thread; what they share lies here.
pub(crate) struct Maker<'a> {
    kind: Kind,
    arguments: &'a Arguments,
    /// A stall strikes the whole server at once.
    first_byte: Arc<stall::FirstByte>,
    /// How many were made: each draws its own random numbers.
    made: u64,
}

impl Maker<'_> {
    pub(crate) fn new(kind: Kind, arguments: &Arguments) -> Maker<'_> {
        Maker {
            kind,
            arguments,
            first_byte: Arc::default(),
            made: 0,
        }
    }

    /// The behaviour of the next thread. Threads of its own tell `wake` what they have done.
    pub(crate) fn make(
        &mut self,
        wake: &Arc<Wake>,
        truth: Option<SharedSamples>,
    ) -> Result<Box<dyn Behaviour>, Error> {
        let random = Random::new(self.arguments.seed, self.made);
        self.made += 1;
        let pooled = |task| pooled::Pooled::start(self.arguments.workers, task, wake);
        Ok(match &self.kind {
            Kind::Plain | Kind::AcceptPause => Box::new(Plain),
            Kind::Delay(delay) => Box::new(delayed::Delayed::new(*delay, random, truth)),
            Kind::Stall(stall) => Box::new(stall::Stalled {
                stall: *stall,
                first_byte_ns: Arc::clone(&self.first_byte),
            }),
            Kind::Rate(rate) => Box::new(rate::Rated::new(*rate, self.arguments.queue_max as usize)),
            Kind::Work(work) => Box::new(work::Work(*work)),
            Kind::Sleep(length) => Box::new(pooled(tasks::sleep(*length))?),
            Kind::Lock { hold, asleep } => Box::new(pooled(tasks::lock(*hold, *asleep))?),
            Kind::Disk(path) => Box::new(pooled(tasks::disk(path)?)?),
            Kind::Fault(fault) => Box::new(fault::Faulty::new(*fault, random)),
        })
    }
}
