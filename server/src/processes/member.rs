//! One of several processes: what it hears from its parent, and tells it.
//!
//! Its invariant: it is told to stop at most once, by its parent or by the parent's end, and no net thread waits for a pipe.

use super::message::{Order, Said, hear, say};
use crate::handlers::tune::Setting;
use crate::{Error, Shared, admin, handlers};
use millpond_wire_schema::{Code, Status};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Messages that wait for the pipe to the parent.
const SAID_MAX: usize = 64;
/// Calls of `*tune` that wait for the parent's word.
const ASKING_MAX: usize = 64;

/// A process's end of the talk with its parent.
pub struct Member {
    number: usize,
    said: SyncSender<Said>,
    shared: Arc<OnceLock<Arc<Shared>>>,
    /// Hears once that it may accept, or that it never will.
    serve: Mutex<Receiver<()>>,
}

impl Member {
    /// Begins to hear the parent on the input, and to tell it on the output, which nobody else may write to. `on_stop` is
    /// called once: when the parent says so, or is gone. `on_reload` is called when files are to be read again; it must not wait.
    ///
    /// # Errors
    /// [`Error::Process`] when the system refuses a thread or the signal.
    pub fn join(
        number: usize,
        on_reload: impl Fn() + Send + 'static,
        on_stop: impl FnOnce() + Send + 'static,
    ) -> Result<Member, Error> {
        // Should the parent be killed and this process be stuck elsewhere than in reading its input.
        set_parent_process_death_signal(Some(Signal::TERM)).map_err(|error| failed(number, &error.into()))?;
        let (said, to_say) = sync_channel(SAID_MAX);
        let shared: Arc<OnceLock<Arc<Shared>>> = Arc::default();
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        thread("to-parent")
            .spawn(move || tell(&to_say))
            .map_err(|error| failed(number, &error))?;
        let (may_serve, serve) = sync_channel(1);
        let (told, answers) = (Arc::clone(&shared), said.clone());
        thread("from-parent")
            .spawn(move || {
                let input = BufReader::new(std::io::stdin());
                obey(input, &told, &answers, may_serve, on_reload, on_stop);
            })
            .map_err(|error| failed(number, &error))?;
        Ok(Member {
            number,
            said,
            shared,
            serve: Mutex::new(serve),
        })
    }

    /// Its number, from 0.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// It is warm: waits until the parent has told what was tuned, and this process follows.
    ///
    /// # Errors
    /// [`Error::Process`] when it is to stop, or its parent is gone.
    pub(crate) fn wait_to_serve(&self, shared: &Arc<Shared>) -> Result<(), Error> {
        let _ = self.shared.set(Arc::clone(shared));
        // It fails only where the parent is gone, which ends this process anyway.
        let _ = self.said.send(Said::Warm);
        let serve = self.serve.lock().unwrap_or_else(PoisonError::into_inner);
        let stopped = |_| Error::Process(format!("process {} was stopped before it served", self.number));
        serve.recv().map_err(stopped)
    }

    /// It accepts.
    pub(crate) fn is_ready(&self) {
        let _ = self.said.send(Said::Ready);
    }
}

/// What the server knows of being one of several.
pub(crate) struct Sibling {
    pub(crate) number: usize,
    said: SyncSender<Said>,
    asking: Mutex<Asking>,
}

/// Hears what the parent decided.
type OnDecision = Box<dyn FnOnce(Result<(), Status>) + Send>;

/// What the parent was asked for and has not decided.
#[derive(Default)]
struct Asking {
    last: u64,
    calls: HashMap<u64, OnDecision>,
}

impl Sibling {
    pub(crate) fn of(member: &Member) -> Sibling {
        Sibling::new(member.number, member.said.clone())
    }

    fn new(number: usize, said: SyncSender<Said>) -> Sibling {
        Sibling {
            number,
            said,
            asking: Mutex::default(),
        }
    }

    /// Has the parent decide what all processes are to take over; `on_decision` hears when this one has, or why not.
    /// Nothing changes here before that, so of two calls that cross at two processes the parent's later one holds everywhere.
    pub(crate) fn ask(
        &self,
        key: &str,
        value: &str,
        keeps: Option<IpAddr>,
        on_decision: impl FnOnce(Result<(), Status>) + Send + 'static,
    ) {
        let mut asking = self.asking();
        asking.last += 1;
        let number = asking.last;
        let said = Said::Tune {
            asked: number,
            key: key.to_owned(),
            value: value.to_owned(),
            keeps,
        };
        // The net thread does not wait for the pipe.
        if asking.calls.len() >= ASKING_MAX || self.said.try_send(said).is_err() {
            drop(asking);
            let ex = "the parent of the processes is busy, so nothing was changed; try again";
            return on_decision(Err(Status::new(Code::Overloaded, ex)));
        }
        asking.calls.insert(number, Box::new(on_decision));
    }

    /// The parent has decided, and this process has done it.
    fn decided(&self, asked: u64, decision: Result<(), String>) {
        let call = self.asking().calls.remove(&asked);
        if let Some(on_decision) = call {
            on_decision(decision.map_err(|problem| Status::new(Code::BadArgument, problem)));
        }
    }

    fn asking(&self) -> MutexGuard<'_, Asking> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(number: usize, error: &std::io::Error) -> Error {
    Error::Process(format!("process {number} cannot be one of several: {error}"))
}

/// Writes to the parent until it reads no more.
fn tell(to_say: &Receiver<Said>) {
    for message in to_say {
        if say(&mut std::io::stdout().lock(), &message).is_err() {
            return;
        }
    }
}

/// Obeys until the parent is gone, and with it the input. What `on_stop` begins takes a while, and the parent may still ask meanwhile.
fn obey(
    mut input: impl BufRead,
    shared: &OnceLock<Arc<Shared>>,
    answers: &SyncSender<Said>,
    may_serve: SyncSender<()>,
    on_reload: impl Fn(),
    on_stop: impl FnOnce(),
) {
    let mut may_serve = Some(may_serve);
    let mut on_stop = Some(on_stop);
    let mut stop = move || on_stop.take().into_iter().for_each(|stop| stop());
    while let Some(order) = hear(&mut input) {
        match (order, shared.get()) {
            (Order::Stop, _) => {
                may_serve = None;
                stop();
            }
            (Order::Reload, _) => on_reload(),
            (Order::Serve, _) => {
                if let Some(serve) = &may_serve {
                    let _ = serve.try_send(());
                }
            }
            (Order::Metrics { round }, Some(shared)) => {
                let values = admin::page::metrics(shared).into_values();
                if answers.send(Said::Metrics { round, values }).is_err() {
                    break;
                }
            }
            (Order::Beat, shared) => {
                let why_not_ready = shared.and_then(|shared| shared.health.complaint());
                if answers.send(Said::Beats { why_not_ready }).is_err() {
                    break;
                }
            }
            (Order::Set { setting, asked }, Some(shared)) => set(shared, &setting, asked),
            (Order::Refuse { asked, problem }, Some(shared)) => {
                if let Some(sibling) = shared.sibling.get() {
                    sibling.decided(asked, Err(problem));
                }
            }
            // Nothing is asked of a process that has not said that it is warm.
            (Order::Metrics { .. } | Order::Set { .. } | Order::Refuse { .. }, None) => {}
        }
    }
    stop();
}

/// Takes a setting over, and has the call answered that asked for it.
fn set(shared: &Shared, setting: &Setting, asked: Option<u64>) {
    let done = handlers::tune::follow(shared, setting);
    match &done {
        Ok(()) => tracing::warn!(?setting, "tuned"),
        Err(problem) => tracing::error!(?setting, problem, "tuned, and not in this process"),
    }
    if let (Some(asked), Some(sibling)) = (asked, shared.sibling.get()) {
        sibling.decided(asked, done);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::cell::Cell;

    /// A process that answers none of its parent's questions is killed.
    #[test]
    fn each_question_is_answered_and_the_end_of_the_parent_stops() {
        let mut orders = Vec::new();
        for order in [Order::Beat, Order::Reload, Order::Beat] {
            say(&mut orders, &order).unwrap();
        }
        let (answers, told) = sync_channel(8);
        let (may_serve, _serve) = sync_channel(1);
        let (reloads, stops) = (Cell::new(0), Cell::new(0));
        let add = |count: &Cell<u32>| count.set(count.get() + 1);
        let (on_reload, on_stop) = (|| add(&reloads), || add(&stops));
        obey(
            orders.as_slice(),
            &OnceLock::new(),
            &answers,
            may_serve,
            on_reload,
            on_stop,
        );
        drop(answers);
        let beats = Said::Beats { why_not_ready: None };
        assert_eq!(told.iter().collect::<Vec<_>>(), [beats.clone(), beats]);
        assert_eq!((reloads.get(), stops.get()), (1, 1));
    }

    #[test]
    fn what_the_parent_cannot_be_told_is_refused() {
        let (said, to_say) = sync_channel(1);
        let sibling = Sibling::new(0, said);
        let (heard, decisions) = sync_channel(2 * ASKING_MAX);
        let ask = || {
            let heard = heard.clone();
            sibling.ask("server.stat", "off", None, move |decision| {
                heard.send(decision.map_err(|status| status.code)).unwrap();
            });
        };
        ask();
        assert!(decisions.try_recv().is_err(), "it waits for the parent");
        // Nobody has read the first one.
        ask();
        assert_eq!(decisions.try_recv(), Ok(Err(Code::Overloaded)));
        let Ok(Said::Tune { asked, .. }) = to_say.try_recv() else {
            panic!("the parent is asked")
        };
        sibling.decided(asked, Ok(()));
        sibling.decided(asked, Ok(()));
        assert_eq!(decisions.try_recv(), Ok(Ok(())));
        ask();
        let Ok(Said::Tune { asked, .. }) = to_say.try_recv() else {
            panic!("there is room again")
        };
        sibling.decided(asked, Err("it may not be".to_owned()));
        assert_eq!(decisions.try_recv(), Ok(Err(Code::BadArgument)));
        for _ in 0..ASKING_MAX {
            ask();
            to_say.try_recv().unwrap();
        }
        ask();
        assert_eq!(
            decisions.try_recv(),
            Ok(Err(Code::Overloaded)),
            "calls are bounded"
        );
    }
}
