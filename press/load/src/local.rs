//! What a thread needs of a target in this process: a call, and the answer when it returns.
//!
//! What a call costs here is what a server cannot be faster than; the difference to the same request over a socket is the
//! network's. Its invariant: a call that did not do its whole work, such as a lookup with an absent key, is an error.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use millpond_press_recorder::Live;
use tokio::sync::mpsc::Sender;

use crate::caller;
use crate::check::{Answer, Verified};
use crate::kind::{Given, Takes, Target, TargetKind};
use crate::plan::{Plan, Report};
use crate::{Error, Part, ProgramStart, Threads};

/// A kind of target without a network.
pub(crate) trait Local: Sized + Send + Sync + 'static {
    /// What is called; all threads share it.
    type Engine: Send + Sync;
    /// What one thread keeps between its calls, as a connection does.
    type State: Default;
    /// One request, read.
    type Command: Send + Sync;

    /// How a request is written.
    const HOW: &'static str;
    /// What a scenario may ask of it.
    const TAKES: Takes = Takes::LOCAL;
    /// Whether calls may write, so that requests can fill it.
    const WRITES: bool = false;

    /// What is known of the answers.
    fn prepare(given: &Given<'_>) -> Result<Self, String>;

    /// Reads a request, which is not blank.
    fn command(request: &[u8]) -> Result<Self::Command, Unread>;

    /// Opens the engine; the error names the file.
    fn open(files: Option<&PathBuf>) -> Result<Self::Engine, String>;

    /// Refuses a request that an engine like this can never do.
    fn check(_engine: &Self::Engine, _command: &Self::Command) -> Result<(), String> {
        Ok(())
    }

    /// Does a request; the answer's bytes lie in the state.
    fn call<'s>(
        engine: &Self::Engine,
        command: &Self::Command,
        state: &'s mut Self::State,
    ) -> Result<Answer<'s>, String>;

    /// Checks what only the requests can tell of the answer to request `index`, after its time was taken.
    fn verify(&self, _index: usize, _answer: Answer<'_>) -> Result<Verified, String> {
        Ok(Verified::Nothing)
    }
}

/// Why a request cannot be read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It is not written as [`Local::HOW`] says.
    Form,
    /// It is, and holds what cannot be.
    Content(String),
}

impl From<String> for Unread {
    fn from(what: String) -> Unread {
        Unread::Content(what)
    }
}

/// A word that is a number.
pub(crate) fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// A kind that is called in this process.
pub(crate) const fn in_process<L: Local>(names: &'static [&'static str]) -> TargetKind {
    TargetKind::new(names, L::TAKES, |given| {
        Ok(Arc::new(Arc::new(InProcess::<L>::new(given)?)))
    })
}

/// A target in this process.
pub(crate) struct InProcess<L: Local> {
    pub(crate) target: L,
    pub(crate) commands: Vec<L::Command>,
    files: Option<PathBuf>,
    engine: OnceLock<L::Engine>,
}

impl<L: Local> InProcess<L> {
    pub(crate) fn new(given: &Given<'_>) -> Result<InProcess<L>, String> {
        let mut commands = Vec::with_capacity(given.set.len());
        given.each(|request| {
            let command = match request.trim_ascii() {
                b"" => Err(Unread::Form),
                request => L::command(request),
            };
            commands.push(command.map_err(|unread| match unread {
                Unread::Form => format!("is no command; write it as {}", L::HOW),
                Unread::Content(what) => format!("is no command: {what}; write it as {}", L::HOW),
            })?);
            Ok(())
        })?;
        Ok(InProcess {
            target: L::prepare(given)?,
            commands,
            files: given.target.files.map(Into::into),
            engine: OnceLock::new(),
        })
    }

    /// The engine, once it is open.
    pub(crate) fn engine(&self) -> Result<&L::Engine, String> {
        self.engine
            .get()
            .ok_or_else(|| "its engine was not opened".into())
    }

    fn write(&self, commands: &[L::Command]) -> Result<(), String> {
        let (engine, mut state) = (self.engine()?, L::State::default());
        commands
            .iter()
            .try_for_each(|command| L::call(engine, command, &mut state).map(drop))
    }
}

impl<L: Local> Target for Arc<InProcess<L>> {
    fn open(&self, _: Option<&ProgramStart>) -> Result<(), String> {
        let engine = L::open(self.files.as_ref())?;
        for command in &self.commands {
            L::check(&engine, command)?;
        }
        self.engine.get_or_init(|| engine);
        Ok(())
    }

    fn fill(&self, given: &Given<'_>, _: Option<SocketAddr>, _: Duration) -> Result<(), String> {
        match L::WRITES {
            true => self.write(&InProcess::<L>::new(given)?.commands),
            false => Err("it takes no writes".into()),
        }
    }

    fn drive(
        &self,
        plan: Plan,
        part: Part,
        reports: &Sender<Report>,
        lives: &[Arc<Live>],
    ) -> Result<Threads, Error> {
        let target = self.clone();
        let body = move |plan: &Arc<Plan>, line| caller::run(&target, plan.clone(), line);
        Threads::start(plan, part, body, reports, lives)
    }
}
