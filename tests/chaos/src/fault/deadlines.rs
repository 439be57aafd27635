//! Callers whose deadlines have passed when they call, or pass while they wait for the model.

use crate::finding::Broken;
use crate::front::{Answer, Came, Front};
use crate::load::TRY_AGAIN;
use crate::scene::Scene;
use crate::tally::Tally;
use rand::RngExt;
use serde_json::json;

pub(super) fn run(scene: &Scene<'_>, who: u64, count: u32) {
    let mut random = scene.generator(who);
    for _ in 0..count * 2 {
        let front = Front::any(&mut random);
        let Ok(mut connection) = scene.connect(front, &mut random) else {
            continue;
        };
        let calls: Vec<_> = (0..random.random_range(1..60))
            .map(|_| {
                let deadline = random.random_range(0..4);
                let input = json!({"shape": [1, 1], "type": "f32", "data": [1]});
                ("infer", json!({"inputs": {"x": input}, "_deadline_ms": deadline}))
            })
            .collect();
        Tally::add(&scene.tally.calls, calls.len() as u64);
        if connection.send(calls).is_err() {
            continue;
        }
        while connection.owed() > 0 {
            match connection.receive() {
                Came::Answer(_, Answer::Good(_)) => Tally::add(&scene.tally.answered, 1),
                Came::Answer(_, Answer::Error(code, _)) if TRY_AGAIN.contains(&code) => {
                    Tally::add(&scene.tally.refused, 1);
                }
                Came::Answer(_, Answer::Error(code, ex)) => {
                    scene.tell(
                        Broken::Answer,
                        format!("a late call over {front} was refused with {code}: {ex}"),
                    );
                }
                Came::Closed => {
                    Tally::add(&scene.tally.closed, connection.owed() as u64);
                    break;
                }
                Came::Nothing => {
                    scene.tell(
                        Broken::Answer,
                        format!("a late call over {front} was never answered"),
                    );
                    break;
                }
                Came::Wrong(wrong) => {
                    scene.tell(Broken::Answer, format!("a late call over {front}: {wrong}"));
                    break;
                }
            }
        }
        if scene.is_over() {
            return;
        }
    }
}
