//! Offers loads to targets: threads with an event loop, connections and histograms of their own, and every kind of target.
//!
//! A kind of target is one file in `kinds` and a row of [`KINDS`]: what a scenario may say of it, its requests as bytes or calls, and
//! where an answer ends. Nothing here reads a scenario, starts a server or judges. Nothing on the path of a request is shared, locked
//! or allocated. Its invariants: every request taken from a schedule or a fixed number is counted once; nothing that a server sends
//! makes a thread panic, or keeps it from ending when it is told to.

mod caller;
mod check;
mod clock;
mod cores;
mod counting;
mod event_loop;
mod fill;
mod kind;
mod kinds;
mod known;
mod local;
mod msgpack;
mod offer;
mod plan;
mod protocol;
mod rows;
mod threads;
mod tls;

pub use check::{Checker, Rules};
pub use clock::Clock;
pub use cores::Cores;
pub use kind::{Description, Given, Operation, Takes, Target, TargetKind};
pub use kinds::{Connection, KINDS, ProgramStart, Request};
pub use offer::{Offer, Part};
pub use plan::{Amount, Handed, Plan, Report};
pub use threads::Threads;
pub use tls::Tls;

/// Why threads could not be started or told what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A thread could not be set up, or ended by itself.
    #[error("{0}")]
    Thread(String),
    /// No schedule can be made of a load.
    #[error(transparent)]
    Schedule(#[from] millpond_press_workload::Error),
}
