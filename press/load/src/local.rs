//! What a thread needs of a target in this process: a call, and the answer when it returns.
//!
//! What a call costs here is what a server cannot be faster than; the difference to the same request over a socket is the
//! network's. Its invariant: a call that did not do its whole work, such as a lookup with an absent key, is an error.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use millpond_press_recorder::Live;
use millpond_press_workload::RequestSet;
use tokio::sync::mpsc::Sender;

use crate::caller;
use crate::check::Answer;
use crate::kind::{Given, Target, TargetKind};
use crate::plan::{Plan, Report};
use crate::protocol::words;
use crate::{Error, Part, Threads};

/// A kind of target without a network.
pub(crate) trait Local: TargetKind {
    /// What one thread keeps between its calls, as a connection does.
    type State;

    /// Opens the engine; the error names the file.
    fn open(&self) -> Result<(), String>;

    /// The beginning of a thread's calls, after [`Local::open`].
    fn state(&self) -> Result<Self::State, String>;

    /// How many requests there are.
    fn len(&self) -> usize;

    /// Does request `index`; the answer's bytes lie in the state.
    fn call<'s>(&self, index: usize, state: &'s mut Self::State) -> Result<Answer<'s>, String>;

    /// Writes what another set of requests holds, one after the other.
    fn fill(&self, _requests: &Self) -> Result<(), String> {
        Err("it takes no writes".into())
    }

    /// Checks what only the engine's requests can know of the answer to request `index`, after its time was taken.
    fn verify(&self, _index: usize, _answer: Answer<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// Reads the commands of a set by `read`; the error names the request and shows how it is written.
pub(crate) fn commands<C>(
    requests: &RequestSet,
    how: &str,
    read: impl Fn(&[&[u8]]) -> Option<C>,
) -> Result<Vec<C>, String> {
    let command = |(number, line): (usize, &[u8])| {
        let words: Vec<&[u8]> = words(line).collect();
        let command = if words.is_empty() { None } else { read(&words) };
        command.ok_or_else(|| format!("request {} is no command; write it as {how}", number + 1))
    };
    requests.iter().enumerate().map(command).collect()
}

/// A word that is a number.
pub(crate) fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// A target in this process.
pub(crate) struct InProcess<L>(Arc<L>);

impl<L: Local> InProcess<L> {
    pub(crate) fn new(target: L) -> InProcess<L> {
        InProcess(Arc::new(target))
    }
}

impl<L: Local> Target for InProcess<L> {
    fn open(&self) -> Result<(), String> {
        self.0.open()
    }

    fn fill(&self, given: &Given<'_>, _: Option<SocketAddr>, _: Duration) -> Result<(), String> {
        self.0.fill(&L::prepare(given)?)
    }

    fn drive(
        &self,
        plan: Plan,
        part: Part,
        reports: &Sender<Report>,
        lives: &[Arc<Live>],
    ) -> Result<Threads, Error> {
        let (target, plan) = (self.0.clone(), Arc::new(plan));
        let body = {
            let plan = plan.clone();
            move |line| caller::run(target.clone(), plan.clone(), line)
        };
        Threads::start(plan.client_threads, part, body, reports, lives)
    }
}
