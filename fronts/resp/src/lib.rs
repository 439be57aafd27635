//! RESP2 and RESP3, the protocol of Redis: each command is a call of a method, or answered by its connection.
//!
//! A command is a row of one table ([`commands`]). What numbers SELECT knows, and what each holds, the server says as
//! [`Databases`]. Commands of an ordered store that follow each other share a batch. It knows no socket and no engine. Its invariants: commands of a connection take effect, and are answered, in
//! their order; and what a web page can send a loopback port ends its connection.
//! Source: redis.io/docs/latest/develop/reference/protocol-spec, redis.io/docs/latest/commands.

mod again;
mod calls;
mod commands;
mod cursors;
mod databases;
mod form;
mod glob;
mod state;

pub use databases::{Database, Databases, Holds, Keys};
pub use state::STATE_BYTES;

use again::Again;
use commands::{Run, find, wrong_number};
use millpond_calls::Service;
use millpond_fronts_answer::Serving;
use millpond_net::{Front, Match, Received, Session, Turn, limited};
use millpond_wire_frame::{Limits, Parsed, RespCommand, RespReply, RespWords, parse_resp, parse_resp_on};
use state::State;
use std::sync::Arc;

/// Lines of the log.
const NOT_RESP: &str = "bytes that are no RESP";
const WEB_PAGE: &str = "HTTP on the RESP port";

/// Words of a command at most, beside those whose words are keys: what answers them may do something for each.
const WORDS_MAX: usize = 256;
/// Characters of an unknown command, and of its arguments together, that its answer quotes, as Redis does.
const QUOTED_MAX: usize = 128;

/// What connections of RESP may use.
#[derive(Debug, Clone)]
pub struct RespOptions {
    /// Sizes of commands.
    pub limits: Limits,
    /// What SELECT knows; as long as the process.
    pub databases: &'static Databases,
    /// Commands of one key that one call may answer: as many as have their place in an answer, however long their values are.
    pub joined_max: u32,
    /// The server's version, for HELLO and INFO.
    pub version: &'static str,
}

/// The front of RESP: a port speaks it alone, because an inline command may begin like anything.
pub fn front<S: Service>(options: RespOptions) -> Front<Serving<S>> {
    let options = Arc::new(options);
    Box::new(move |_| {
        Match::Yes(Box::new(Commands {
            options: Arc::clone(&options),
            state: State::default(),
            again: None,
            left: Left::default(),
            shared_max: usize::MAX,
        }))
    })
}

/// The session of a connection of commands.
struct Commands {
    options: Arc<RespOptions>,
    state: State,
    /// Those of the last call that several shared.
    again: Option<Arc<Again>>,
    left: Left,
    /// Commands that may share the next call.
    shared_max: usize,
}

/// Commands whose call was refused: they go in smaller ones, so that each that fails is found by halves, and those around it
/// still share theirs.
#[derive(Default)]
struct Left {
    bytes: Vec<u8>,
    /// Where the next one begins.
    at: usize,
    /// Commands of the next call at most: half of those of one that was refused, twice those of one that was not.
    shared_max: usize,
}

impl<S: Service> Session<Serving<S>> for Commands {
    fn receive(&mut self, local: &Serving<S>, turn: &mut Turn<'_>, input: &[u8]) -> Received<Serving<S>> {
        if self.has_left() {
            self.serve_left(local, turn);
            return Received::Served(0);
        }
        let (command, len) = match parse_resp_on(input, self.options.limits, &mut self.state.parsed) {
            Ok(Parsed::Whole { message, len }) => (message, len),
            Ok(Parsed::Partial { needed }) => return Received::More(needed),
            Err(error) => {
                limited!(info, turn.counters().quiet, NOT_RESP, [peer = %turn.peer(), %error], "connection closed: not RESP");
                self.fail(turn, &format!("ERR Protocol error: {error}"));
                return Received::Malformed;
            }
        };
        let name = command.words().next().unwrap_or_default();
        if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") {
            // A page of any site can have a browser send a form here: what follows its head would be commands.
            limited!(warn, turn.counters().quiet, WEB_PAGE, [peer = %turn.peer()], "connection closed: HTTP on the RESP port");
            return Received::Malformed;
        }
        let was_queueing = self.state.queued.is_some();
        let len = len + self.serve(local, turn, &command, input.split_at(len));
        match was_queueing && self.state.queued.is_some() {
            // A transaction is one request, whose time counts from MULTI.
            true => Received::Piece(len),
            false => Received::Served(len),
        }
    }

    fn is_full(&self, in_flight: usize) -> bool {
        // The next command may depend on this one.
        in_flight > 0
    }

    fn resumes(&self, in_flight: usize) -> bool {
        in_flight == 0 && self.has_left()
    }

    fn resume(&mut self, local: &Serving<S>, turn: &mut Turn<'_>) {
        self.serve_left(local, turn);
    }

    fn is_partial(&self) -> bool {
        self.state.queued.is_some()
    }

    fn held_bytes(&self) -> usize {
        // What is kept of a call that is on its way is bounded, and served.
        let queued = self.state.queued.as_ref();
        self.left.bytes.capacity() + queued.map_or(0, |queued| queued.held_bytes())
    }

    fn refuse(&mut self, turn: &mut Turn<'_>, _: &[u8], why: &str) {
        // An answer that is outstanding is the last one.
        if turn.in_flight() == 0 {
            self.fail(turn, &format!("OVERLOADED {why}"));
        }
        (self.state.queued, self.again, self.left) = (None, None, Left::default());
    }
}

impl Commands {
    /// Answers an error.
    fn fail(&self, turn: &mut Turn<'_>, text: &str) {
        let start = turn.out().len();
        RespReply::new(turn.out(), self.state.version).error(text);
        turn.finish(start);
    }

    /// The same for a command that a transaction may not miss.
    fn spoil(&mut self, turn: &mut Turn<'_>, text: &str) {
        if let Some(queued) = &mut self.state.queued {
            queued.spoil();
        }
        self.fail(turn, text);
    }

    /// Whether commands are to go again.
    fn has_left(&self) -> bool {
        !self.left.bytes.is_empty() || self.again.as_ref().is_some_and(|again| again.is_due())
    }

    /// Makes the next call of them.
    fn serve_left<S: Service>(&mut self, local: &Serving<S>, turn: &mut Turn<'_>) {
        let refused = self.again.as_ref().and_then(|again| again.take());
        let mut left = std::mem::take(&mut self.left);
        if let Some((bytes, count)) = refused {
            left.take_back(bytes, count);
        }
        let rest = left.bytes.get(left.at..).unwrap_or_default();
        if let Ok(Parsed::Whole { message, len }) = parse_resp(rest, self.options.limits) {
            self.shared_max = left.shared_max;
            let len = len + self.serve(local, turn, &message, rest.split_at(len));
            self.shared_max = usize::MAX;
            left.at += len;
            left.shared_max = left.shared_max.saturating_mul(2);
            if left.at < left.bytes.len() {
                self.left = left;
            }
        }
    }

    /// Serves a command, given its bytes and those behind it; returns how many of these were commands that it has answered too.
    fn serve<S: Service>(
        &mut self,
        local: &Serving<S>,
        turn: &mut Turn<'_>,
        command: &RespCommand<'_>,
        bytes: (&[u8], &[u8]),
    ) -> usize {
        let mut words = command.words();
        let Some(name) = words.next() else {
            return 0;
        };
        match find(name) {
            None => self.spoil(turn, &unknown(name, words)),
            Some(row) if !row.takes(command.len()) => {
                let error = wrong_number(row.name);
                match row.run {
                    // Whatever its words, it ends its transaction.
                    Run::Exec => {
                        self.state.queued = None;
                        let why = error.trim_start_matches("ERR ");
                        self.fail(
                            turn,
                            &format!("EXECABORT Transaction discarded because of: {why}"),
                        );
                    }
                    _ => self.spoil(turn, &error),
                }
            }
            Some(row) => return self.run(local, turn, row, command, bytes),
        }
        0
    }
}

impl Left {
    /// Takes commands whose call was refused; where there are others, they stood before these.
    fn take_back(&mut self, bytes: Vec<u8>, count: usize) {
        match self.bytes.is_empty() {
            true => (self.bytes, self.at) = (bytes, 0),
            false => self.at = self.at.saturating_sub(bytes.len()),
        }
        self.shared_max = (count / 2).max(1);
    }
}

/// What Redis says of a command that it does not know.
fn unknown(name: &[u8], words: RespWords<'_>) -> String {
    let shown = |word: &[u8], most: usize| {
        let word = word.get(..most).unwrap_or(word);
        String::from_utf8_lossy(word).into_owned()
    };
    let mut arguments = String::new();
    for word in words {
        if arguments.len() >= QUOTED_MAX {
            break;
        }
        let left = QUOTED_MAX - arguments.len();
        arguments.push_str(&format!("'{}' ", shown(word, left)));
    }
    format!(
        "ERR unknown command '{}', with args beginning with: {arguments}",
        shown(name, QUOTED_MAX)
    )
}
