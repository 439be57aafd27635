//! The process ends when told: by SIGTERM within `drain_ms_max` and a second, by kill -9 with all its processes.

use crate::configuration::DRAIN_MAX;
use crate::finding::Broken;
use crate::scene::{Scene, Truth};
use crate::server::{ended_by, runs};
use crate::tally::{Counted, Tally, Word};
use rustix::process::Signal;
use std::process::ExitStatus;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What a stop may take beyond `drain_ms_max`.
const BEYOND_DRAIN: Duration = Duration::from_secs(1);
/// Then it counts as never.
const NEVER: Duration = Duration::from_secs(20);
/// Processes that are left by their parent end by themselves.
const ORPHANS_MAX: Duration = Duration::from_secs(5);

/// SIGTERM, and the end.
pub fn terminate(scene: &Scene<'_>) {
    let members = scene.server.members();
    scene.expect(Truth::NotReady);
    let began = Instant::now();
    scene.server.signal(Signal::TERM);
    let limit = DRAIN_MAX + BEYOND_DRAIN * scene.settings.generosity;
    match scene.server.wait(limit + NEVER) {
        None => {
            scene.tell(
                Broken::Stop,
                format!("it runs {} ms after SIGTERM", began.elapsed().as_millis()),
            );
            scene.server.signal(Signal::KILL);
            let _ = scene.server.wait(NEVER);
        }
        Some(status) => {
            let took = began.elapsed();
            Tally::raise_ms(&scene.tally.stop_ms_max, took);
            if took > limit {
                scene.tell(
                    Broken::Stop,
                    format!(
                        "the stop took {} ms; {} are allowed",
                        took.as_millis(),
                        limit.as_millis()
                    ),
                );
            }
            explain(scene, status);
        }
    }
    if let Some(left) = members.iter().find(|member| runs(**member)) {
        scene.tell(Broken::Stop, format!("process {left:?} runs after the stop"));
    }
}

/// A status other than success has to have a reason: calls that were not finished in time, or a disk that failed.
fn explain(scene: &Scene<'_>, status: ExitStatus) {
    let said = std::fs::read_to_string(&scene.server.stderr).unwrap_or_default();
    let is_explained = said.contains("unfinished call") || scene.disk_failed.load(Ordering::SeqCst);
    if !status.success() && (status.code().is_none() || !is_explained) {
        scene.tell(Broken::Stop, format!("it stopped with {status}: {}", said.trim()));
    }
}

/// kill -9, and the end of all its processes.
pub fn kill(scene: &Scene<'_>) {
    let members = scene.server.members();
    scene.expect(Truth::Unknown);
    scene.tally.count(Counted::Fault(Word::Kill));
    scene.server.signal(Signal::KILL);
    match scene.server.wait(NEVER) {
        Some(status) if ended_by(status, Signal::KILL) => {}
        Some(status) => scene.tell(
            Broken::Died,
            format!("before it was killed it ended with {status}"),
        ),
        None => scene.tell(Broken::Stop, "it runs after kill -9"),
    }
    let until = Instant::now() + ORPHANS_MAX * scene.settings.generosity;
    while let Some(left) = members.iter().find(|member| runs(**member)) {
        if Instant::now() > until {
            scene.tell(
                Broken::Stop,
                format!("process {left:?} runs after its parent was killed"),
            );
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
