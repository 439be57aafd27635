//! The table of commands: a row says how a command is called, and what answers it.
//!
//! What reads or writes data is one call of a method: its arguments become the method's map, and the answer's map its reply,
//! for each kind of database that has it. Its invariant: rows stand in the order of their names.

mod client;
mod connection;
mod describe;
mod info;
mod keys;
mod multi;
mod scan;
pub(crate) mod store;
mod table;

pub(crate) use multi::Queued;
pub(crate) use table::ROWS;

use crate::RespOptions;
use crate::again::Again;
use crate::databases::{Database, Databases, Holds};
use crate::form::Form;
use crate::state::{Scanned, State};
use millpond_calls::access::Login;
use millpond_net::RemoteAddr;
use millpond_wire_frame::{RespReply, RespWords};
use millpond_wire_payload::{Payload, Read};
use millpond_wire_schema::Status;
use std::cell::OnceCell;
use std::sync::Arc;
use store::{Compile, Parts};

/// Bytes of the longest name.
const NAME_BYTES_MAX: usize = 16;

/// One command.
pub(crate) struct Row {
    /// In lower case.
    pub(crate) name: &'static str,
    /// Words, the name among them; below zero, at least so many.
    pub(crate) arity: i32,
    /// As Redis names them.
    pub(crate) flags: &'static [&'static str],
    /// Which words are keys: first, last, step; zeros where none is.
    pub(crate) keys: [i32; 3],
    pub(crate) group: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) run: Run,
}

/// What answers a command.
pub(crate) enum Run {
    /// Its connection.
    Here(Answer),
    /// A method, whatever database is selected.
    Call(Ask),
    /// A method by what the selected database holds. A kind without one does not have the command.
    Keys(&'static [Served]),
    /// What was queued behind MULTI.
    Exec,
}

/// How a command is served on what a database holds: by a call of its own, by operations of a batch that others share, or by either.
pub(crate) struct Served {
    pub(crate) kind: Kind,
    pub(crate) ask: Option<Ask>,
    /// Takes the next command of this row into the call of the one before, where their answers can be told apart.
    pub(crate) join: Option<Join>,
    pub(crate) compile: Option<Compile>,
}

impl Served {
    /// The command's own call, if it has one here. A command that may write and can also join a batch uses it only without options
    /// (`GETEX key`).
    pub(crate) fn asks(&self, row: &Row, words: usize) -> Option<Ask> {
        let is_bare = usize::try_from(row.arity.unsigned_abs()) == Ok(words);
        self.ask
            .filter(|_| self.compile.is_none() || !row.writes() || is_bare)
    }
}

/// What a database can hold, without how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Table,
    Store,
}

impl Kind {
    fn of(holds: Holds) -> Kind {
        match holds {
            Holds::Table(_) => Kind::Table,
            Holds::Store => Kind::Store,
        }
    }
}

/// Answers with what the connection knows; given the words behind the name.
pub(crate) type Answer = fn(&mut Here<'_>, RespWords<'_>, &mut Vec<u8>);
/// Writes the map of a call; or says what to answer instead.
pub(crate) type Ask = fn(&mut Asking<'_>, RespWords<'_>) -> Result<Asked, String>;
/// Adds a further command to such a call; false if it cannot, and the call is as it was.
pub(crate) type Join = fn(&mut Asking<'_>, RespWords<'_>) -> bool;
/// Writes the reply of an answer's map.
pub(crate) type Write = fn(&Payload<'_>, &Form, &mut RespReply<'_>) -> Read<()>;

/// Looks a token up: that of the named group, or of any.
pub(crate) type LogIn<'h> = dyn Fn(Option<&str>, &str) -> Result<Login, Status> + 'h;

/// What a command may use that its connection answers.
pub(crate) struct Here<'h> {
    pub(crate) state: &'h mut State,
    pub(crate) options: &'h RespOptions,
    /// What is known of a group's token.
    pub(crate) login: &'h LogIn<'h>,
    pub(crate) peer: RemoteAddr,
    pub(crate) connection: u64,
    /// The connection closes behind the answer.
    pub(crate) ends: bool,
}

impl Here<'_> {
    pub(crate) fn reply<'o>(&self, out: &'o mut Vec<u8>) -> RespReply<'o> {
        RespReply::new(out, self.state.version)
    }
}

/// What a call is made of.
pub(crate) struct Asking<'a> {
    pub(crate) databases: &'static Databases,
    /// What is selected, if that number holds something.
    pub(crate) database: Option<&'static Database>,
    /// The map of the call, empty at first.
    pub(crate) payload: &'a mut Vec<u8>,
    /// Where the keys begin in it.
    pub(crate) block: usize,
    /// Keys so far.
    pub(crate) keys: usize,
    /// What SCAN was answered on the connection.
    pub(crate) scanned: &'a OnceCell<Arc<Scanned>>,
}

/// A call that is ready to be made, and how it is replied.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) method: &'static str,
    pub(crate) write: Write,
    /// Commands that it answers.
    pub(crate) answers: u32,
    /// Keys of a command.
    pub(crate) count: usize,
    /// What the reply needs of the command's words.
    pub(crate) text: Option<Arc<[u8]>>,
    /// Where SCAN keeps what it is answered.
    pub(crate) scanned: Option<Arc<Scanned>>,
    /// The commands of a store's batch.
    pub(crate) parts: Parts,
    /// Where they are kept, if they may go again in smaller calls.
    pub(crate) again: Option<Arc<Again>>,
}

impl Asked {
    pub(crate) fn of(method: &'static str, write: Write) -> Asked {
        Asked {
            method,
            write,
            answers: 1,
            count: 1,
            text: None,
            scanned: None,
            parts: Parts::None,
            again: None,
        }
    }
}

impl Row {
    /// Whether it is called with so many words.
    #[inline]
    pub(crate) fn takes(&self, words: usize) -> bool {
        let words = i32::try_from(words).unwrap_or(i32::MAX);
        match self.arity {
            exactly @ 0.. => words == exactly,
            least => words >= -least,
        }
    }

    pub(crate) fn writes(&self) -> bool {
        self.flags.contains(&"write")
    }

    /// How it is served in a database that holds that.
    #[inline]
    pub(crate) fn served(&self, holds: Holds) -> Option<&'static Served> {
        let Run::Keys(by_kind) = self.run else {
            return None;
        };
        let kind = Kind::of(holds);
        by_kind.iter().find(|served| served.kind == kind)
    }

    /// Whether any database has it. What none has is a row so that a table says that it is read only.
    pub(crate) fn is_served(&self) -> bool {
        !matches!(self.run, Run::Keys([]))
    }

    /// Whether it is of those that a transaction is made of, and not queued.
    pub(crate) fn is_of_transactions(&self) -> bool {
        ["multi", "exec", "discard", "quit", "reset"].contains(&self.name)
    }

    /// What to answer in a database that does not have it; a store does not know such a command.
    pub(crate) fn not_served(&self, database: &Database) -> Option<String> {
        let Database { number, name, holds } = database;
        match (holds, self.writes()) {
            (Holds::Store, _) => None,
            (Holds::Table(_), true) => Some(format!(
                "READONLY You can't write against a read only replica: DB {number} is {holds} '{name}'"
            )),
            (Holds::Table(_), false) => Some(format!(
                "ERR command '{}' is not served in DB {number}, which is {holds} '{name}'",
                self.name
            )),
        }
    }
}

/// The row of a name, in whatever case.
#[inline]
pub(crate) fn find(name: &[u8]) -> Option<&'static Row> {
    let mut lower = [0; NAME_BYTES_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let at = ROWS.binary_search_by(|row| row.name.as_bytes().cmp(lower));
    at.ok().and_then(|at| ROWS.get(at))
}

/// What Redis says of a command with too few or too many words.
pub(crate) fn wrong_number(command: &str) -> String {
    format!("ERR wrong number of arguments for '{command}' command")
}

/// The error for a second word that is no subcommand.
fn no_subcommand(command: &str, given: &[u8]) -> String {
    let shown = String::from_utf8_lossy(given.get(..64).unwrap_or(given)).into_owned();
    let upper = command.to_ascii_uppercase();
    format!("ERR unknown subcommand '{shown}'. Try {upper} HELP.")
}

/// What the HELP of a command with subcommands answers: each of these, and what it does.
fn help(command: &str, subcommands: &[(&str, &str)], reply: &mut RespReply<'_>) {
    let upper = command.to_ascii_uppercase();
    reply.array(2 * subcommands.len() + 3);
    reply.status(&format!(
        "{upper} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    ));
    for (subcommand, does) in subcommands.iter().chain(&[("HELP", "Print this help.")]) {
        reply.status(subcommand);
        reply.status(&format!("    {does}"));
    }
}

/// A word in lower case, where it is text of at most a few bytes.
fn lower(word: &[u8]) -> String {
    let word = word.get(..64).unwrap_or(word);
    String::from_utf8_lossy(word).to_ascii_lowercase()
}

const SYNTAX: &str = "ERR syntax error";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::databases::Keys;

    #[test]
    fn rows_stand_in_order_and_are_found_in_any_case() {
        assert!(ROWS.is_sorted_by(|one, next| one.name < next.name));
        for row in ROWS {
            assert!(row.name.len() <= NAME_BYTES_MAX, "{}", row.name);
            let found = find(row.name.to_ascii_uppercase().as_bytes());
            assert_eq!(found.map(|found| found.name), Some(row.name));
            let of_table = row.served(Holds::Table(Keys::Decimal)).is_some();
            assert!(!row.writes() || !of_table, "{}", row.name);
        }
        assert!(find(b"getx").is_none() && find(b"").is_none() && find(&[b'g'; 100]).is_none());
    }

    #[test]
    fn arity_counts_the_name() {
        let get = find(b"get").map(|row| [1, 2, 3].map(|words| row.takes(words)));
        assert_eq!(get, Some([false, true, false]));
        let mget = find(b"mget").map(|row| [1, 2, 3].map(|words| row.takes(words)));
        assert_eq!(mget, Some([false, true, true]));
    }
}
