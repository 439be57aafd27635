//! One process of several that dies or stands still; its parent starts another, or kills it first.

use crate::finding::Broken;
use crate::invariant::ready;
use crate::scene::{Scene, Truth};
use rand::seq::IndexedRandom;
use rustix::process::{Signal, kill_process};
use std::time::Duration;

/// A successor is started after 10 s at most and is warm soon after.
const RESTARTED_MAX: Duration = Duration::from_secs(20);

/// kill -9: another takes its place.
pub(super) fn kill(scene: &Scene<'_>, who: u64) {
    let before = scene.server.members();
    let Some(&victim) = before.choose(&mut scene.generator(who)) else {
        scene.tell(Broken::Died, "the parent has no processes");
        return;
    };
    scene.expect(Truth::Unknown);
    let _ = kill_process(victim, Signal::KILL);
    let is_replaced = || {
        let now = scene.server.members();
        now.len() == before.len() && !now.contains(&victim) && ready::is_ready(scene)
    };
    if ready::wait(scene, RESTARTED_MAX, is_replaced) {
        scene.expect(Truth::Ready);
    } else if !scene.is_over() && scene.server.ended().is_none() {
        scene.tell(Broken::Service, "a process that was killed was not replaced");
    }
}

/// SIGSTOP: `/readyz` says so. SIGCONT, or the parent has killed it by then: all are ready again.
pub(super) fn pause(scene: &Scene<'_>, who: u64, lasts: Duration) {
    let members = scene.server.members();
    let Some(&victim) = members.choose(&mut scene.generator(who)) else {
        scene.tell(Broken::Died, "the parent has no processes");
        return;
    };
    scene.expect(Truth::NotReady);
    let _ = kill_process(victim, Signal::STOP);
    scene.sleep(lasts);
    scene.expect(Truth::Unknown);
    let _ = kill_process(victim, Signal::CONT);
    if ready::wait(scene, RESTARTED_MAX, || ready::is_ready(scene)) {
        scene.expect(Truth::Ready);
    } else if !scene.is_over() && scene.server.ended().is_none() {
        scene.tell(
            Broken::Service,
            "the processes are not ready after one of them went on",
        );
    }
}
