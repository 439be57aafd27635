//! SIGSTOP: the process stands still with everything it holds; its sockets stay open.

use crate::scene::{Scene, Truth};
use rustix::process::Signal;
use std::time::Duration;

pub(super) fn run(scene: &Scene<'_>, lasts: Duration) {
    // Several processes: the parent alone stands still, and its members serve on.
    scene.expect(Truth::NotReady);
    scene.server.signal(Signal::STOP);
    scene.sleep(lasts);
    scene.server.signal(Signal::CONT);
    scene.expect(Truth::Ready);
}
