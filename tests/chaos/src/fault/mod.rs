//! What is done to a server that runs, one file a fault.
//!
//! A fault of the machine is over when `inject` returns; callers that do not behave go on beside it. Its invariant: whatever a
//! fault has changed on this machine it takes back, also when the server dies under it.

mod certificate;
mod deadlines;
mod disk;
mod garbage;
mod half_close;
mod kill;
mod member;
mod pause;
mod reset;
mod slow_reader;
mod sync;

pub use disk::Disk;
pub use kill::await_moment;

use crate::plan::Fault;
use crate::scene::Scene;
use crate::tally::{Counted, Word};
use std::thread::Scope;

impl From<Fault> for Word {
    fn from(fault: Fault) -> Word {
        match fault {
            Fault::Pause(_) => Word::Pause,
            Fault::FullDisk(_) => Word::FullDisk,
            Fault::FileSize(_) => Word::FileSize,
            Fault::ReadOnlyFolder(_) => Word::ReadOnlyFolder,
            Fault::FailedSync(_) => Word::FailedSync,
            Fault::SlowSync(_) => Word::SlowSync,
            Fault::NewCertificate => Word::NewCertificate,
            Fault::WrongCertificate => Word::WrongCertificate,
            Fault::Resets(_) => Word::Resets,
            Fault::HalfCloses(_) => Word::HalfCloses,
            Fault::SlowReaders(_) => Word::SlowReaders,
            Fault::Garbage(_) => Word::Garbage,
            Fault::Deadlines(_) => Word::Deadlines,
            Fault::KillMember => Word::KillMember,
            Fault::PauseMember(_) => Word::PauseMember,
        }
    }
}

/// Does it, or says that this machine does not allow it.
///
/// # Errors
/// The fault cannot be made, or not be taken back.
pub fn inject<'scope>(
    scope: &'scope Scope<'scope, '_>,
    scene: &'scope Scene<'_>,
    disk: &Disk,
    fault: Fault,
    who: u64,
) -> anyhow::Result<()> {
    let settings = scene.settings;
    // A disk that others use is not filled; files that may not grow come closest.
    let fault = match fault {
        Fault::FullDisk(lasts) if !disk.is_own() => Fault::FileSize(lasts),
        fault => fault,
    };
    let is_possible = match fault {
        Fault::ReadOnlyFolder(_) => settings.can_mount,
        Fault::FailedSync(_) | Fault::SlowSync(_) => settings.can_trace,
        _ => true,
    };
    if !is_possible {
        scene.tally.count(Counted::LeftOut(fault.into()));
        return Ok(());
    }
    scene.tally.count(Counted::Fault(fault.into()));
    match fault {
        Fault::Pause(lasts) => pause::run(scene, lasts),
        Fault::FullDisk(lasts) => disk.full(scene, lasts)?,
        Fault::ReadOnlyFolder(lasts) => disk.read_only(scene, lasts)?,
        Fault::FileSize(lasts) => disk::file_size(scene, lasts)?,
        Fault::FailedSync(lasts) => sync::fail(scene, lasts)?,
        Fault::SlowSync(lasts) => sync::slow(scene, lasts)?,
        Fault::NewCertificate => certificate::renew(scene, who)?,
        Fault::WrongCertificate => certificate::spoil(scene, who)?,
        Fault::Resets(count) => drop(scope.spawn(move || reset::run(scene, who, count))),
        Fault::HalfCloses(count) => drop(scope.spawn(move || half_close::run(scene, who, count))),
        Fault::SlowReaders(count) => drop(scope.spawn(move || slow_reader::run(scene, who, count))),
        Fault::Garbage(count) => drop(scope.spawn(move || garbage::run(scene, who, count))),
        Fault::Deadlines(count) => drop(scope.spawn(move || deadlines::run(scene, who, count))),
        Fault::KillMember => member::kill(scene, who),
        Fault::PauseMember(lasts) => member::pause(scene, who, lasts),
    }
    Ok(())
}
