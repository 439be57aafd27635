//! Mixed load on ordered stores: writes of every kind whose answers are exact, reads both ways that show nothing else, and checkpoints.

use super::{DISK, TRY_AGAIN};
use crate::configuration::TOKEN;
use crate::finding::{Broken, Findings};
use crate::front::{Answer, Came, Connection, Front};
use crate::load::text;
use crate::mixed::read::{NoAnswer, ask, items, now_ms, over, scan};
use crate::mixed::{Book, Cell, Lane, SHARED, TOGETHER, Value, prefix, together, together_key, write};
use crate::plan::generator;
use crate::scene::ANSWER_MAX;
use crate::server::Server;
use crate::tally::Tally;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rustls::ClientConfig;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The write may be there after a restart.
const OUTCOME_UNKNOWN: u64 = super::writers::OUTCOME_UNKNOWN;
const CONFLICT: u64 = 30112;
/// The store follows another: nothing was written.
const NOT_LEADER: u64 = 30115;
/// No follower has what was written before: nothing was written.
const NO_FOLLOWER: u64 = 30116;

/// What the load of one store needs of a round.
#[derive(Clone, Copy)]
pub struct Ground<'r> {
    /// The server.
    pub server: &'r Server,
    /// TLS clients.
    pub tls: &'r Arc<ClientConfig>,
    /// What is found.
    pub findings: &'r Findings,
    /// What is counted.
    pub tally: &'r Tally,
    /// What is known of the store.
    pub book: &'r Book,
    /// The round is over.
    pub over: &'r AtomicBool,
    /// The disk was made to fail.
    pub disk_failed: &'r AtomicBool,
    /// The store has followers: it may be led by another server by now, or wait for one.
    pub may_move: bool,
    /// The server follows another: what it shows may be some way behind, and does not have to stay.
    pub is_follower: bool,
    /// Writers pause up to so long.
    pub pause_ms_max: u64,
    /// The round's own seed.
    pub seed: u64,
}

impl Ground<'_> {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn sleep(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.is_over() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2).min(until - Instant::now()));
        }
    }

    fn tell(&self, broken: Broken, seen: impl std::fmt::Display) {
        self.findings.tell(broken, format!("{}: {seen}", self.book.table));
    }

    /// A connection by any front; a moment later where there is none.
    fn connect(&self, random: &mut StdRng) -> Option<Connection> {
        let opened = Connection::open(Front::any(random), self.server, self.tls, ANSWER_MAX, random);
        if opened.is_err() {
            self.sleep(Duration::from_millis(10));
        }
        opened.ok()
    }

    /// What a read was answered; an answer that nothing explains is told. `Err` says whether the connection can go on.
    fn good<T>(&self, answer: Result<T, NoAnswer>) -> Result<T, bool> {
        Tally::add(&self.tally.calls, 1);
        let (counted, ended) = match answer {
            Ok(answer) => {
                Tally::add(&self.tally.answered, 1);
                return Ok(answer);
            }
            Err(NoAnswer::Refused) => (&self.tally.refused, true),
            Err(NoAnswer::Closed) => (&self.tally.closed, false),
            Err(NoAnswer::Wrong(wrong)) => {
                self.tell(Broken::Answer, wrong);
                (&self.tally.refused, false)
            }
        };
        Tally::add(counted, 1);
        Err(ended)
    }

    /// An error that nothing in this round explains is a finding.
    fn explain(&self, code: u64, ex: &str) {
        let is_disk = DISK.contains(&code) && self.disk_failed.load(Ordering::SeqCst);
        let has_moved = self.may_move && [NOT_LEADER, NO_FOLLOWER, OUTCOME_UNKNOWN].contains(&code);
        if !TRY_AGAIN.contains(&code) && !is_disk && !has_moved {
            self.tell(Broken::Answer, format!("a write was refused with {code}: {ex}"));
        }
    }
}

/// Writes until the round is over, on lanes that nobody else writes.
pub fn write_mixed(ground: Ground<'_>, writer: u64) {
    let mut random = generator(ground.seed, 3000 + writer);
    let mut lane = ground.book.take();
    while !ground.is_over() {
        let Some(mut connection) = ground.connect(&mut random) else {
            continue;
        };
        for _ in 0..random.random_range(1..200) {
            ground.sleep(Duration::from_millis(
                random.random_range(0..=ground.pause_ms_max),
            ));
            let goes_on = !ground.is_over()
                && match random.random_range(0..20) {
                    0..8 => read_own(ground, &mut connection, &lane, &mut random),
                    8 => add(ground, &mut connection),
                    _ => write_one(ground, &mut connection, &mut lane, &mut random),
                };
            if !goes_on {
                break;
            }
        }
        if lane.is_in_doubt() {
            ground
                .book
                .give_back(std::mem::replace(&mut lane, ground.book.take()));
        }
    }
    ground.book.give_back(lane);
}

/// Writes once and says with which code that was refused, or 0; `None` where it has no answer.
pub(crate) fn probe(ground: Ground<'_>, connection: &mut Connection, random: &mut StdRng) -> Option<u64> {
    let mut lane = ground.book.take();
    let became = write_on(ground, connection, &mut lane, random, true);
    ground.book.give_back(lane);
    match became {
        Became::Answered(_) => Some(0),
        Became::Conflict => Some(CONFLICT),
        Became::Refused(code) => Some(code),
        Became::Unknown(goes_on) => goes_on.then_some(OUTCOME_UNKNOWN),
    }
}

/// What became of a write.
enum Became {
    Answered(Json),
    Conflict,
    /// With that code: nothing was written.
    Refused(u64),
    /// Nobody knows; whether the connection can go on.
    Unknown(bool),
}

fn send(ground: Ground<'_>, connection: &mut Connection, (method, payload): (&'static str, Json)) -> Became {
    Tally::add(&ground.tally.calls, 1);
    let wrong = match connection.call(method, payload) {
        Came::Answer(_, Answer::Good(answer)) => {
            Tally::add(&ground.tally.answered, 1);
            if answer["durability"] != ground.book.durability {
                ground.tell(Broken::Answer, format!("{method} was answered {answer:.200}"));
            }
            return Became::Answered(answer);
        }
        Came::Answer(_, Answer::Error(CONFLICT, _)) => {
            Tally::add(&ground.tally.answered, 1);
            return Became::Conflict;
        }
        Came::Answer(_, Answer::Error(code, ex)) => {
            Tally::add(&ground.tally.refused, 1);
            ground.explain(code, &ex);
            return match code {
                OUTCOME_UNKNOWN => Became::Unknown(true),
                _ => Became::Refused(code),
            };
        }
        Came::Closed => {
            Tally::add(&ground.tally.closed, 1);
            return Became::Unknown(false);
        }
        Came::Nothing => "was never answered".to_owned(),
        Came::Wrong(wrong) => wrong,
    };
    ground.tell(
        Broken::Answer,
        format!("{method} over {}: {wrong}", connection.front()),
    );
    Became::Unknown(false)
}

/// Whether the connection and the lane can go on.
fn write_one(ground: Ground<'_>, connection: &mut Connection, lane: &mut Lane, random: &mut StdRng) -> bool {
    let is_together = random.random_ratio(1, 3);
    let became = write_on(ground, connection, lane, random, is_together);
    !matches!(became, Became::Unknown(_))
}

/// One write on a lane, of the keys that are written together or of any, and what became of it; an answer that is not what it has to be
/// counts as none.
fn write_on(
    ground: Ground<'_>,
    connection: &mut Connection,
    lane: &mut Lane,
    random: &mut StdRng,
    is_together: bool,
) -> Became {
    lane.made += 1;
    let write = match is_together {
        true => together(random, lane.number, lane.made),
        false => write(random, lane.number, lane.made, &lane.cells),
    };
    let call = write.call(ground.book.table);
    if is_together {
        lane.together.begun.store(lane.made, Ordering::SeqCst);
    }
    let expected = lane.begin(write);
    let became = send(ground, connection, call);
    match &became {
        Became::Answered(answer) => {
            Tally::add(&ground.tally.mixed, 1);
            if let Err(wrong) = lane.acknowledged(answer) {
                ground.tell(Broken::PutWrong, format!("lane {}: {wrong}", lane.number));
                return Became::Unknown(false);
            }
            if is_together {
                lane.together.acknowledged.store(lane.made, Ordering::SeqCst);
            }
        }
        Became::Conflict => {
            lane.refused();
            if expected.is_some() {
                let seen = format!("lane {}: a condition that holds was refused", lane.number);
                ground.tell(Broken::PutWrong, seen);
            }
        }
        Became::Refused(_) => lane.refused(),
        Became::Unknown(_) => {}
    }
    became
}

/// Adds one to the counter of all. Whether the connection can go on.
fn add(ground: Ground<'_>, connection: &mut Connection) -> bool {
    let before = ground.book.begin_adding();
    let call = json!({"table": ground.book.table, "key": SHARED, "by": 1});
    match send(ground, connection, ("ordered.increment", call)) {
        Became::Answered(answer) => {
            Tally::add(&ground.tally.mixed, 1);
            if let Err(wrong) = ground.book.added(before, answer["value"].as_u64().unwrap_or(0)) {
                ground.tell(Broken::PutWrong, wrong);
            }
            true
        }
        Became::Conflict => {
            ground.tell(Broken::PutWrong, "an increment met a conflict");
            true
        }
        Became::Refused(_) => {
            ground.book.not_added();
            true
        }
        Became::Unknown(goes_on) => goes_on,
    }
}

/// Reads a lane that nobody else writes: it is what was acknowledged. Whether the connection can go on.
fn read_own(ground: Ground<'_>, connection: &mut Connection, lane: &Lane, random: &mut StdRng) -> bool {
    let table = ground.book.table;
    let keys: Vec<&String> = lane.cells.keys().collect();
    let Some(key) = keys.choose(random) else {
        return true;
    };
    let began_ms = now_ms();
    let wrong = match (
        &lane.cells.get(*key).map(|cell| &cell.value),
        random.random::<bool>(),
    ) {
        (Some(Value::List(expected)), true) => match ground.good(items(connection, table, key)) {
            Err(goes_on) => return goes_on,
            Ok(found) => (found != *expected).then(|| format!("{key} has {found:?}, not {expected:?}")),
        },
        (Some(Value::Bytes(_)), true) => {
            let absent = format!("{}none", prefix(lane.number));
            let call = json!({"table": table, "keys": [key, absent]});
            match ground.good(ask(connection, "ordered.get", call)) {
                Err(goes_on) => return goes_on,
                Ok(answer) => got(&answer, lane.cells.get(*key), began_ms),
            }
        }
        _ => {
            let (limit, is_reverse) = (random.random_range(1..12), random.random());
            match ground.good(scan(connection, table, &prefix(lane.number), limit, is_reverse)) {
                Err(goes_on) => return goes_on,
                Ok(mut scanned) => {
                    if is_reverse {
                        scanned.reverse();
                    }
                    walked(&scanned, lane, began_ms)
                }
            }
        }
    };
    if let Some(wrong) = wrong {
        ground.tell(Broken::PutWrong, format!("lane {} is read: {wrong}", lane.number));
        return false;
    }
    true
}

/// What is wrong with the answer to a get of a key, and of one that is never there.
fn got(answer: &Json, cell: Option<&Cell>, began_ms: u64) -> Option<String> {
    let (may_be_over, must_be) = over(cell?.expires, began_ms, now_ms());
    let (value, version) = (text(&answer["values"][0]), answer["versions"][0].as_u64());
    let is_right = match (&cell?.value, value) {
        (_, None) => may_be_over && version == Some(0),
        (Value::Bytes(expected), Some(value)) => {
            value == *expected && !must_be && cell?.version.is_none_or(|known| version == Some(known))
        }
        (Value::List(_), Some(_)) => false,
    };
    let is_none = answer["values"][1].is_null() && answer["versions"][1] == 0;
    (!is_right || !is_none).then(|| format!("{answer:.200} is no answer to {cell:.200?}"))
}

/// What is wrong with a scan of a lane.
fn walked(scanned: &[(String, Option<String>)], lane: &Lane, began_ms: u64) -> Option<String> {
    let ended_ms = now_ms();
    let mut found = scanned.iter().peekable();
    for (key, cell) in &lane.cells {
        let (may_be_over, must_be) = over(cell.expires, began_ms, ended_ms);
        match found.next_if(|(found, _)| found == key) {
            None if may_be_over => {}
            None => return Some(format!("a scan passes over {key}")),
            Some(_) if must_be => return Some(format!("a scan shows {key}, which has expired")),
            Some((_, value)) => {
                let is_same = match &cell.value {
                    Value::Bytes(expected) => value.as_ref() == Some(expected),
                    Value::List(_) => value.is_none(),
                };
                if !is_same {
                    return Some(format!(
                        "a scan shows {value:.60?} of {key}, which holds {:.60?}",
                        cell.value
                    ));
                }
            }
        }
    }
    found
        .next()
        .map(|(key, _)| format!("a scan shows {key}, which is not there"))
}

/// Reads what others write together, until the round is over: no part of a write, nothing older than what was acknowledged, and nothing that
/// was not sent.
pub fn read_mixed(ground: Ground<'_>, reader: u64) {
    let mut random = generator(ground.seed, 4000 + reader);
    while !ground.is_over() {
        let Some(mut connection) = ground.connect(&mut random) else {
            continue;
        };
        for _ in 0..random.random_range(1..200) {
            ground.sleep(Duration::from_millis(1));
            let watched = ground.book.watched();
            let Some(lane) = watched.choose(&mut random) else {
                continue;
            };
            let keys: Vec<String> = (0..TOGETHER).map(|at| together_key(lane.lane, at)).collect();
            let acknowledged = lane.acknowledged.load(Ordering::SeqCst);
            let least = if ground.is_follower { 0 } else { acknowledged };
            let call = json!({"table": ground.book.table, "keys": keys});
            if ground.is_over() {
                break;
            }
            match ground.good(ask(&mut connection, "ordered.get", call)) {
                Err(true) => {}
                Err(false) => break,
                Ok(answer) => {
                    let most = lane.begun.load(Ordering::SeqCst);
                    let values = answer["values"].as_array().map(Vec::as_slice).unwrap_or_default();
                    let numbers: Vec<u64> = values
                        .iter()
                        .map(|value| text(value).and_then(|text| text.parse().ok()).unwrap_or(0))
                        .collect();
                    let first = numbers.first().copied().unwrap_or(u64::MAX);
                    let is_whole =
                        numbers.len() == keys.len() && numbers.iter().all(|number| *number == first);
                    if !is_whole || first < least || first > most {
                        let broken = if is_whole && first < least {
                            Broken::PutLost
                        } else {
                            Broken::PutWrong
                        };
                        let seen = format!(
                            "lane {} shows {numbers:?} at once; {least} was acknowledged, {most} sent",
                            lane.lane
                        );
                        ground.tell(broken, seen);
                        return;
                    }
                    if !ground.is_follower {
                        lane.seen.fetch_max(first, Ordering::SeqCst);
                    }
                }
            }
        }
    }
}

/// Asks for checkpoints until the round is over, beside those that come by themselves.
pub fn checkpoint(ground: Ground<'_>) {
    let mut random = generator(ground.seed, 5000);
    while !ground.is_over() {
        ground.sleep(Duration::from_millis(random.random_range(0..60)));
        let Some(mut connection) = ground.connect(&mut random) else {
            continue;
        };
        let call = json!({"table": ground.book.table, "_token": TOKEN});
        if ground.is_over() {
            break;
        }
        Tally::add(&ground.tally.calls, 1);
        match connection.call("ordered.checkpoint", call) {
            Came::Answer(_, Answer::Good(_)) => {
                Tally::add(&ground.tally.answered, 1);
                Tally::add(&ground.tally.checkpoints, 1);
            }
            // One is being written already, or the disk is full.
            Came::Answer(_, Answer::Error(code, ex)) => {
                Tally::add(&ground.tally.refused, 1);
                let is_disk = ground.disk_failed.load(Ordering::SeqCst);
                if !TRY_AGAIN.contains(&code) && code != CONFLICT && !is_disk {
                    ground.tell(
                        Broken::Answer,
                        format!("a checkpoint was refused with {code}: {ex}"),
                    );
                }
            }
            Came::Closed => Tally::add(&ground.tally.closed, 1),
            Came::Nothing => ground.tell(Broken::Answer, "a checkpoint was never answered"),
            Came::Wrong(wrong) => ground.tell(Broken::Answer, format!("a checkpoint: {wrong}")),
        }
    }
}
