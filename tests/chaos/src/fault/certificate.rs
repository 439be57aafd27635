//! Certificates that are replaced while connections are made, by good files and by wrong ones.

use crate::finding::Broken;
use crate::front::{Came, Front};
use crate::scene::Scene;
use rand::rngs::StdRng;
use rustix::process::Signal;
use serde_json::json;
use std::time::{Duration, Instant};

/// The files are looked at every two seconds, and at once by SIGHUP; several processes have a parent between.
const TAKEN_MAX: Duration = Duration::from_secs(4);

/// New files: new connections show the new certificate soon.
pub(super) fn renew(scene: &Scene<'_>, who: u64) -> anyhow::Result<()> {
    let mut random = scene.generator(who);
    let before = shown(scene, &mut random);
    scene.authority.renew(scene.folder)?;
    scene.server.signal(Signal::HUP);
    let until = Instant::now() + TAKEN_MAX * scene.settings.generosity;
    while let Some(before) = &before {
        if scene.is_over() || scene.server.ended().is_some() {
            break;
        }
        match shown(scene, &mut random) {
            Some(now) if now != *before => break,
            _ if Instant::now() > until => {
                scene.tell(
                    Broken::Service,
                    "a new certificate is not shown, though SIGHUP was sent",
                );
                break;
            }
            _ => scene.sleep(Duration::from_millis(50)),
        }
    }
    Ok(())
}

/// A certificate without its key: nothing changes. Then good files again.
pub(super) fn spoil(scene: &Scene<'_>, who: u64) -> anyhow::Result<()> {
    let mut random = scene.generator(who);
    scene.authority.spoil(scene.folder)?;
    scene.server.signal(Signal::HUP);
    scene.sleep(Duration::from_millis(200));
    let is_served = shown(scene, &mut random).is_some();
    if !is_served && !scene.is_over() && scene.server.ended().is_none() {
        scene.tell(Broken::Service, "TLS is not served after a wrong certificate");
    }
    scene.authority.renew(scene.folder)?;
    scene.server.signal(Signal::HUP);
    Ok(())
}

/// The certificate of a connection that works.
fn shown(scene: &Scene<'_>, random: &mut StdRng) -> Option<Vec<u8>> {
    // Http over TLS.
    let front = Front::of(6);
    let mut connection = scene.connect(front, random).ok()?;
    match connection.call("*ping", json!({})) {
        Came::Answer(..) => connection.socket().certificate(),
        _ => None,
    }
}
