//! RESP2 and RESP3, the protocol of Redis: each command is a call of a method, or answered by its connection.
//!
//! A command is a row of one table ([`commands`]). What numbers SELECT knows, and what each holds, the server says as
//! [`Databases`]. It knows no socket and no engine. Its invariants: commands of a connection take effect, and are answered, in
//! their order; and what a web page can send a loopback port ends its connection.
//! Source: redis.io/docs/latest/develop/reference/protocol-spec, redis.io/docs/latest/commands.

mod commands;
mod databases;
mod form;
mod glob;
mod state;

pub use databases::{Database, Databases, Holds, Keys};
pub use state::STATE_BYTES;

use commands::{Asked, Here, Row, Run, find};
use form::Form;
use millpond_calls::{Call, Service};
use millpond_fronts_answer::{Serving, serve};
use millpond_net::{Front, Match, Received, Session, Turn, limited};
use millpond_wire_frame::{
    Encoding, Limits, Parsed, RespCommand, RespReply, RespWords, parse_resp, parse_resp_on,
};
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
        }))
    })
}

/// The session of a connection of commands.
struct Commands {
    options: Arc<RespOptions>,
    state: State,
}

impl<S: Service> Session<Serving<S>> for Commands {
    fn receive(&mut self, local: &Serving<S>, turn: &mut Turn<'_>, input: &[u8]) -> Received<Serving<S>> {
        let (command, len) = match parse_resp_on(input, self.options.limits, &mut self.state.parsed) {
            Ok(Parsed::Whole { message, len }) => (message, len),
            Ok(Parsed::Partial { needed }) => return Received::More(needed),
            Err(error) => {
                limited!(info, turn.counters().quiet, NOT_RESP, [peer = %turn.peer(), %error], "connection closed: not RESP");
                self.fail(turn, &format!("ERR Protocol error: {error}"));
                return Received::Malformed;
            }
        };
        let mut words = command.words();
        let Some(name) = words.next() else {
            return Received::Served(len);
        };
        if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") {
            // A page of any site can have a browser send a form here: what follows its head would be commands.
            limited!(warn, turn.counters().quiet, WEB_PAGE, [peer = %turn.peer()], "connection closed: HTTP on the RESP port");
            return Received::Malformed;
        }
        match find(name) {
            None => {
                let text = unknown(name, words);
                self.fail(turn, &text);
            }
            Some(row) if !row.takes(command.len()) => {
                let text = format!("ERR wrong number of arguments for '{}' command", row.name);
                self.fail(turn, &text);
            }
            Some(row) => {
                let behind = self.run(local, turn, row, &command, input.get(len..).unwrap_or_default());
                return Received::Served(len + behind);
            }
        }
        Received::Served(len)
    }

    fn is_full(&self, in_flight: usize) -> bool {
        // The next command may depend on this one.
        in_flight > 0
    }

    fn refuse(&mut self, turn: &mut Turn<'_>, _: &[u8], why: &str) {
        // An answer that is outstanding is the last one.
        if turn.in_flight() == 0 {
            self.fail(turn, &format!("OVERLOADED {why}"));
        }
    }
}

impl Commands {
    /// Answers an error.
    fn fail(&self, turn: &mut Turn<'_>, text: &str) {
        let start = turn.out().len();
        RespReply::new(turn.out(), self.state.version).error(text);
        turn.finish(start);
    }

    /// Runs a command; returns the bytes of those behind it that its call has answered too.
    fn run<S: Service>(
        &mut self,
        local: &Serving<S>,
        turn: &mut Turn<'_>,
        row: &'static Row,
        command: &RespCommand<'_>,
        behind: &[u8],
    ) -> usize {
        if !matches!(row.run, Run::Keys(_)) && command.len() > WORDS_MAX {
            let text = format!(
                "ERR '{}' has {} words; at most {WORDS_MAX} are read",
                row.name,
                command.len()
            );
            self.fail(turn, &text);
            return 0;
        }
        let mut words = command.words();
        words.next();
        let ask = match &row.run {
            Run::Here(answer) => {
                self.answer_here(local, turn, *answer, words);
                return 0;
            }
            Run::Call(ask) => *ask,
            Run::Keys(_) => match self.options.databases.get(self.state.database) {
                Err(text) => {
                    self.fail(turn, &text);
                    return 0;
                }
                Ok(database) => match row.ask_of(database.holds) {
                    Some(ask) => ask,
                    None => {
                        self.fail(turn, &row.not_served(database));
                        return 0;
                    }
                },
            },
        };
        let mut payload = std::mem::take(turn.scratch);
        payload.clear();
        let used = self.call(local, turn, row, ask, words, behind, &mut payload);
        *turn.scratch = payload;
        used
    }

    /// Makes the one call of a command, or of several in a row.
    #[expect(clippy::too_many_arguments, reason = "each is of another owner")]
    fn call<S: Service>(
        &mut self,
        local: &Serving<S>,
        turn: &mut Turn<'_>,
        row: &'static Row,
        ask: commands::Ask,
        words: RespWords<'_>,
        behind: &[u8],
        payload: &mut Vec<u8>,
    ) -> usize {
        let databases = self.options.databases;
        let mut asking = commands::Asking {
            database: databases.find(self.state.database),
            payload,
            block: 0,
            keys: 0,
            scanned: &self.state.scanned,
        };
        let mut asked = match ask(&mut asking, words) {
            Ok(asked) => asked,
            Err(text) => {
                self.fail(turn, &text);
                return 0;
            }
        };
        let used = match row.join {
            Some(join) => self.join(row, join, &mut asking, &mut asked, behind),
            None => 0,
        };
        let form = Form {
            version: self.state.version,
            with_token: self.state.token.is_some(),
            database: asking.database,
            databases,
            server_version: self.options.version,
            asked,
        };
        let payload = &*asking.payload;
        let mut call: Call<'_> = local.call(turn, form.asked.method, Encoding::Msgpack, payload);
        call.meta.token = self.state.token.as_deref();
        serve(turn, form, None, |reply| local.service.call(&call, reply));
        used
    }

    /// Takes commands of the same row behind one into its call, as long as they are whole and mean one key more each.
    fn join(
        &self,
        row: &'static Row,
        join: commands::Join,
        asking: &mut commands::Asking<'_>,
        asked: &mut Asked,
        behind: &[u8],
    ) -> usize {
        let mut used = 0;
        while asked.answers < self.options.joined_max {
            let rest = behind.get(used..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            let Ok(Parsed::Whole { message, len }) = parse_resp(rest, self.options.limits) else {
                break;
            };
            let mut words = message.words();
            let name = words.next().unwrap_or_default();
            if !name.eq_ignore_ascii_case(row.name.as_bytes()) || !row.takes(message.len()) {
                break;
            }
            if !join(asking, words) {
                break;
            }
            asked.answers += 1;
            used += len;
        }
        used
    }

    /// Has the connection answer a command itself.
    fn answer_here<S: Service>(
        &mut self,
        local: &Serving<S>,
        turn: &mut Turn<'_>,
        answer: commands::Answer,
        words: RespWords<'_>,
    ) {
        if let Some(why) = turn.over_limit() {
            return self.fail(turn, &format!("OVERLOADED {why}"));
        }
        let peer = turn.peer();
        if let Err(status) = local.service.admits(peer.0.into()) {
            return self.fail(turn, &format!("NOPERM {}", status.ex));
        }
        let mut here = Here {
            state: &mut self.state,
            options: &self.options,
            login: &|group, token| local.service.login(peer.0.into(), group, token),
            peer,
            connection: turn.connection(),
            ends: false,
        };
        let start = turn.out().len();
        answer(&mut here, words, turn.out());
        let ends = here.ends;
        turn.finish(start);
        if ends {
            turn.close();
        }
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
