//! One of several processes: what it hears from its parent, and tells it.
//!
//! Its invariant: it is told to stop at most once, by its parent or by the parent's end, and no net thread waits for a pipe.

use super::message::{Order, Said, hear, say};
use crate::{Error, Shared, admin, handlers};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::BufReader;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

/// Messages that wait for the pipe to the parent.
const SAID_MAX: usize = 64;

/// A process's end of the talk with its parent.
pub struct Member {
    number: usize,
    said: SyncSender<Said>,
    shared: Arc<OnceLock<Arc<Shared>>>,
}

impl Member {
    /// Begins to hear the parent on the input, and to tell it on the output, which nobody else may write to. `on_stop` is
    /// called once: when the parent says so, or is gone.
    ///
    /// # Errors
    /// [`Error::Process`] when the system refuses a thread or the signal.
    pub fn join(number: usize, on_stop: impl FnOnce() + Send + 'static) -> Result<Member, Error> {
        // Should the parent be killed and this process be stuck elsewhere than in reading its input.
        set_parent_process_death_signal(Some(Signal::TERM)).map_err(|error| failed(number, &error.into()))?;
        let (said, to_say) = sync_channel(SAID_MAX);
        let shared: Arc<OnceLock<Arc<Shared>>> = Arc::default();
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        thread("to-parent")
            .spawn(move || tell(&to_say))
            .map_err(|error| failed(number, &error))?;
        let (told, answers) = (Arc::clone(&shared), said.clone());
        thread("from-parent")
            .spawn(move || obey(&told, &answers, on_stop))
            .map_err(|error| failed(number, &error))?;
        Ok(Member { number, said, shared })
    }

    /// Its number, from 0.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// It is warm: the parent may ask.
    pub(crate) fn is_ready(&self, shared: &Arc<Shared>) {
        let _ = self.shared.set(Arc::clone(shared));
        // It fails only where the parent is gone, which ends this process anyway.
        let _ = self.said.send(Said::Ready);
    }
}

/// What the server knows of being one of several.
pub(crate) struct Sibling {
    pub(crate) number: usize,
    said: SyncSender<Said>,
}

impl Sibling {
    pub(crate) fn of(member: &Member) -> Sibling {
        Sibling {
            number: member.number,
            said: member.said.clone(),
        }
    }

    /// Has the other processes follow what was tuned here.
    pub(crate) fn tuned(&self, key: &str, value: &str) {
        let said = Said::Tuned {
            key: key.to_owned(),
            value: value.to_owned(),
        };
        if self.said.try_send(said).is_err() {
            tracing::error!(
                key,
                "the parent does not read; what was tuned does not reach the other processes"
            );
        }
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

/// Obeys until the parent is gone. What `on_stop` begins takes a while, and the parent may still ask meanwhile.
fn obey(shared: &OnceLock<Arc<Shared>>, answers: &SyncSender<Said>, on_stop: impl FnOnce()) {
    let mut on_stop = Some(on_stop);
    let mut stop = move || on_stop.take().into_iter().for_each(|stop| stop());
    let mut input = BufReader::new(std::io::stdin());
    while let Some(order) = hear(&mut input) {
        match (order, shared.get()) {
            (Order::Stop, _) => stop(),
            (Order::Metrics { round }, Some(shared)) => {
                let page = admin::page::metrics(shared);
                if answers.send(Said::Metrics { round, page }).is_err() {
                    break;
                }
            }
            (Order::Set(setting), Some(shared)) => match handlers::tune::follow(shared, &setting) {
                Ok(()) => tracing::warn!(?setting, "tuned elsewhere"),
                Err(problem) => tracing::error!(?setting, problem, "tuned elsewhere, and not here"),
            },
            // Nothing is asked of a process that has not said that it is ready.
            (Order::Metrics { .. } | Order::Set(_), None) => {}
        }
    }
    stop();
}
