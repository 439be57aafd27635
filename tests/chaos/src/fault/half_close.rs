//! Callers that shut down their sending side and wait for their answers, as `nc -N` does: FIN is no departure.
//!
//! In a WebSocket it is one (RFC 6455), and TLS peers may take a closed direction for the end of both; there nothing is
//! expected but an end.

use crate::finding::Broken;
use crate::front::{Answer, Came, Connection, Front, Protocol};
use crate::load::TRY_AGAIN;
use crate::scene::{Scene, Truth};
use crate::tally::Tally;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::json;

pub(super) fn run(scene: &Scene<'_>, who: u64, count: u32) {
    let mut random = scene.generator(who);
    for _ in 0..count * 2 {
        if scene.is_over() {
            return;
        }
        let front = Front::any(&mut random);
        if let Ok(connection) = scene.connect(front, &mut random) {
            await_answers(scene, connection, &mut random);
        }
    }
}

fn await_answers(scene: &Scene<'_>, mut connection: Connection, random: &mut StdRng) {
    let front = connection.front();
    let truth = scene.truth();
    let calls = random.random_range(1..12);
    let payload = json!({"inputs": {"x": {"shape": [1, 1], "type": "f32", "data": [3]}}});
    if connection
        .send((0..calls).map(|_| ("infer", payload.clone())))
        .is_err()
    {
        return;
    }
    connection.socket().half_close();
    let must_answer = !front.is_tls && !matches!(front.protocol, Protocol::WebSocket(_));
    loop {
        match connection.receive() {
            Came::Answer(_, Answer::Good(_)) => Tally::add(&scene.tally.answered, 1),
            Came::Answer(_, Answer::Error(code, _)) if TRY_AGAIN.contains(&code) => {
                Tally::add(&scene.tally.refused, 1);
            }
            Came::Answer(_, Answer::Error(code, ex)) => {
                if must_answer {
                    scene.tell(
                        Broken::Answer,
                        format!(
                            "a caller over {front} that shut down its sending side was told {code}: {ex}"
                        ),
                    );
                }
            }
            Came::Closed => {
                // Whatever hurts the server meanwhile may close it.
                let was_well = truth.0 == Truth::Ready && scene.truth() == truth && !scene.is_over();
                if must_answer && was_well && connection.owed() > 0 && scene.server.ended().is_none() {
                    let owed = connection.owed();
                    scene.tell(
                        Broken::Answer,
                        format!(
                            "a half-closed connection over {front} was closed with {owed} calls unanswered"
                        ),
                    );
                }
                return;
            }
            Came::Nothing => {
                scene.tell(
                    Broken::Answer,
                    format!(
                        "a half-closed connection over {front} with {} calls was never closed",
                        connection.owed()
                    ),
                );
                return;
            }
            Came::Wrong(wrong) => {
                scene.tell(Broken::Answer, format!("half-closed, over {front}: {wrong}"));
                return;
            }
        }
    }
}
