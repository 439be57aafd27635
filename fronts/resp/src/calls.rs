//! What a command is made of: an answer of its connection, or one call, which those behind it may share.
//!
//! Its invariant: commands share a call only where none of them can be told that others were there; a call of several that is
//! refused as a whole, and has changed nothing, is made again for fewer of them, and at last for each.

use crate::again::Again;
use crate::commands::store::{self, Compile, Operations, Part, Parts};
use crate::commands::{Answer, Ask, Asked, Asking, Here, Join, Row, Run, Served, find};
use crate::databases::Database;
use crate::form::Form;
use crate::{Commands, WORDS_MAX, unknown};
use millpond_calls::{Call, Service};
use millpond_fronts_answer::{Serving, serve};
use millpond_net::Turn;
use millpond_wire_frame::{Encoding, Parsed, RespCommand, RespWords, parse_resp};
use std::sync::Arc;

/// Commands that one batch of a store may answer, and bytes of its operations from which on it takes no further one; a command
/// that has more shares none.
const BATCHED_MAX: usize = 128;
const BATCHED_BYTES: usize = 32 << 10;
/// Bytes of further commands from which on it takes no further one: they are kept, and may have many words for few operations.
const KEPT_BYTES: usize = 2 * BATCHED_BYTES;

impl Commands {
    /// Runs a command; returns the bytes of those behind it that its call has answered too.
    pub(crate) fn run<S: Service>(
        &mut self,
        local: &Serving<S>,
        turn: &mut Turn<'_>,
        row: &'static Row,
        command: &RespCommand<'_>,
        (own, behind): (&[u8], &[u8]),
    ) -> usize {
        // Those that share a call are kept until it has an answer.
        let behind = if own.len() > BATCHED_BYTES { &[] } else { behind };
        if !matches!(row.run, Run::Keys(_)) && command.len() > WORDS_MAX {
            let text = format!(
                "ERR '{}' has {} words; at most {WORDS_MAX} are read",
                row.name,
                command.len()
            );
            self.spoil(turn, &text);
            return 0;
        }
        let mut words = command.words();
        words.next();
        if self.state.queued.is_some() && !row.is_of_transactions() {
            self.queue(local, turn, row, words);
            return 0;
        }
        let (ask, join) = match &row.run {
            Run::Here(answer) => {
                self.answer_here(local, turn, *answer, words);
                return 0;
            }
            Run::Exec => {
                self.exec(local, turn);
                return 0;
            }
            Run::Call(ask) => (*ask, None),
            Run::Keys(_) => match self.served(row) {
                Err(text) => {
                    self.fail(turn, &text);
                    return 0;
                }
                Ok((database, served)) => {
                    let ask = served.and_then(|served| Some((served.asks(row, command.len())?, served.join)));
                    let compile = served.and_then(|served| served.compile);
                    match (ask, compile) {
                        (Some(ask), _) => ask,
                        (None, Some(compile)) => {
                            return self.batch(local, turn, (database, compile, words), (own, behind));
                        }
                        (None, None) => {
                            self.fail_unserved(turn, row, database, command);
                            return 0;
                        }
                    }
                }
            },
        };
        self.with_scratch(turn, |session, turn, payload| {
            session.call(local, turn, (row, ask, join, words), (own, behind), payload)
        })
    }

    /// Answers that what is selected does not have the command.
    fn fail_unserved(&self, turn: &mut Turn<'_>, row: &Row, database: &Database, command: &RespCommand<'_>) {
        let text = row.not_served(database).unwrap_or_else(|| {
            let mut words = command.words();
            unknown(words.next().unwrap_or_default(), words)
        });
        self.fail(turn, &text);
    }

    /// What is selected, and how a command is served there.
    fn served(&self, row: &Row) -> Result<(&'static Database, Option<&'static Served>), String> {
        let database = self.options.databases.get(self.state.database)?;
        Ok((database, row.served(database.holds)))
    }

    /// Lends the thread's buffer for the map of a call.
    fn with_scratch<T>(
        &mut self,
        turn: &mut Turn<'_>,
        work: impl FnOnce(&mut Commands, &mut Turn<'_>, &mut Vec<u8>) -> T,
    ) -> T {
        let mut payload = std::mem::take(turn.scratch);
        payload.clear();
        let done = work(self, turn, &mut payload);
        *turn.scratch = payload;
        done
    }

    /// Makes the one call of a command, or of several of its row.
    fn call<S: Service>(
        &mut self,
        local: &Serving<S>,
        turn: &mut Turn<'_>,
        (row, ask, join, words): (&'static Row, Ask, Option<Join>, RespWords<'_>),
        (own, behind): (&[u8], &[u8]),
        payload: &mut Vec<u8>,
    ) -> usize {
        let database = self.options.databases.find(self.state.database);
        let mut asking = Asking {
            databases: self.options.databases,
            database,
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
        let used = match join {
            Some(join) => self.join(row, join, &mut asking, &mut asked, behind),
            None => 0,
        };
        if used > 0 && database.is_some_and(|database| database.table_keys().is_none()) {
            asked.again = Some(self.keep(
                own,
                behind.get(..used).unwrap_or_default(),
                asked.answers as usize,
            ));
        }
        self.send(local, turn, asked, database, payload);
        used
    }

    /// Keeps so many commands that share a call, to go again in smaller ones.
    fn keep(&mut self, own: &[u8], behind: &[u8], count: usize) -> Arc<Again> {
        let again = self.again.get_or_insert_default();
        again.keep([own, behind].concat(), count);
        Arc::clone(again)
    }

    fn send<S: Service>(
        &self,
        local: &Serving<S>,
        turn: &mut Turn<'_>,
        asked: Asked,
        database: Option<&'static Database>,
        payload: &[u8],
    ) {
        let form = Form {
            version: self.state.version,
            database,
            databases: self.options.databases,
            server_version: self.options.version,
            asked,
        };
        let mut call: Call<'_> = local.call(turn, form.asked.method, Encoding::Msgpack, payload);
        call.meta.token = self.state.token.as_deref();
        serve(turn, form, None, |reply| local.service.call(&call, reply));
    }

    /// Takes commands of the same row behind one into its call, as long as they are whole and mean one key more each.
    fn join(
        &self,
        row: &'static Row,
        join: Join,
        asking: &mut Asking<'_>,
        asked: &mut Asked,
        behind: &[u8],
    ) -> usize {
        let is_store = asking
            .database
            .is_some_and(|database| database.table_keys().is_none());
        let mut used = 0;
        while asked.answers < self.options.joined_max && (asked.answers as usize) < self.shared_max {
            let rest = behind.get(used..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            let Ok(Parsed::Whole { message, len }) = parse_resp(rest, self.options.limits) else {
                break;
            };
            if is_store && used + len > BATCHED_BYTES {
                break;
            }
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

    /// Makes the batch of a store's command, and of those behind it that have operations too.
    fn batch<S: Service>(
        &mut self,
        local: &Serving<S>,
        turn: &mut Turn<'_>,
        (database, compile, words): (&'static Database, Compile, RespWords<'_>),
        (own, behind): (&[u8], &[u8]),
    ) -> usize {
        self.with_scratch(turn, |session, turn, payload| {
            store::begin(payload, &database.name);
            let begin = payload.len();
            let mut out = Operations::behind(payload, 0);
            let first = match out.compile(compile, words) {
                Ok(first) => first,
                Err(text) => {
                    session.fail(turn, &text);
                    return 0;
                }
            };
            let (parts, used) = session.batched(first, &mut out, behind);
            let count = out.count();
            store::set_count(payload, begin, count);
            let mut asked = store::batch(parts);
            if used > 0 {
                let count = asked.answers as usize;
                asked.again = Some(session.keep(own, behind.get(..used).unwrap_or_default(), count));
            }
            session.send(local, turn, asked, Some(database), payload);
            used
        })
    }

    /// Takes commands behind the first one into its batch, as long as they are whole, have operations, and none has a condition.
    fn batched(&self, first: Part, out: &mut Operations<'_>, behind: &[u8]) -> (Parts, usize) {
        let mut used = 0;
        if behind.is_empty() || first.unmet.is_some() {
            return (Parts::One(first), used);
        }
        let mut parts = vec![first];
        while parts.len() < BATCHED_MAX.min(self.shared_max)
            && out.bytes() < BATCHED_BYTES
            && used < KEPT_BYTES
        {
            let Some((part, len)) = self.next_part(out, behind.get(used..).unwrap_or_default()) else {
                break;
            };
            parts.push(part);
            used += len;
        }
        match parts.len() {
            1 => (Parts::One(first), used),
            _ => (Parts::Joined(parts.into()), used),
        }
    }

    /// The next command, where it is whole and goes with others, and its bytes.
    fn next_part(&self, out: &mut Operations<'_>, rest: &[u8]) -> Option<(Part, usize)> {
        if rest.is_empty() {
            return None;
        }
        let Ok(Parsed::Whole { message, len }) = parse_resp(rest, self.options.limits) else {
            return None;
        };
        if len > BATCHED_BYTES {
            return None;
        }
        let mut words = message.words();
        let row = find(words.next()?).filter(|row| row.takes(message.len()))?;
        let compile = self.served(row).ok()?.1?.compile?;
        let place = out.place();
        let part = out.compile(compile, words).ok()?;
        if part.unmet.is_some() {
            out.go_back(place);
            return None;
        }
        Some((part, len))
    }

    /// Queues a command of a transaction.
    fn queue<S: Service>(
        &mut self,
        local: &Serving<S>,
        turn: &mut Turn<'_>,
        row: &'static Row,
        words: RespWords<'_>,
    ) {
        let bytes_max = self.options.limits.frame_bytes_max;
        let database = self.options.databases.get(self.state.database);
        self.here(local, turn, |here, out| {
            let queued = here.state.queued.as_mut();
            let pushed = queued.map(|queued| queued.push(row, database, words, bytes_max));
            match pushed {
                Some(Err(text)) => here.reply(out).error(&text),
                _ => here.reply(out).status("QUEUED"),
            }
        });
    }

    /// Makes the batch of a transaction.
    fn exec<S: Service>(&mut self, local: &Serving<S>, turn: &mut Turn<'_>) {
        let Some(queued) = self.state.queued.take() else {
            return self.fail(turn, "ERR EXEC without MULTI");
        };
        let database = self.options.databases.find(self.state.database);
        let name = database.map_or("", |database| &database.name);
        self.with_scratch(turn, |session, turn, payload| match queued.call(name, payload) {
            Ok(Some(asked)) => session.send(local, turn, asked, database, payload),
            Ok(None) => session.here(local, turn, |here, out| here.reply(out).array(0)),
            Err(text) => session.fail(turn, &text),
        });
    }

    /// Has the connection answer a command itself.
    fn answer_here<S: Service>(
        &mut self,
        local: &Serving<S>,
        turn: &mut Turn<'_>,
        answer: Answer,
        words: RespWords<'_>,
    ) {
        self.here(local, turn, |here, out| answer(here, words, out));
    }

    /// Writes what the connection answers itself, where it may be answered at all.
    fn here<S: Service>(
        &mut self,
        local: &Serving<S>,
        turn: &mut Turn<'_>,
        answer: impl FnOnce(&mut Here<'_>, &mut Vec<u8>),
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
        answer(&mut here, turn.out());
        let ends = here.ends;
        turn.finish(start);
        if ends {
            turn.close();
        }
    }
}
