//! The commands of a connection: HELLO, AUTH, SELECT, PING, ECHO, RESET and QUIT.
//! Its invariant: HELLO and AUTH change nothing where any part of them is refused.

use super::store::numbers::integer;
use super::{Asked, Asking, Here, SYNTAX, wrong_number};
use crate::form::error_text;
use crate::state::{NAME_BYTES_MAX, State, TOKEN_BYTES_MAX};
use millpond_calls::access::Login;
use millpond_wire_frame::{Encoding, RespReply, RespVersion, RespWords};
use millpond_wire_payload::Encoder;
use millpond_wire_schema::{Method as _, Ping};
use std::sync::Arc;

const BAD_LOGIN: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_TOKENS: &str = "ERR AUTH <password> called without any password configured for the default user. Are you sure \
                         your configuration is correct? (access.tokens)";
/// The user of clients that name none: any group's token will do.
const ANY_USER: &str = "default";

pub(super) fn ping(asking: &mut Asking<'_>, mut words: RespWords<'_>) -> Result<Asked, String> {
    let text = words.next().map(Arc::from);
    if words.next().is_some() {
        return Err(wrong_number("ping"));
    }
    Encoder::new(asking.payload, Encoding::Msgpack, false).map(|_| ());
    let asked = Asked::of(Ping::NAME, |_, form, reply| {
        match &form.asked.text {
            Some(text) => reply.bulk(text),
            None => reply.status("PONG"),
        }
        Ok(())
    });
    Ok(Asked { text, ..asked })
}

pub(super) fn echo(here: &mut Here<'_>, mut words: RespWords<'_>, out: &mut Vec<u8>) {
    here.reply(out).bulk(words.next().unwrap_or_default());
}

pub(super) fn select(here: &mut Here<'_>, mut words: RespWords<'_>, out: &mut Vec<u8>) {
    let number = words.next().and_then(integer);
    let Some(number) = number else {
        return here.reply(out).error(super::store::numbers::NO_INTEGER);
    };
    let known = u32::try_from(number)
        .ok()
        .filter(|number| here.options.databases.find(*number).is_some());
    match known {
        Some(number) => {
            here.state.database = number;
            here.reply(out).status("OK");
        }
        // A connection begins with number 0, which may hold nothing, and pools of clients go back to it.
        None if number == 0 => {
            here.state.database = 0;
            here.reply(out).status("OK");
        }
        None => here.reply(out).error("ERR DB index is out of range"),
    }
}

pub(super) fn auth(here: &mut Here<'_>, words: RespWords<'_>, out: &mut Vec<u8>) {
    let words: Vec<&[u8]> = words.take(3).collect();
    let checked = match words[..] {
        [token] => login(here, None, token),
        [user, token] => login(here, Some(user), token),
        _ => Err(SYNTAX.to_owned()),
    };
    match checked {
        Ok(token) => {
            here.state.token = Some(token);
            here.reply(out).status("OK");
        }
        Err(text) => here.reply(out).error(&text),
    }
}

/// The token, where it is a group's.
fn login(here: &Here<'_>, user: Option<&[u8]>, token: &[u8]) -> Result<Box<str>, String> {
    let user = user.map(std::str::from_utf8).transpose();
    let (Ok(user), Ok(token)) = (user, std::str::from_utf8(token)) else {
        return Err(BAD_LOGIN.to_owned());
    };
    if token.len() > TOKEN_BYTES_MAX {
        return Err(BAD_LOGIN.to_owned());
    }
    match (here.login)(user.filter(|user| *user != ANY_USER), token) {
        Ok(Login::Known) => Ok(token.into()),
        Ok(Login::Unknown) => Err(BAD_LOGIN.to_owned()),
        Ok(Login::NoTokens) => Err(NO_TOKENS.to_owned()),
        Err(status) => Err(error_text(&status)),
    }
}

/// HELLO [version [AUTH user token] [SETNAME name]].
pub(super) fn hello(here: &mut Here<'_>, words: RespWords<'_>, out: &mut Vec<u8>) {
    match greeted(here, words) {
        Err(text) => here.reply(out).error(&text),
        Ok(Greeting { version, token, name }) => {
            here.state.version = version;
            if token.is_some() {
                here.state.token = token;
            }
            if let Some(name) = name {
                here.state.name = name;
            }
            greet(here, &mut here.reply(out));
        }
    }
}

/// What HELLO asks for.
struct Greeting {
    version: RespVersion,
    token: Option<Box<str>>,
    name: Option<Box<str>>,
}

fn greeted(here: &Here<'_>, mut words: RespWords<'_>) -> Result<Greeting, String> {
    let mut greeting = Greeting {
        version: here.state.version,
        token: None,
        name: None,
    };
    let Some(version) = words.next() else {
        return Ok(greeting);
    };
    let number = integer(version).ok_or("ERR Protocol version is not an integer or out of range")?;
    greeting.version = RespVersion::from_number(number).ok_or("NOPROTO unsupported protocol version")?;
    while let Some(option) = words.next() {
        let refused = || {
            let shown = String::from_utf8_lossy(option.get(..64).unwrap_or(option)).into_owned();
            format!("ERR Syntax error in HELLO option '{shown}'")
        };
        if option.eq_ignore_ascii_case(b"auth") {
            let user = words.next().ok_or_else(refused)?;
            let token = words.next().ok_or_else(refused)?;
            greeting.token = Some(login(here, Some(user), token)?);
        } else if option.eq_ignore_ascii_case(b"setname") {
            greeting.name = Some(name(words.next().ok_or_else(refused)?)?);
        } else {
            return Err(refused());
        }
    }
    Ok(greeting)
}

/// A client's name, as Redis allows it.
pub(super) fn name(word: &[u8]) -> Result<Box<str>, String> {
    let is_graphic = word.iter().all(u8::is_ascii_graphic);
    match std::str::from_utf8(word) {
        Ok(name) if is_graphic && name.len() <= NAME_BYTES_MAX => Ok(name.into()),
        Ok(_) if is_graphic => Err(format!(
            "ERR a client's name has at most {NAME_BYTES_MAX} bytes; this one has {}",
            word.len()
        )),
        _ => Err("ERR Client names cannot contain spaces, newlines or special characters.".to_owned()),
    }
}

fn greet(here: &Here<'_>, reply: &mut RespReply<'_>) {
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"millpond");
    reply.bulk(b"version");
    reply.bulk(here.options.version.as_bytes());
    reply.bulk(b"proto");
    reply.integer(here.state.version.number());
    reply.bulk(b"id");
    reply.integer(i64::try_from(here.connection).unwrap_or(i64::MAX));
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
}

pub(super) fn reset(here: &mut Here<'_>, _: RespWords<'_>, out: &mut Vec<u8>) {
    *here.state = State::default();
    here.reply(out).status("RESET");
}

pub(super) fn quit(here: &mut Here<'_>, _: RespWords<'_>, out: &mut Vec<u8>) {
    here.reply(out).status("OK");
    here.ends = true;
}
