//! After the faults every front serves as before.

use crate::finding::Broken;
use crate::front::{Answer, Came, Front};
use crate::load::TRY_AGAIN;
use crate::scene::Scene;
use serde_json::json;
use std::time::{Duration, Instant};

/// A call that is refused is made again for so long.
const SERVED_MAX: Duration = Duration::from_secs(10);

/// Calls an echo over every front.
pub fn check(scene: &Scene<'_>) {
    let mut random = scene.generator(8000);
    let until = Instant::now() + SERVED_MAX * scene.settings.generosity;
    for front in (0..Front::COUNT).map(Front::of) {
        let payload = json!({"front": front.to_string()});
        loop {
            let seen = match scene.connect_to_check(front, &mut random) {
                Err(error) => format!("it cannot be connected to: {error}"),
                Ok(mut connection) => match connection.call("echo", payload.clone()) {
                    Came::Answer(_, Answer::Good(answer)) if answer == payload => break,
                    Came::Answer(_, Answer::Error(code, ex)) if TRY_AGAIN.contains(&code) => {
                        format!("{code}: {ex}")
                    }
                    Came::Closed => "it closed the connection".to_owned(),
                    other => {
                        let seen = format!("an echo over {front} after the faults: {other:?}");
                        return scene.tell(Broken::Service, seen);
                    }
                },
            };
            if let Some(status) = scene.server.ended() {
                return scene.tell(Broken::Died, format!("it ended by itself: {status}"));
            }
            if Instant::now() > until {
                let seen = format!("{front} does not serve after the faults: {seen}");
                return scene.tell(Broken::Service, seen);
            }
            scene.sleep(Duration::from_millis(20));
        }
    }
}
