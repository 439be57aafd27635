//! SIGSTOP: the process stands still with everything it holds; its sockets stay open.

use crate::scene::{Scene, Truth};
use rustix::process::Signal;
use std::time::Duration;

pub(super) fn run(scene: &Scene<'_>, lasts: Duration) {
    // Several processes: the parent alone stands still, and its members serve on.
    let (before, _) = scene.truth();
    scene.expect(Truth::NotReady);
    scene.server.signal(Signal::STOP);
    scene.sleep(lasts);
    // What it answers first may be from before.
    scene.expect(Truth::Unknown);
    scene.server.signal(Signal::CONT);
    scene.expect(before);
}
