//! One of several processes: what it hears from its parent, and tells it.
//!
//! Its invariant: a stop comes as SIGTERM alone, from its parent or because that is gone, and no net thread waits for a pipe.

use super::STORES_AT;
use super::message::{Order, Report};
use crate::switch::{self, Plan, Refusal};
use crate::tune::Setting;
use crate::{Error, Shared, admin, tune};
use millpond_catalog::Serving;
use millpond_fleet::{hear, say};
use millpond_wire_schema::{Code, Status};
use rustix::process::{Signal, getpid, kill_process, set_parent_process_death_signal};
use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Messages that wait for the pipe to the parent.
const SAID_MAX: usize = 64;
/// Calls of `*tune` and of switches that wait for the parent's word, each.
const ASKING_MAX: usize = 64;

/// A process's end of the talk with its parent.
#[derive(Clone)]
pub struct Member(Arc<Talk>);

struct Talk {
    number: usize,
    said: SyncSender<Report>,
    shared: OnceLock<Weak<Shared>>,
    /// Where the process that has the ordered stores listens for the others, where there are any stores.
    stores: OnceLock<PathBuf>,
    /// Hears twice what is served: that it may open, and that it may accept; or that it never will.
    may_go_on: Mutex<Receiver<Served>>,
    asking: Mutex<Asking<Result<(), Status>>>,
    switching: Mutex<Asking<Outcome>>,
    /// Who hears whether the switch of that number is made.
    opened: Mutex<Option<(u64, SyncSender<bool>)>>,
}

/// The versions of the tables that all processes serve.
type Served = BTreeMap<String, Serving>;

/// What became of a switch: why a restart will not serve it, if it will not.
type Outcome = Result<Option<String>, Refusal>;

/// What the parent was asked for and has not decided.
struct Asking<D> {
    last: u64,
    /// Who hears of each.
    calls: HashMap<u64, Box<dyn FnOnce(D) + Send>>,
}

impl<D> Default for Asking<D> {
    fn default() -> Asking<D> {
        Asking {
            last: 0,
            calls: HashMap::new(),
        }
    }
}

impl Member {
    /// Begins to hear the parent on the input, and to tell it on the output, which nobody else may write to. The process
    /// sends itself SIGTERM when the parent is gone, and SIGHUP when files are to be read again.
    ///
    /// # Errors
    /// [`Error::Process`] when the system refuses a thread or the signal.
    pub fn join(number: usize) -> Result<Member, Error> {
        let failed = |error: std::io::Error| {
            Error::Process(format!("process {number} cannot be one of several: {error}"))
        };
        // Should the parent be killed and this process be stuck elsewhere than in reading its input.
        set_parent_process_death_signal(Some(Signal::TERM)).map_err(|error| failed(error.into()))?;
        let (member, to_say, go_on) = Member::new(number, SAID_MAX);
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        thread("to-parent").spawn(move || tell(&to_say)).map_err(failed)?;
        let obeying = member.clone();
        let signal = |signal| {
            let _ = kill_process(getpid(), signal);
        };
        thread("from-parent")
            .spawn(move || obeying.obey(BufReader::new(std::io::stdin()), go_on, signal))
            .map_err(failed)?;
        Ok(member)
    }

    fn new(number: usize, said_max: usize) -> (Member, Receiver<Report>, SyncSender<Served>) {
        let (said, to_say) = sync_channel(said_max);
        let (go_on, may_go_on) = sync_channel(2);
        let talk = Talk {
            number,
            said,
            shared: OnceLock::new(),
            stores: OnceLock::new(),
            may_go_on: Mutex::new(may_go_on),
            asking: Mutex::default(),
            switching: Mutex::default(),
            opened: Mutex::default(),
        };
        (Member(Arc::new(talk)), to_say, go_on)
    }

    /// Its number, from 0.
    pub(crate) fn number(&self) -> usize {
        self.0.number
    }

    /// Whether it has the ordered stores of all.
    pub(crate) fn has_stores(&self) -> bool {
        self.number() == STORES_AT
    }

    /// The Unix socket where the process that has the stores listens for the others; known once it may open.
    pub(crate) fn stores_socket(&self) -> Option<&Path> {
        self.0.stores.get().map(PathBuf::as_path)
    }

    /// Before it opens anything: waits until the parent has told which versions the others serve.
    pub(crate) fn wait_to_open(&self) -> Result<Served, Error> {
        let stopped = |_| Error::Process(format!("process {} was stopped before it served", self.number()));
        locked(&self.0.may_go_on).recv().map_err(stopped)
    }

    /// It is warm, with these versions: waits until the parent has told what was tuned, and this process follows. Returns
    /// the versions that the others serve by now.
    pub(crate) fn wait_to_serve(&self, shared: &Arc<Shared>, serving: Served) -> Result<Served, Error> {
        let _ = self.0.shared.set(Arc::downgrade(shared));
        // It fails only where the parent is gone, which ends this process anyway.
        let _ = self.0.said.send(Report::Warm { serving });
        self.wait_to_open()
    }

    /// It accepts.
    pub(crate) fn is_ready(&self) {
        let _ = self.0.said.send(Report::Ready);
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
        let said = Report::Tune {
            asked: number,
            key: key.to_owned(),
            value: value.to_owned(),
            keeps,
        };
        // The net thread does not wait for the pipe.
        if asking.calls.len() >= ASKING_MAX || self.0.said.try_send(said).is_err() {
            drop(asking);
            let ex = "the parent of the processes is busy, so nothing was changed; try again";
            return on_decision(Err(Status::new(Code::Overloaded, ex)));
        }
        asking.calls.insert(number, Box::new(on_decision));
    }

    /// Has the parent make a switch in all processes or none; `on_outcome` hears when all have, or why not.
    pub(crate) fn ask_to_switch(&self, plan: Plan, on_outcome: impl FnOnce(Outcome) + Send + 'static) {
        let mut asking = locked(&self.0.switching);
        asking.last += 1;
        let asked = asking.last;
        if asking.calls.len() >= ASKING_MAX || self.0.said.try_send(Report::Switch { asked, plan }).is_err() {
            drop(asking);
            let ex = "the parent of the processes is busy, so nothing was changed; try again";
            return on_outcome(Err(Refusal::passing(Code::Overloaded, ex)));
        }
        asking.calls.insert(asked, Box::new(on_outcome));
    }

    /// Takes the first step of a switch on a thread of its own, which takes the last one when the parent has decided.
    fn open(&self, shared: Arc<Shared>, number: u64, plan: Plan) {
        let (decide, decided) = sync_channel(1);
        *locked(&self.0.opened) = Some((number, decide));
        let said = self.0.said.clone();
        let opened = move |refusal| {
            let _ = said.send(Report::Opened {
                switch: number,
                refusal,
            });
        };
        let (said, unable) = (self.0.said.clone(), opened.clone());
        let thread = std::thread::Builder::new().name("switch".into());
        let started = thread.spawn(move || {
            let Some(handle) = shared.switching.engines.get() else {
                let ex = "a process is warming up";
                return opened(Some(Refusal::passing(Code::NotReady, ex)));
            };
            match switch::open(handle, &plan) {
                Ok(next) => {
                    opened(None);
                    if decided.recv() == Ok(true) {
                        next.commit(|| {
                            let _ = said.send(Report::Closed { switch: number });
                        });
                    }
                }
                Err(refusal) => opened(Some(refusal)),
            }
        });
        if let Err(error) = started {
            let ex = format!("a process cannot start a thread: {error}");
            unable(Some(Refusal::new(Code::Internal, ex)));
        }
    }

    /// Tells the thread of a switch what was decided.
    fn close(&self, number: u64, is_made: bool) {
        let opened = locked(&self.0.opened).take_if(|(opened, _)| *opened == number);
        if let Some((_, decide)) = opened {
            let _ = decide.try_send(is_made);
        }
    }

    /// The parent has decided, and this process has done it.
    fn decided(&self, asked: u64, decision: Result<(), String>) {
        let call = self.asking().calls.remove(&asked);
        if let Some(on_decision) = call {
            on_decision(decision.map_err(|problem| Status::new(Code::BadArgument, problem)));
        }
    }

    fn asking(&self) -> MutexGuard<'_, Asking<Result<(), Status>>> {
        locked(&self.0.asking)
    }

    /// Obeys until the parent is gone, and with it the input.
    fn obey(&self, mut input: impl BufRead, go_on: SyncSender<Served>, signal: impl Fn(Signal)) {
        while let Some(heard) = hear(&mut input) {
            let order = match heard {
                Ok(order) => order,
                Err(why) => {
                    tracing::error!("the parent of this process: {why}");
                    break;
                }
            };
            if self.follow(order, &go_on, &signal).is_err() {
                break;
            }
        }
        drop(go_on);
        signal(Signal::TERM);
    }

    /// Follows one order; an error where the parent does not hear any more.
    fn follow(
        &self,
        order: Order,
        go_on: &SyncSender<Served>,
        signal: impl Fn(Signal),
    ) -> Result<(), std::sync::mpsc::SendError<Report>> {
        let shared = self.0.shared.get().and_then(Weak::upgrade);
        match (order, shared) {
            (Order::Reload, _) => signal(Signal::HUP),
            (Order::Begin { serving, stores }, _) => {
                if let Some(stores) = stores {
                    let _ = self.0.stores.set(stores);
                }
                let _ = go_on.try_send(serving);
            }
            (Order::Serve { serving }, _) => {
                let _ = go_on.try_send(serving);
            }
            (Order::Beat, shared) => {
                let why_not_ready = shared.and_then(|shared| shared.health.complaint());
                self.0.said.send(Report::Beats { why_not_ready })?;
            }
            (Order::Metrics { round }, Some(shared)) => {
                let values = admin::page::metrics(Some(&shared)).into_values();
                self.0.said.send(Report::Metrics { round, values })?;
            }
            (Order::Set { setting, asked }, Some(shared)) => self.set(&shared, &setting, asked),
            (Order::Refuse { asked, problem }, Some(_)) => self.decided(asked, Err(problem)),
            (Order::Open { switch, plan }, Some(shared)) => self.open(shared, switch, plan),
            (Order::Close { switch, is_made }, _) => self.close(switch, is_made),
            (Order::Switched { asked, outcome }, _) => {
                let call = locked(&self.0.switching).calls.remove(&asked);
                if let Some(on_outcome) = call {
                    on_outcome(outcome);
                }
            }
            // Nothing is asked of a process that has not said that it is warm.
            (Order::Metrics { .. } | Order::Set { .. } | Order::Refuse { .. } | Order::Open { .. }, None) => {
            }
        }
        Ok(())
    }

    /// Takes a setting over, and has the call answered that asked for it.
    fn set(&self, shared: &Shared, setting: &Setting, asked: Option<u64>) {
        let done = tune::follow(shared, setting);
        match &done {
            Ok(()) => tracing::warn!(?setting, "tuned"),
            Err(problem) => tracing::error!(?setting, problem, "tuned, and not in this process"),
        }
        if let Some(asked) = asked {
            self.decided(asked, done);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes to the parent until it reads no more.
fn tell(to_say: &Receiver<Report>) {
    for message in to_say {
        if say(&mut std::io::stdout().lock(), &message).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::cell::RefCell;

    /// A process that answers none of its parent's questions is killed.
    #[test]
    fn each_question_is_answered_and_the_end_of_the_parent_stops() {
        let mut orders = Vec::new();
        for order in [Order::Beat, Order::Reload, Order::Beat] {
            say(&mut orders, &order).unwrap();
        }
        let (member, told, go_on) = Member::new(0, SAID_MAX);
        let signals = RefCell::default();
        member.obey(orders.as_slice(), go_on, |signal| {
            Vec::push(&mut signals.borrow_mut(), signal);
        });
        drop(member);
        let beats = Report::Beats { why_not_ready: None };
        assert_eq!(told.iter().collect::<Vec<_>>(), [beats.clone(), beats]);
        assert_eq!(signals.into_inner(), [Signal::HUP, Signal::TERM]);
    }

    /// It opens what the first order says, and never what the folder alone would have it open.
    #[test]
    fn a_process_opens_what_it_is_told_and_then_serves_what_it_is_told() {
        let serving = |version| {
            let serving = Serving {
                version,
                before: Some(1),
                highest: 4,
            };
            Served::from([("films".to_owned(), serving)])
        };
        let mut orders = Vec::new();
        for order in [
            Order::Begin {
                serving: serving(2),
                stores: Some("/tmp/m/stores.sock".into()),
            },
            Order::Serve { serving: serving(3) },
        ] {
            say(&mut orders, &order).unwrap();
        }
        let (member, _told, go_on) = Member::new(0, SAID_MAX);
        member.obey(orders.as_slice(), go_on, |_| ());
        assert_eq!(member.stores_socket(), Some(Path::new("/tmp/m/stores.sock")));
        assert_eq!(member.wait_to_open().unwrap(), serving(2));
        assert_eq!(member.wait_to_open().unwrap(), serving(3));
        let stopped = member.wait_to_open().unwrap_err().to_string();
        assert!(stopped.contains("was stopped before it served"), "{stopped}");
    }

    #[test]
    fn what_the_parent_cannot_be_told_is_refused() {
        let (member, to_say, _) = Member::new(0, 1);
        let (heard, decisions) = sync_channel(2 * ASKING_MAX);
        let ask = || {
            let heard = heard.clone();
            member.ask("server.stat", "off", None, move |decision| {
                heard.send(decision.map_err(|status| status.code)).unwrap();
            });
        };
        ask();
        assert!(decisions.try_recv().is_err(), "it waits for the parent");
        // Nobody has read the first one.
        ask();
        assert_eq!(decisions.try_recv(), Ok(Err(Code::Overloaded)));
        let Ok(Report::Tune { asked, .. }) = to_say.try_recv() else {
            panic!("the parent is asked")
        };
        member.decided(asked, Ok(()));
        member.decided(asked, Ok(()));
        assert_eq!(decisions.try_recv(), Ok(Ok(())));
        ask();
        let Ok(Report::Tune { asked, .. }) = to_say.try_recv() else {
            panic!("there is room again")
        };
        member.decided(asked, Err("it may not be".to_owned()));
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
