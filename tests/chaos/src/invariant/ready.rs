//! `/readyz` tells the truth within two seconds.
//!
//! The truth is what the campaign has done, or what a call beside shows; no answer is as good as "not ready".

use crate::finding::Broken;
use crate::load::DISK;
use crate::scene::{Scene, Truth};
use crate::tally::{Counted, Tally};
use std::time::{Duration, Instant};

/// How long it may lie.
const LIE_MAX: Duration = Duration::from_secs(2);
const EVERY: Duration = Duration::from_millis(50);
/// A monitor that waits no longer takes silence for "not ready".
const PATIENCE: Duration = Duration::from_millis(500);
/// A store that refuses puts for so long after its disk is well again does not take any before a restart.
const PROBE: Duration = Duration::from_millis(1000);

/// Whether it says so now.
pub fn is_ready(scene: &Scene<'_>) -> bool {
    matches!(scene.server.admin_get("/readyz", PATIENCE), Ok((200, _)))
}

/// Waits until something holds; whether it does within the limit.
pub fn wait(scene: &Scene<'_>, limit: Duration, holds: impl Fn() -> bool) -> bool {
    let until = Instant::now() + limit * scene.settings.generosity;
    while !holds() {
        if Instant::now() > until || scene.is_over() {
            return false;
        }
        scene.sleep(EVERY);
    }
    true
}

/// Asks until the round is over, and tells of each lie that lasts.
pub fn watch(scene: &Scene<'_>) {
    let limit = LIE_MAX * scene.settings.generosity;
    let mut told = None;
    // Since when each answer is a lie, and of which truth.
    let mut lying: Option<(Instant, Instant)> = None;
    while !scene.is_over() {
        let (asked, began) = (scene.truth(), Instant::now());
        let is_ready = is_ready(scene);
        let (truth, since) = scene.truth();
        let lies = match truth {
            Truth::Ready => !is_ready,
            Truth::NotReady => is_ready,
            Truth::Unknown => false,
        };
        // What changed while it was asked may be answered either way.
        if !lies || asked != (truth, since) {
            lying = None;
        } else if scene.server.ended().is_none() {
            let first = match lying {
                Some((of, first)) if of == since => first,
                _ => began,
            };
            lying = Some((since, first));
            let lie = first.elapsed();
            Tally::raise_ms(&scene.tally.lie_ms_max, lie);
            if lie > limit && told != Some(since) {
                told = Some(since);
                let says = if is_ready {
                    "ready"
                } else {
                    "not ready, or nothing"
                };
                scene.tell(
                    Broken::Ready,
                    format!(
                        "/readyz says {says} for {} ms, {} ms after {truth:?} began",
                        lie.as_millis(),
                        since.elapsed().as_millis()
                    ),
                );
            }
        }
        scene.sleep(EVERY);
    }
}

/// The disk is well again: a put that is taken shows that the server is ready, and one that is still refused that it is not.
pub(crate) fn after_disk(scene: &Scene<'_>) {
    let mut random = scene.generator(9000);
    let began = Instant::now();
    while !scene.is_over() && scene.server.ended().is_none() {
        let code = scene.probe(&mut random);
        if code == Some(0) {
            return scene.expect(Truth::Ready);
        }
        let is_refused = code.is_some_and(|code| DISK.contains(&code));
        if is_refused && began.elapsed() > PROBE {
            scene.tally.count(Counted::ReadOnlyStore);
            return scene.expect(Truth::NotReady);
        }
        if began.elapsed() > PROBE * 10 * scene.settings.generosity {
            let seen = format!("puts are refused with {code:?} after the disk is well again");
            return scene.tell(Broken::Service, seen);
        }
        scene.sleep(EVERY);
    }
}
