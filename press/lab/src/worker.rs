//! A process of a load generator: some of its threads, told what to do by a press on the input, and heard on the output.
//!
//! Nothing is decided or measured here beyond what the threads do. Its invariant: when the input ends, the threads drop what
//! they do and the process ends, so that a press that is gone leaves nothing that sends.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::Error;
use crate::crew::Crew;
use crate::crew::message::{FIGURES_NS, Order, Said, Task, told};
use crate::scenario;
use crate::session::Connecting;
use millpond_fleet::hear;
use millpond_press_load::{Clock, Report};

/// How often it says something when its threads have nothing to do, so that the press knows it is there.
const IDLE_NS: u64 = 1_000_000_000;
/// Orders that wait to be obeyed.
const ORDERS_MAX: usize = 16;

/// What `millpond press worker` does; press starts it itself, once for each process of `load.processes`.
///
/// # Errors
/// The input does not begin with a task of a press. Whatever happens later is told to that press.
pub fn worker() -> Result<(), Error> {
    let mut input = BufReader::new(std::io::stdin());
    let task = match hear(&mut input) {
        Some(Ok(Order::Take(task))) => task,
        Some(Err(why)) => return Err(not_started(why)),
        Some(Ok(_)) | None => return Err(not_started("its input begins with no task")),
    };
    let (orders, received) = channel(ORDERS_MAX);
    std::thread::Builder::new()
        .name("press-orders".into())
        .spawn(move || take_orders(input, &orders))
        .map_err(not_started)?;
    let worked = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(not_started)?
        .block_on(work(&task, received));
    if let Err(error) = worked {
        // A press that is gone need not know.
        let _ = say(&Said::Broken(error.to_string()));
    }
    Ok(())
}

fn not_started(why: impl std::fmt::Display) -> Error {
    Error::ClientProcess(format!(
        "this command is for press itself, which starts it where load.processes is above 1 ({why}); use `press run`"
    ))
}

/// Hands orders on until the input ends; that they end with it is the order to leave.
fn take_orders(mut input: impl BufRead, orders: &Sender<Order>) {
    while let Some(Ok(order)) = hear(&mut input) {
        if orders.blocking_send(order).is_err() {
            break;
        }
    }
}

/// Starts the threads, obeys, and tells what they say.
async fn work(task: &Task, mut orders: Receiver<Order>) -> Result<(), Error> {
    let mut made = scenario::excerpt(&task.scenario, &task.text, &task.set, task.target)?;
    made.target.address = Some(task.address);
    let broken = |error: std::io::Error| Error::ClientProcess(error.to_string());
    let clock = Clock::of(task.epoch_ns).map_err(broken)?;
    let connecting = Connecting {
        target: &made.target,
        load: &made.load,
        seed: made.seed,
        connections: task.connections,
    };
    let mut crew = connecting.crew(clock, task.part)?;
    // Threads that are not done with what they were told, at first to connect.
    let mut busy = crew.len();
    loop {
        let every = if busy > 0 { FIGURES_NS } else { IDLE_NS };
        let now = clock.now();
        let wait = Duration::from_nanos(every - now % every);
        tokio::select! {
            order = orders.recv() => match order {
                // A second task is none, as is the end of the input.
                Some(Order::Take(_)) | None => return Ok(()),
                Some(order @ Order::Prepare(_)) => {
                    crew.tell(order)?;
                    say(&Said::Prepared).map_err(broken)?;
                }
                Some(order) => {
                    if matches!(order, Order::Begin { .. }) {
                        busy = crew.len();
                    }
                    crew.tell(order)?;
                }
            },
            report = crew.report() => {
                // The last figures are whole before they are counted.
                say(&figures(&crew)).map_err(broken)?;
                say(&said(report)?).map_err(broken)?;
                busy = busy.saturating_sub(1);
            }
            () = tokio::time::sleep(wait) => {
                crew.check_alive()?;
                say(&figures(&crew)).map_err(broken)?;
            }
        }
    }
}

fn figures(crew: &Crew) -> Said {
    Said::Live(crew.lives.iter().map(|live| told(live)).collect())
}

/// A report of a thread as a line, or why there will be no more.
fn said(report: Option<Report>) -> Result<Said, Error> {
    match report {
        Some(Report::Ready { opened, failure }) => Ok(Said::Ready { opened, failure }),
        Some(Report::Done(handed)) => Ok(Said::Done(handed)),
        Some(Report::Broken(why)) => Err(Error::ClientThread(why)),
        Some(Report::Prepared | Report::Lost { .. }) | None => {
            Err(Error::ClientThread("its threads are gone".into()))
        }
    }
}

fn say(said: &Said) -> std::io::Result<()> {
    millpond_fleet::say(&mut std::io::stdout().lock(), said)
}
